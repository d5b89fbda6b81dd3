"""Find the range of numbers that a field accepts: coarse steps, then bisection to the shortest decimal at each edge."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Final, NamedTuple

from compiler.probe.experiment import Experiment, ExperimentResult, Learner, ask_all

AskNumber = Callable[[float], Experiment]

FRACTIONS: Final = (
    *(-1000000, -100, -3, -2, -1, -0.5, 0, 0.01, 0.1, 0.3, 0.37, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1),
    *(1.5, 1.73, 2, 3, 5, 10, 20, 100, 1000, 1000000),
)
"""Test values for a field that takes fractions; 0.37 and 1.73 are unlikely members of a list."""

WHOLE: Final = (
    *(-1000000, -2, -1, 0, 1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 256, 1000, 1024, 4096, 10000),
    *(65536, 1000000, 2147483647, 2147483648, 4294967296),
)
"""Test values for a field that takes whole numbers."""

BUDGETS: Final = (
    *(-1, 0, 1, 2, 16, 1024, 2048, 4096, 8192, 12288, 16384, 32768, 65536, 98304, 131072, 196608, 262144, 393216),
    *(524288, 1048576, 2097152, 10000000, 2147483647),
)
"""Test values for an output budget."""

_ODD: Final = frozenset({0.37, 1.73})
_FINEST: Final = Decimal("0.0001")
_SHARE: Final = 0.37


class RangeEnd(NamedTuple):
    """An end of the accepted numbers: the number, whether it is accepted, and whether it is exact."""

    at: float
    is_inside: bool
    is_exact: bool = True


class AcceptedNumbers(NamedTuple):
    """The numbers that a field accepts.

    kind: all; none; a range with its edges (None: no end was found on that side); a set, if only single numbers are
    accepted; or unclear, if too many results are inconclusive. results: all experiments. gaps: the rejected numbers
    within a range.
    """

    kind: str
    low: RangeEnd | None = None
    high: RangeEnd | None = None
    accepted: tuple[float, ...] = ()
    results: tuple[ExperimentResult, ...] = ()
    gaps: tuple[float, ...] = ()


class _NumberTrials:
    """Tests numbers, each of them once, and keeps the results."""

    def __init__(self, request: AskNumber) -> None:
        self._ask = request
        self.results: dict[float, ExperimentResult] = {}

    def about(self, *numbers: float) -> Learner[None]:
        new = [number for number in dict.fromkeys(numbers) if number not in self.results]
        results = yield from ask_all(*map(self._ask, new))
        self.results |= dict(zip(new, results, strict=True))

    def takes(self, number: float) -> bool:
        return self.results[number].is_accepted

    def conclusive(self) -> list[float]:
        return sorted(number for number, result in self.results.items() if result.is_conclusive)


def numbers(request: AskNumber, ladder: Sequence[float], *, is_whole: bool) -> Learner[AcceptedNumbers]:
    """Learn which numbers a field takes."""
    trials = _NumberTrials(request)
    yield from trials.about(*ladder)
    conclusive = trials.conclusive()
    accepted = [number for number in conclusive if trials.takes(number)]
    if len(accepted) == len(conclusive) or not accepted:
        kind = "unclear" if not conclusive else "all" if accepted else "none"
        return AcceptedNumbers(kind, accepted=tuple(accepted), results=tuple(trials.results.values()))
    if not (yield from _is_range(trials, conclusive, is_whole=is_whole)):
        kept = [number for number in trials.conclusive() if trials.takes(number)]
        return AcceptedNumbers("set", accepted=tuple(kept), results=tuple(trials.results.values()))
    first, last = conclusive.index(accepted[0]), conclusive.index(accepted[-1])
    gaps = [number for number in conclusive[first:last] if not trials.takes(number)]
    low = high = None
    if first > 0:
        low = yield from _edge(trials, conclusive[first], conclusive[first - 1], is_whole=is_whole)
    if last + 1 < len(conclusive):
        high = yield from _edge(trials, conclusive[last], conclusive[last + 1], is_whole=is_whole)
    return AcceptedNumbers("band", low, high, tuple(accepted), tuple(trials.results.values()), tuple(gaps))


def _is_range(trials: _NumberTrials, conclusive: list[float], *, is_whole: bool) -> Learner[bool]:
    """Return whether numbers between and beside the accepted ones are accepted too, so that they are no list."""
    accepted = [number for number in conclusive if trials.takes(number)]
    if not _ODD.isdisjoint(accepted):
        return True
    pairs = [pair for pair in pairwise(conclusive) if all(map(trials.takes, pair))]
    between = [number for pair in pairs if (number := _between(*pair, is_whole=is_whole)) is not None]
    if pairs and not between:
        # Whole numbers one after the other: no other lies between them.
        return len(pairs) == len(accepted) - 1
    tried = between or _beside(accepted, is_whole=is_whole)
    yield from trials.about(*tried)
    return any(map(trials.takes, tried))


def _between(one: float, other: float, *, is_whole: bool) -> float | None:
    """Return a number between two that is an unlikely member of a list; None if there is none."""
    if not is_whole:
        return round(one + (other - one) * _SHARE, 4)
    return None if other - one <= 1 else one + max(1, int((other - one) * _SHARE))


def _beside(accepted: list[float], *, is_whole: bool) -> list[float]:
    """Return the neighbours of isolated numbers."""
    if is_whole:
        return [number + step for number in accepted for step in (-1, 1)]
    return [math.nextafter(number, side) for number in accepted for side in (-math.inf, math.inf)]


def _edge(trials: _NumberTrials, inside: float, outside: float, *, is_whole: bool) -> Learner[RangeEnd]:
    """Learn the edge between two numbers, one of which is accepted."""
    step = Decimal(10) ** math.floor(math.log10(abs(outside - inside)))
    finest = Decimal(1) if is_whole else _FINEST
    while True:
        found = yield from _exact(trials, inside, outside, is_whole=is_whole)
        if found is not None:
            return found
        if step < finest:
            return RangeEnd(inside, is_inside=True, is_exact=False)
        inside, outside = yield from _narrowed(trials, inside, outside, step)
        step /= 10


def _exact(trials: _NumberTrials, inside: float, outside: float, *, is_whole: bool) -> Learner[RangeEnd | None]:
    if is_whole:
        beyond = inside + (1 if outside > inside else -1)
        yield from trials.about(beyond)
        return None if trials.takes(beyond) else RangeEnd(inside, is_inside=True)
    beyond, before = math.nextafter(inside, outside), math.nextafter(outside, inside)
    yield from trials.about(beyond, before)
    if not trials.takes(beyond):
        return RangeEnd(inside, is_inside=True)
    return RangeEnd(outside, is_inside=False) if trials.takes(before) else None


def _narrowed(trials: _NumberTrials, inside: float, outside: float, step: Decimal) -> Learner[tuple[float, float]]:
    """Return two neighbours among the multiples of a step, and the two numbers, between which the edge is."""
    low, high = sorted((Decimal(repr(inside)), Decimal(repr(outside))))
    first = math.floor(low / step) + 1
    points = [number_of(step * place) for place in range(first, math.ceil(high / step))]
    while points:
        if outside < inside:
            points.reverse()
        middle = points[len(points) // 2]
        yield from trials.about(middle)
        if trials.takes(middle):
            inside = middle
        else:
            outside = middle
        points = sorted(point for point in points if min(inside, outside) < point < max(inside, outside))
    return inside, outside


def number_of(value: Decimal | float) -> float:
    """Return a number as a profile writes it: a whole one without a decimal point."""
    number = float(value)
    return int(number) if number.is_integer() else number
