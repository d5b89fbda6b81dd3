"""The plot: panels of horizontal bars on a logarithmic axis, as SVG written by hand."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from tests.bench.peers.record import Record
from tests.bench.peers.subjects import OURS
from tests.bench.peers.table import ALL_CAME, Row, columns, number, rows, spread_of

WIDTH, LABEL_WIDTH, VALUE_WIDTH = 860, 240, 70
BAR, GAP, TITLE, AXIS, MARGIN = 13, 7, 34, 22, 14
INK, FAINT, OF_PEERS, OF_OURS = "#1f2328", "#d0d7de", "#8c959f", "#0969da"

PANELS: Final = {
    "CPU per request, 1 KB (µs)": "less is better",
    "CPU per request, 32 KB (µs)": "less is better",
    "CPU per request, 1 MB (µs)": "less is better",
    "CPU per request, 1 KB, HTTP/1.0 with close (µs)": "less is better",
    "requests/s, two workers, 1 KB": "more is better",
    "1000 streams: chunk delay, p99 (ms)": "less is better",
    "1000 streams: CPU per chunk (µs)": "less is better",
}
"""Rows of the table that are drawn, and how they are to be read."""


class Bar(NamedTuple):
    """One bar, with the range of the rounds."""

    label: str
    median: float
    least: float
    most: float


class Scale(NamedTuple):
    """A logarithmic axis of whole decades."""

    first: int
    last: int

    def at(self, value: float) -> float:
        """Return where a value stands on the drawing."""
        share = (math.log10(max(value, 10.0**self.first)) - self.first) / (self.last - self.first)
        return LABEL_WIDTH + min(1.0, share) * (WIDTH - LABEL_WIDTH - VALUE_WIDTH)


def scale_of(bars: Sequence[Bar]) -> Scale:
    """Return the axis on which all bars, and their ranges, can be seen."""
    least, most = min(bar.least for bar in bars), max(bar.most for bar in bars)
    first = math.floor(math.log10(least) - 0.1)
    return Scale(first, max(first + 1, math.ceil(math.log10(most))))


def plot(panels: Mapping[str, tuple[str, Sequence[Bar]]]) -> str:
    """Return the drawing of panels: by title a remark and the bars."""
    parts: list[str] = []
    top = MARGIN
    for title, (remark, bars) in panels.items():
        parts += _panel(title, remark, bars, top)
        top += TITLE + len(bars) * (BAR + GAP) + AXIS
    top += MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"


def _panel(title: str, remark: str, bars: Sequence[Bar], top: float) -> Iterator[str]:
    scale = scale_of(bars)
    yield f'<text x="{MARGIN}" y="{top + 14}" font-size="14" font-weight="600">{escape(title)}'
    yield f'<tspan font-size="12" font-weight="400" fill="{OF_PEERS}">  {escape(remark)}, logarithmic</tspan></text>'
    begin, end = top + TITLE - 6, top + TITLE + len(bars) * (BAR + GAP)
    for decade in range(scale.first, scale.last + 1):
        x = scale.at(10.0**decade)
        yield f'<line x1="{x:.1f}" y1="{begin}" x2="{x:.1f}" y2="{end}" stroke="{FAINT}"/>'
        yield f'<text x="{x:.1f}" y="{end + 12}" font-size="10" text-anchor="middle">{10.0**decade:,g}</text>'
    for place, bar in enumerate(bars):
        yield from _bar(bar, scale, top + TITLE + place * (BAR + GAP))


def _bar(bar: Bar, scale: Scale, y: float) -> Iterator[str]:
    colour = OF_OURS if bar.label.startswith(OURS) else OF_PEERS
    x, middle = scale.at(bar.median), y + BAR / 2
    yield f'<text x="{LABEL_WIDTH - 8}" y="{y + BAR - 2}" text-anchor="end">{escape(bar.label)}</text>'
    yield f'<rect x="{LABEL_WIDTH}" y="{y}" width="{max(1.0, x - LABEL_WIDTH):.1f}" height="{BAR}" fill="{colour}"/>'
    least, most = scale.at(bar.least), scale.at(bar.most)
    yield f'<line x1="{least:.1f}" y1="{middle}" x2="{most:.1f}" y2="{middle}" stroke="{INK}"/>'
    yield f'<text x="{max(x, most) + 5:.1f}" y="{y + BAR - 2}" font-size="11">{number(bar.median)}</text>'


def _labelled(record: Record, row: Row, name: str) -> str:
    """Return a subject's name, with the part of the chunks that came where it did not bear its streams."""
    came = record.spread(row.measure, row.case, name, lambda _, figures: figures.get("share_of_chunks"))
    return name if came is None or came.median * 100 >= ALL_CAME else f"{name} ({came.median:.0%} came)"


def drawing(record: Record) -> str:
    """Return the drawing of a record; subjects without a figure are left out of its panel."""
    panels = {}
    for row in rows():
        if row.label in PANELS:
            spreads = ((_labelled(record, row, name), spread_of(record, row, name)) for name in columns(record))
            bars = [Bar(name, *spread) for name, spread in spreads if spread is not None and spread.least > 0]
            if bars:
                panels[row.label] = (PANELS[row.label], bars)
    return plot(panels)
