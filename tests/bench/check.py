"""What became slower, step by step: `python -m tests.bench.check`.

Measures the steps (see tests/bench/steps.py) and compares their ratios with those in ratios.json. A step moved when
the ranges of then and now lie apart and the medians by more than a tenth; much slower is more than a third. What moved
is measured once more before it is told. Exit code 1 when a step became much slower, or is not in the file.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.steps import ROUNDS, Cost, Step, all_steps, cost_of

RATIOS: Final = Path(__file__).resolve().with_name("ratios.json")
MOVED: Final = 1.1
MUCH_SLOWER: Final = 1.33


class Move(NamedTuple):
    """How a step compares with its checked-in ratio."""

    name: str
    before: float
    now: float
    verdict: str
    """One of `as before`, `faster`, `slower`, `much slower`, `new`."""

    @property
    def is_fault(self) -> bool:
        """Tell whether the check should fail for it."""
        return self.verdict in {"much slower", "new"}


def judge(name: str, before: Sequence[float] | None, now: Cost) -> Move:
    """Compare the cost of a step with its checked-in ratio, given as least, median and most."""
    if before is None:
        return Move(name, 0.0, now.ratio, "new")
    least, median, most = before
    if now.least > most and now.ratio > median * MOVED:
        return Move(name, median, now.ratio, "much slower" if now.ratio > median * MUCH_SLOWER else "slower")
    if now.most < least and now.ratio * MOVED < median:
        return Move(name, median, now.ratio, "faster")
    return Move(name, median, now.ratio, "as before")


def compare(measured: Mapping[str, Step], ratios: Mapping[str, Sequence[float]], rounds: int) -> list[Move]:
    """Measure all steps, those that seem to have moved twice: the faster of the two counts."""
    moves = []
    for name, step in measured.items():
        move = judge(name, ratios.get(name), cost_of(step, rounds))
        if move.verdict not in {"as before", "new"}:
            again = judge(name, ratios.get(name), cost_of(step, rounds))
            move = min(move, again, key=lambda it: abs(it.now / it.before - 1))
        moves.append(move)
    return moves


def told(moves: Sequence[Move], gone: Sequence[str]) -> str:
    """Return what moved, in words."""
    lines = [f"{move.name}: {move.verdict}, {move.before:.2f} -> {move.now:.2f}" for move in moves if _is_news(move)]
    lines += [f"{name}: no longer a step" for name in gone]
    same = sum(not _is_news(move) for move in moves)
    return "\n".join([*lines, f"{same} of {len(moves)} steps are as before"])


def _is_news(move: Move) -> bool:
    return move.verdict != "as before"


def update(measured: Mapping[str, Step], rounds: int) -> None:
    """Write the ratios of today; each step's are those of the better of two tries."""
    found = {name: min(cost_of(step, rounds), cost_of(step, rounds)) for name, step in measured.items()}
    ratios = {name: [round(cost.least, 3), round(cost.ratio, 3), round(cost.most, 3)] for name, cost in found.items()}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in ratios.items())
    RATIOS.write_text(f"{{\n{lines}\n}}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--update", action="store_true", help="write the ratios of today into ratios.json instead")
    options = parser.parse_args(arguments)
    with all_steps() as measured:
        if options.update:
            update(measured, options.rounds)
            return 0
        ratios = json.loads(RATIOS.read_text())
        moves = compare(measured, ratios, options.rounds)
        print(told(moves, [name for name in ratios if name not in measured]))
    return int(any(move.is_fault for move in moves))


if __name__ == "__main__":
    sys.exit(main())
