"""The table: a row for each figure, a column for each subject, the median of the rounds and their range."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tests.bench.peers.bodies import SIZES
from tests.bench.peers.measures import LATENCY_RATE, LEAVING_CASES, LEAVING_SECONDS, SATURATED, STREAM_CASES
from tests.bench.peers.record import SETUP, WHOLE, Figures, Key, Record, Spread
from tests.bench.peers.run import ENGINE
from tests.bench.peers.subjects import CONTRACT_OFF, CONTRACT_ON, OURS

MB, KB = 1e6, 1e3
NOTHING: Final = ""
PEER: Final = "sglang-router"
"""The peer that the aims are ratios to."""


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
    for size in SIZES:
        yield Row(f"CPU per request, {size} (µs)", "cpu", size, _named("cpu_us"))
    for name in ("p50", "p99"):
        case = f"{LATENCY_RATE}/s"
        yield Row(f"added latency at {case}, {name} (ms)", "latency", case, _added(f"{name}_us"))
    yield Row("requests/s, two workers, 1 KB", "rate", "1 KB", _named("rate"))
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
    for case in LEAVING_CASES:
        yield Row(f"client gone {case}, median (ms)", "leaving", case, _named("median_ms"))
    yield Row("start to first answer (s)", "start", "one worker", _named("seconds"))


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


def _ratio(row: str, to: str, ours: str = OURS + CONTRACT_ON) -> Callable[[Mapping[str, Figure]], float | None]:
    def found(figures: Mapping[str, Figure]) -> float | None:
        mine, other = figures[row](ours), figures[row](to)
        return mine / other if mine is not None and other else None

    return found


def _own(*labels: str) -> Callable[[Mapping[str, Figure]], float | None]:
    """Return the worst of some figures of our router."""

    def found(figures: Mapping[str, Figure]) -> float | None:
        values = [figures[label](OURS + CONTRACT_ON) for label in labels]
        return None if None in values else max(value for value in values if value is not None)

    return found


def _cost_of_contract(figures: Mapping[str, Figure]) -> float | None:
    row = figures["CPU per request, 1 KB (µs)"]
    on, off = row(OURS + CONTRACT_ON), row(OURS + CONTRACT_OFF)
    return on - off if on is not None and off is not None else None


ALL_CAME: Final = 95.0
"""Percentage of the chunks above which a subject bore its streams."""
MOST: Final = _came(STREAM_CASES[-1])
GONE = tuple(f"client gone {case}, median (ms)" for case in LEAVING_CASES)
AIMS: Final = (
    Aim(f"CPU per request, 1 KB, to {PEER}", 2.0, _ratio("CPU per request, 1 KB (µs)", PEER)),
    Aim("CPU per request, 1 KB, to LiteLLM", 1 / 50, _ratio("CPU per request, 1 KB (µs)", "LiteLLM")),
    Aim(f"CPU per request, 32 KB, to {PEER}", 1.3, _ratio("CPU per request, 32 KB (µs)", PEER)),
    Aim(f"CPU per request, 1 MB, to {PEER}", 0.7, _ratio("CPU per request, 1 MB (µs)", PEER)),
    Aim(f"requests/s, two workers, to {PEER}", 1.0, _ratio("requests/s, two workers, 1 KB", PEER), at_least=True),
    Aim(
        f"1,000 streams: chunk delay, p99, to {PEER}",
        1.0,
        _ratio("1000 streams: chunk delay, p99 (ms)", PEER),
        chunks=MOST,
    ),
    Aim(f"1,000 streams: CPU per chunk, to {PEER}", 1.2, _ratio("1000 streams: CPU per chunk (µs)", PEER), chunks=MOST),
    Aim("1,000 streams: memory of a stream (KB)", 40, _own("1000 streams: memory of a stream (KB)"), chunks=MOST),
    Aim("client gone, the slowest of the three (ms)", 5, _own(*GONE)),
    Aim("contract on against off, 1 KB (µs)", 10, _cost_of_contract),
    Aim("memory of a worker, idle, RSS (MB)", 45, _own("memory of a worker, idle, RSS (MB)")),
)


def aims(record: Record) -> str:
    """Return the aims and what came of them, each of medians of this run."""

    def figure_of(row: Row) -> Figure:
        def figure(subject: str) -> float | None:
            spread = spread_of(record, row, subject)
            return spread.median if spread else None

        return figure

    figures = {row.label: figure_of(row) for row in rows()}
    lines = [_line([f"{OURS}{CONTRACT_ON}", "aim", "measured", "met"]), _line(["---"] * 4)]
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
        lines.append(_line([aim.label, _bound(aim), number(found), "yes" if is_met else "no"]))
    return "\n".join(lines) + "\n"


def _lost(aim: Aim, figures: Mapping[str, Figure]) -> str:
    """Say which of the compared subjects did not bear their streams, if any."""
    names = (OURS + CONTRACT_ON, PEER) if aim.chunks else ()
    came = {name: figures[aim.chunks](name) for name in names} if aim.chunks else {}
    return ", ".join(
        f"{number(share)} % of the chunks of {name} came"
        for name, share in came.items()
        if share is not None and share < ALL_CAME
    )


def _bound(aim: Aim) -> str:
    return f"{'≥' if aim.at_least else '≤'} {aim.bound:g}"
