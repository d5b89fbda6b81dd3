"""One line of evidence for a value of a draft: what was sent, accepted and rejected."""

from collections.abc import Iterable, Sequence
from typing import Final

from compiler.probe.boundary_search import AcceptedNumbers
from compiler.probe.experiment import ExperimentResult, shown
from compiler.verify.oracle.values import at

_MOST: Final = 8
_READABLE: Final = 8


def evidence_of_numbers(found: AcceptedNumbers) -> str:
    """Return a text on the numbers, or counts of items, accepted and rejected around each edge."""
    taken = [each for each in map(_number, found.results) if each is not None]
    accepted = sorted(number for number, is_accepted in taken if is_accepted)
    rejected = sorted(number for number, is_accepted in taken if not is_accepted)
    if found.kind != "band" or not accepted:
        near = sorted(rejected, key=lambda each: min((abs(each - one) for one in accepted), default=0))
        readable = [_text(each) for each in near if "e" not in _text(each)]
        return _said(list(map(_text, accepted)), readable, found.results)
    ends = list(dict.fromkeys([accepted[0], accepted[-1]]))
    beyond = [_nearest([each for each in rejected if each < accepted[0]], accepted[0])]
    beyond.append(_nearest([each for each in rejected if each > accepted[-1]], accepted[-1]))
    return _said(list(map(_text, ends)), [_text(each) for each in beyond if each is not None], found.results)


def evidence_of_values(results: Sequence[ExperimentResult], path: str) -> str:
    """Return a text on the accepted and rejected values of a field."""
    accepted = [shown(at(result.experiment.request.fields(), path)) for result in results if result.is_accepted]
    rejected = [shown(at(result.experiment.request.fields(), path)) for result in results if result.is_rejected]
    return _said(list(dict.fromkeys(accepted)), list(dict.fromkeys(rejected)), results)


def evidence_of(accepted: Iterable[str], rejected: Iterable[str], results: Sequence[ExperimentResult]) -> str:
    """Return a text on what was accepted and rejected."""
    return _said(list(dict.fromkeys(accepted)), list(dict.fromkeys(rejected)), results)


def statuses(results: Iterable[ExperimentResult]) -> str:
    """Return the statuses of rejections in brackets."""
    return f"({', '.join(str(each) for each in sorted({r.response.status for r in results if r.is_rejected}))})"


def _said(accepted: list[str], rejected: list[str], results: Sequence[ExperimentResult]) -> str:
    taken = f"{_listed(accepted)} accepted" if accepted else "nothing accepted"
    return f"{taken}, {_listed(rejected)} rejected {statuses(results)}" if rejected else taken


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - _MOST} more" if len(words) > _MOST else ""
    kept = words[:_MOST]
    if more or len(kept) == 1:
        return f"{', '.join(kept)}{more}"
    return f"{', '.join(kept[:-1])} and {kept[-1]}"


def _nearest(beyond: list[float], end: float) -> float | None:
    readable = [each for each in beyond if "e" not in _text(each) and len(_text(each)) <= _READABLE]
    return min(readable or beyond, key=lambda each: abs(each - end), default=None)


def _number(result: ExperimentResult) -> tuple[float, bool] | None:
    """Return the number, or the number of items, that a result is about."""
    if not result.is_conclusive:
        return None
    path = result.experiment.about.partition(".")[2]
    value = at(result.experiment.request.fields(), path)
    number = len(value) if isinstance(value, list | str) else value
    return None if not isinstance(number, int | float) else (number, result.is_accepted)


def _text(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(number)
