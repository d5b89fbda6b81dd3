"""The report: table, aims, versions and circumstances, written into tests/bench/README.md, with the plot beside it.

What it costs, in short, is written into the README of the project.
"""

import re
from pathlib import Path
from typing import Final

from tests.bench.peers.measures import OURS_ON, PEER
from tests.bench.peers.plot import drawing
from tests.bench.peers.record import Record
from tests.bench.peers.run import ENGINE
from tests.bench.peers.subjects import CONTRACT_OFF, CONTRACT_ON, largest_preset
from tests.bench.peers.table import aims, failures, table, table_of
from tests.checkout import CHECKOUT

FOLDER: Final = Path(__file__).resolve().parents[1]
README, PLOT = FOLDER / "README.md", FOLDER / "peers.svg"
BEGIN: Final = "<!-- peers: written by python -m tests.bench.peers -->"
END: Final = "<!-- end of peers -->"
COSTS: Final = CHECKOUT / "README.md"
COSTS_BEGIN: Final = "<!-- costs: written by python -m tests.bench.peers -->"
COSTS_END: Final = "<!-- end of costs -->"
COSTS_ROWS: Final = (
    "CPU per request, 1 KB (µs)",
    "CPU per request, 32 KB (µs)",
    "CPU per request, 1 MB (µs)",
    "requests/s, two workers, 1 KB",
    "1000 streams: CPU per chunk (µs)",
    "memory of a worker, idle, RSS (MB)",
)
COSTS_COLUMNS: Final = ("nginx", "Envoy", PEER, "LiteLLM", OURS_ON)

METHOD: Final = (
    "Medians of the rounds, and their range. The subjects take turns in each round. CPU per request, latency and "
    "streams: one worker on a core of its own, engine and load on the others; requests/s and memory: two workers on "
    f"all cores, shared with engine and load. Added latency is what comes on top of {ENGINE}, in the same "
    "round. Streams begin one a millisecond, with 20 chunks a second each. "
    "While one is measured the others stand still."
)


PRIORITY: Final = " All of it came before other work of the machine (nice -20)."


def report(record: Record) -> str:
    """Return the report as Markdown."""
    about = record.about
    # Ours are one program under several contracts.
    by_program = {name.partition(",")[0]: version for name, version in about.get("versions", {}).items()}
    versions = "; ".join(f"{name} {version}" for name, version in by_program.items())
    quick = " A quick run: what it shows is that all works." if about.get("quick") else ""
    circumstances = (
        f"{about.get('date', '')}, {about.get('machine', '')}, {about.get('system', '')}. Load average "
        f"{about.get('load_at_start', 0):.1f} before and {about.get('load_at_end', 0):.1f} at the end.{quick}"
        f"{PRIORITY if about.get('niceness', 0) < 0 else ''} Python {about.get('python', '')}."
    )
    parts = [circumstances, METHOD, table(record).rstrip()]
    if "enforcement" in about:
        parts.append(_enforcement(about["enforcement"]))
    parts += [aims(record).rstrip(), f"Versions: {versions}."]
    parts += ["\n".join(f"- {line}" for line in failures(record))] if failures(record) else []
    return "\n\n".join(parts) + "\n"


def _enforcement(found: dict[str, float]) -> str:
    off, on, largest = found[CONTRACT_OFF], found[CONTRACT_ON], found[largest_preset()]
    return (
        f"A decision on a 1 KB request takes {off:.1f} µs of CPU with {CONTRACT_OFF}, {on:.1f} with {CONTRACT_ON} and "
        f"{largest:.1f} with {largest_preset()}, which holds a request to the most rules: {found['difference']:.1f} µs "
        f"more than {CONTRACT_ON}, side by side in one process. The contract on against off costs a decision "
        f"{on - off:.1f} µs."
    )


def costs(record: Record) -> str:
    """Return what the router costs, in short: medians alone."""
    about = record.about
    python = str(about.get("python", "")).partition(" ")[0]
    date = str(about.get("date", "")).partition(" ")[0]
    return f"{date}, {about.get('machine', '')}, Python {python}:\n\n" + table_of(record, COSTS_ROWS, COSTS_COLUMNS)


def placed(text: str, section: str, begin: str = BEGIN, end: str = END) -> str:
    """Return a text with the section between its markers, or a new one at its end."""
    whole = f"{begin}\n{section}{end}\n"
    between = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end) + r"\n", re.DOTALL)
    if between.search(text):
        return between.sub(lambda _: whole, text)
    return f"{text.rstrip()}\n\n### Beside other gateways\n\n{whole}"


def write(record: Record) -> None:
    """Write the report and the plot into the folder of the benches."""
    PLOT.write_text(drawing(record))
    section = f"{report(record)}\n![CPU per request, requests a second and streams of each gateway]({PLOT.name})\n"
    README.write_text(placed(README.read_text(), section))
    COSTS.write_text(placed(COSTS.read_text(), costs(record), COSTS_BEGIN, COSTS_END))
