"""Our router beside other gateways: `python -m tests.bench.peers`.

Sets everything up in a cache folder, runs all of it side by side in turns, and writes the table and the plot into
tests/bench/, and what it costs into README.md. Peers that cannot be set up are named with the reason. A run that was
cut short goes on with --resume.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.peers.cache import Cache, SetupError, default_folder
from tests.bench.peers.measures import MEASURES, come_first, raise_descriptor_limit
from tests.bench.peers.record import Record
from tests.bench.peers.report import report, write
from tests.bench.peers.run import Plan, run
from tests.bench.peers.subjects import subjects


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it."""
    options = _options(arguments)
    chosen = [subject for subject in subjects() if not options.only or subject.name in options.only]
    measures = [measure for measure in MEASURES if not options.measure or measure.name in options.measure]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is stopped
    raise_descriptor_limit()
    if not options.quick:
        come_first()
    cache = Cache(options.cache)
    record = Record(_record_file(options.cache, resume=options.resume or options.report))
    if not options.report:
        try:
            run(Plan(chosen, measures, options.quick, options.minutes), cache, record)
        except SetupError as error:
            print(f"nothing can be measured: {error}", file=sys.stderr)
            return 1
    print(report(record))
    is_part = options.quick or (not options.resume and bool(options.only or options.measure))
    if options.write if options.write is not None else not is_part:
        write(record)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    names, measures = [subject.name for subject in subjects()], [measure.name for measure in MEASURES]
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=default_folder(), help="where packages and samples are kept")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {'; '.join(names)}")
    parser.add_argument("--measure", nargs="+", choices=measures, metavar="NAME", help=f"of {', '.join(measures)}")
    parser.add_argument("--quick", action="store_true", help="two short rounds, which show that all works")
    parser.add_argument("--minutes", type=float, default=30, help="how long the rounds may take, setting up apart")
    parser.add_argument("--resume", action="store_true", help="take only what is missing in the last run")
    parser.add_argument("--report", action="store_true", help="take nothing, report the last run")
    parser.add_argument(
        "--write",
        action=argparse.BooleanOptionalAction,
        help="write the pages; as a rule, unless a part is taken or --quick",
    )
    return parser.parse_args(arguments)


def _record_file(cache: Path, *, resume: bool) -> Path:
    folder = cache / "records"
    folder.mkdir(parents=True, exist_ok=True)
    earlier = sorted(folder.glob("*.jsonl"))
    if resume and earlier:
        return earlier[-1]
    return folder / f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl"


if __name__ == "__main__":
    sys.exit(main())
