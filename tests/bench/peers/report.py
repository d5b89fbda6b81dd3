"""The report: table, aims, versions and circumstances, written into tests/bench/README.md, with the plot beside it."""

import re
from pathlib import Path
from typing import Final

from tests.bench.peers.plot import drawing
from tests.bench.peers.record import Record
from tests.bench.peers.run import ENGINE
from tests.bench.peers.subjects import CONTRACT_OFF, CONTRACT_ON, largest_preset
from tests.bench.peers.table import aims, failures, table

FOLDER: Final = Path(__file__).resolve().parents[1]
README, PLOT = FOLDER / "README.md", FOLDER / "peers.svg"
BEGIN: Final = "<!-- peers: written by python -m tests.bench.peers -->"
END: Final = "<!-- end of peers -->"

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


def placed(text: str, section: str) -> str:
    """Return a text with the section between its markers, or a new one at its end."""
    whole = f"{BEGIN}\n{section}{END}\n"
    between = re.compile(re.escape(BEGIN) + r"\n.*?" + re.escape(END) + r"\n", re.DOTALL)
    if between.search(text):
        return between.sub(lambda _: whole, text)
    return f"{text.rstrip()}\n\n### Beside other gateways\n\n{whole}"


def write(record: Record) -> None:
    """Write the report and the plot into the folder of the benches."""
    PLOT.write_text(drawing(record))
    section = f"{report(record)}\n![CPU per request, requests a second and streams of each gateway]({PLOT.name})\n"
    README.write_text(placed(README.read_text(), section))
