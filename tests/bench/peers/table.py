"""The table: a row for each figure, a column for each subject, the median of the rounds and their range."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.bench.peers.bodies import CLOSING, CPU_BODIES, FORMS, KEPT, ONE_TEXT, TLS
from tests.bench.peers.measures import (
    BALANCE_CASES,
    LARGE_CASE,
    LATENCY_RATE,
    LEAVING_CASES,
    LEAVING_SECONDS,
    OURS_ON,
    PEER,
    SATURATED,
    STREAM_CASES,
)
from tests.bench.peers.record import SETUP, WHOLE, Figures, Key, Record, Spread
from tests.bench.peers.run import ENGINE
from tests.bench.peers.subjects import BARE, EDITED, OURS, largest_preset

MB, KB = 1e6, 1e3
NOTHING: Final = ""
_RATE: Final = "requests/s, two workers, 1 KB"
_DELAY: Final = "1000 streams: chunk delay, p99 (ms)"
_LARGE: Final = f"1 KB beside it, {LARGE_CASE}, p99 (ms)"


class Row(NamedTuple):
    """A figure: what it is called, and how it is read from the samples of a measure and a case."""

    label: str
    measure: str
    case: str
    value: Callable[[Record, Key, Figures], float | None]


def _named(name: str, scale: float = 1.0) -> Callable[[Record, Key, Figures], float | None]:
    def value(_record: Record, _key: Key, figures: Figures) -> float | None:
        return figures[name] * scale if name in figures else None

    return value


def _added(name: str) -> Callable[[Record, Key, Figures], float | None]:
    """Return what a subject adds to the figure that the engine alone has in the same round."""

    def value(record: Record, key: Key, figures: Figures) -> float | None:
        alone = record.samples.get(key._replace(subject=ENGINE))
        return (figures[name] - alone[name]) / 1000 if alone else None

    return value


def rows() -> Iterator[Row]:
    """Yield all rows, in the order of the table."""
    for size in CPU_BODIES:
        yield Row(_cpu(size), "cpu", size, _named("cpu_us"))
    for form in FORMS:
        yield Row(_of_form(form), "forms", form, _named("cpu_us"))
    yield Row(_of_form(TLS), "tls", TLS, _named("cpu_us"))
    for name in ("p50", "p99"):
        case = f"{LATENCY_RATE}/s"
        yield Row(f"added latency at {case}, {name} (ms)", "latency", case, _added(f"{name}_us"))
    yield Row(_RATE, "rate", "1 KB", _named("rate"))
    for case in BALANCE_CASES:
        yield Row(_busiest(case), "balance", case, _named("worst_share", 100))
    yield Row(_LARGE, "large", LARGE_CASE, _named("p99_us", 1e-3))
    for when, words in (("idle", "idle"), ("after", "after load")):
        for kind in ("rss", "pss"):
            label = f"memory of a worker, {words}, {kind.upper()} (MB)"
            yield Row(label, "memory", "two workers", _named(f"{when}_{kind}", 1 / MB))
    yield Row(
        "memory of all its processes after load, PSS (MB)", "memory", "two workers", _named("after_whole_pss", 1 / MB)
    )
    for count in STREAM_CASES:
        yield Row(_came(count), "streams", count, _named("share_of_chunks", 100))
        yield Row(f"{count} streams: first chunk, p50 (ms)", "streams", count, _named("first_p50_us", 1e-3))
        yield Row(f"{count} streams: chunk delay, p50 (ms)", "streams", count, _named("p50_us", 1e-3))
        yield Row(f"{count} streams: chunk delay, p99 (ms)", "streams", count, _named("p99_us", 1e-3))
        yield Row(f"{count} streams: CPU per chunk (µs)", "streams", count, _named("cpu_us"))
        yield Row(f"{count} streams: memory of a stream (KB)", "streams", count, _named("bytes_a_stream", 1 / KB))
    edited = f"{STREAM_CASES[-1]} streams, each event edited"
    yield Row(_chunk("edited streams"), "edited streams", STREAM_CASES[-1], _named("cpu_us"))
    yield Row(f"{edited}: chunk delay, p99 (ms)", "edited streams", STREAM_CASES[-1], _named("p99_us", 1e-3))
    for case in LEAVING_CASES:
        yield Row(f"client gone {case}, median (ms)", "leaving", case, _named("median_ms"))
    yield Row("start to first answer (s)", "start", "one worker", _named("seconds"))


def _cpu(body: str) -> str:
    return f"CPU per request, {body} (µs)"


def _of_form(form: str) -> str:
    return f"CPU per request, 1 KB, {form} (µs)"


def _busiest(case: str) -> str:
    return f"busiest of two workers, {case}, worst trial (%)"


def _chunk(measure: str) -> str:
    edited = ", each event edited" if measure == "edited streams" else ""
    return f"{STREAM_CASES[-1]} streams{edited}: CPU per chunk (µs)"


def _came(count: str) -> str:
    return f"{count} streams: chunks that came (%)"


def number(value: float) -> str:
    """Return a number in three significant digits, as people write it."""
    if math.isinf(value):
        return f"over {LEAVING_SECONDS:g} s"
    if value and abs(value) < 100:
        digits = max(0, 2 - math.floor(math.log10(abs(value)))) if abs(value) >= 0.01 else 3
        return f"{value:.{digits}f}"
    return f"{round(value, 2 - math.floor(math.log10(abs(value)))):,.0f}" if value else "0"


def shown(spread: Spread) -> str:
    """Return a median with its range; alone where there is no range."""
    if number(spread.least) == number(spread.most):
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.least)} to {number(spread.most)})"


def spread_of(record: Record, row: Row, subject: str) -> Spread | None:
    """Return the figure of a row for a subject."""
    return record.spread(row.measure, row.case, subject, lambda key, figures: row.value(record, key, figures))


def columns(record: Record) -> list[str]:
    """Return the subjects that have figures, in the order in which they were set up."""
    measured = {key.subject for key in record.samples}
    order = dict.fromkeys([*record.about.get("versions", {}), *sorted(measured)])
    return [name for name in order if name in measured and name != ENGINE]


def table(record: Record) -> str:
    """Return the table; a cell without a figure says in a word why, and what is in full below it."""
    names = columns(record)
    lines = [_line(["", *names]), _line(["---"] * (len(names) + 1))]
    for row in rows():
        cells = [_cell(record, row, name) for name in names]
        if any(cells):
            lines.append(_line([row.label, *cells]))
    return "\n".join(lines) + "\n"


def table_of(record: Record, labels: Sequence[str], subjects: Sequence[str]) -> str:
    """Return the medians of some rows and some subjects, those without any figure left out."""
    chosen = [row for row in rows() if row.label in labels]
    names = [name for name in subjects if any(spread_of(record, row, name) for row in chosen)]
    lines = [_line(["", *names]), _line(["---", *["--:"] * len(names)])]
    for row in chosen:
        spreads = [spread_of(record, row, name) for name in names]
        if any(spreads):
            lines.append(_line([row.label, *(number(spread.median) if spread else NOTHING for spread in spreads)]))
    return "\n".join(lines) + "\n"


def _cell(record: Record, row: Row, subject: str) -> str:
    spread = spread_of(record, row, subject)
    if spread is not None:
        return shown(spread)
    failure = record.failures.get((row.measure, row.case, subject)) or record.failures.get(
        (row.measure, WHOLE, subject)
    )
    return NOTHING if failure is None else SATURATED if failure.startswith(SATURATED) else "failed"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def failures(record: Record) -> list[str]:
    """Return what could not be set up or measured, with the reasons, once each."""
    found: dict[str, None] = {}
    for (measure, case, subject), reason in record.failures.items():
        if measure == SETUP:
            found[f"{subject} is not available: {reason}"] = None
        elif not reason.startswith(SATURATED):
            found[f"{subject}, {' '.join(filter(None, (measure, case)))}: {reason}"] = None
    return list(found)


class Aim(NamedTuple):
    """An aim: what is compared, how, and the most or the least that it should be."""

    label: str
    bound: float
    found: Callable[[Mapping[str, "Figure"]], float | None]
    at_least: bool = False
    chunks: str | None = None
    """The row that says whether all chunks came, of which the figures mean little otherwise."""


Figure = Callable[[str], float | None]
"""A row of the table as a function of the subject."""


def _ratio(row: str, to: str, ours: str = OURS_ON) -> Callable[[Mapping[str, Figure]], float | None]:
    def found(figures: Mapping[str, Figure]) -> float | None:
        mine, other = figures[row](ours), figures[row](to)
        return mine / other if mine is not None and other else None

    return found


def _own(*labels: str, of: str = OURS_ON) -> Callable[[Mapping[str, Figure]], float | None]:
    """Return the worst of some figures of our router."""

    def found(figures: Mapping[str, Figure]) -> float | None:
        values = [figures[label](of) for label in labels]
        return None if None in values else max(value for value in values if value is not None)

    return found


def _to_plain(form: str) -> Callable[[Mapping[str, Figure]], float | None]:
    """Return what a form costs in multiples of the plain one, without what a bare loop pays for it, too."""

    def found(figures: Mapping[str, Figure]) -> float | None:
        ours, plain = (figures[_of_form(each)](OURS_ON) for each in (form, KEPT))
        bare, bare_plain = (figures[_of_form(each)](BARE) for each in (form, KEPT))
        if ours is None or not plain:
            return None
        if form not in {CLOSING, TLS}:
            return ours / plain
        return None if bare is None or bare_plain is None else (ours - (bare - bare_plain)) / plain

    return found


ALL_CAME: Final = 95.0
"""Percentage of the chunks above which a subject bore its streams."""
MOST: Final = _came(STREAM_CASES[-1])
GONE = tuple(f"client gone {case}, median (ms)" for case in LEAVING_CASES)
AIMS: Final = (
    Aim(f"CPU, 1 KB, to {PEER}", 1.15, _ratio(_cpu("1 KB"), PEER)),
    Aim(f"CPU, 1 KB, the largest preset, to {PEER}", 1.35, _ratio(_cpu("1 KB"), PEER, OURS + largest_preset())),
    Aim(f"CPU, 32 KB in 64 messages, to {PEER}", 0.95, _ratio(_cpu("32 KB"), PEER)),
    Aim(f"CPU, 32 KB{ONE_TEXT}, to {PEER}", 1.0, _ratio(_cpu(f"32 KB{ONE_TEXT}"), PEER)),
    Aim(f"CPU, 1 MB, an image, to {PEER}", 0.85, _ratio(_cpu("1 MB"), PEER)),
    Aim(f"CPU, 1 MB{ONE_TEXT}, to {PEER}", 0.85, _ratio(_cpu(f"1 MB{ONE_TEXT}"), PEER)),
    Aim("CPU, 1 KB, to Envoy", 1.8, _ratio(_cpu("1 KB"), "Envoy")),
    *(Aim(f"CPU, 1 KB, {form}, to plain", 1.3, _to_plain(form)) for form in FORMS[1:]),
    Aim("CPU, 1 KB, TLS without its own cost, to plain", 1.3, _to_plain(TLS)),
    Aim(f"1,000 streams: CPU per chunk, to {PEER}", 1.1, _ratio(_chunk("streams"), PEER), chunks=MOST),
    Aim(f"1,000 streams: chunk delay, p99, to {PEER}", 1.0, _ratio(_DELAY, PEER), chunks=MOST),
    Aim(f"1,000 streams with edits: CPU per chunk, to {PEER}", 1.5, _ratio(_chunk("edited streams"), PEER, EDITED)),
    Aim(f"requests/s, two workers, to {PEER}", 0.85, _ratio(_RATE, PEER), at_least=True),
    *(Aim(f"busiest of two workers, {case}, worst trial (%)", 62.5, _own(_busiest(case))) for case in BALANCE_CASES),
    Aim("1 KB beside large bodies, p99 (ms)", 50, _own(_LARGE, of=EDITED)),
    Aim("1,000 streams: memory of a stream (KB)", 28, _own("1000 streams: memory of a stream (KB)"), chunks=MOST),
    Aim("memory of a worker, idle, RSS (MB)", 42, _own("memory of a worker, idle, RSS (MB)")),
    Aim("client gone, the slowest of the three (ms)", 5, _own(*GONE)),
)


def aims(record: Record) -> str:
    """Return the aims and what came of them, each of medians of this run."""

    def figure_of(row: Row) -> Figure:
        def figure(subject: str) -> float | None:
            spread = spread_of(record, row, subject)
            return spread.median if spread else None

        return figure

    figures = {row.label: figure_of(row) for row in rows()}
    lines = [_line([OURS_ON, "aim", "measured", "met"]), _line(["---"] * 4)]
    for aim in AIMS:
        found = aim.found(figures)
        if found is None:
            lines.append(_line([aim.label, _bound(aim), "not measured", NOTHING]))
            continue
        lost = _lost(aim, figures)
        if lost:
            lines.append(_line([aim.label, _bound(aim), number(found), f"not comparable: {lost}"]))
            continue
        is_met = found >= aim.bound if aim.at_least else found <= aim.bound
        by = f"no, by {abs(found / aim.bound - 1):.0%}"
        lines.append(_line([aim.label, _bound(aim), number(found), "yes" if is_met else by]))
    return "\n".join(lines) + "\n"


def _lost(aim: Aim, figures: Mapping[str, Figure]) -> str:
    """Say which of the compared subjects did not bear their streams, if any."""
    names = (OURS_ON, PEER) if aim.chunks else ()
    came = {name: figures[aim.chunks](name) for name in names} if aim.chunks else {}
    return ", ".join(
        f"{number(share)} % of the chunks of {name} came"
        for name, share in came.items()
        if share is not None and share < ALL_CAME
    )


def _bound(aim: Aim) -> str:
    return f"{'≥' if aim.at_least else '≤'} {aim.bound:g}"
