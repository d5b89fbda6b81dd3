"""Which mode a request is in and which case of the contract is for it."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from router.contract.schema.conditions import path_of, tester_of
from router.contract.schema.model import Case, Contract
from router.contract.schema.sections import ModeMatch
from router.contract.schema.types import Condition

Fields = dict[str, Any]
Test = Callable[[Fields], bool]

_MOST_REMEMBERED: Final = 10_000
"""Most pairs of names that are remembered: more than all aliases of a contract for several served ids."""


class CaseSelection(NamedTuple):
    """The mode of a request (None: the contract knows no modes), how it was read, and the case that is for it."""

    mode: str | None
    reading: ModeMatch | None
    case: Case | None


class CaseMatcher:
    """Finds the case of requests; what depends on the name of a model alone is computed once for each name."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._by_names: dict[tuple[str, str], _ForModel] = {}

    def match(self, asked: str, served: str, fields: Fields) -> CaseSelection:
        """Return the mode and the case of a request that asks for a model and is routed as a served id."""
        for_model = self._by_names.get((asked, served))
        if for_model is None:
            for_model = _for_model(self._contract, (asked, served))
            # Names come from the contract and from engines; explaining may bring any number of others.
            if len(self._by_names) < _MOST_REMEMBERED:
                self._by_names[asked, served] = for_model
        mode, reading = self._contract.mode.default, None
        for each, name, fits in for_model.readings:
            if (name is None or name in fields) and fits(fields):
                mode, reading = each.mode, each
                break
        for case, modes, name, fits in for_model.cases:
            if (not modes or mode in modes) and (name is None or name in fields) and fits(fields):
                return CaseSelection(mode, reading, case)
        return CaseSelection(mode, reading, None)


class _ForModel(NamedTuple):
    """The readings and the cases that may be for a model, each with a field that must be there and the whole test."""

    readings: tuple[tuple[ModeMatch, str | None, Test], ...]
    cases: tuple[tuple[Case, tuple[str, ...], str | None, Test], ...]


def _for_model(contract: Contract, names: tuple[str, str]) -> _ForModel:
    readings = tuple(
        (reading, _first_field(reading.when), tester_of(reading.when))
        for reading in contract.mode.match
        if _match(reading.model, names)
    )
    cases = tuple(
        (case, case.when.mode, _first_field(case.when.fields), tester_of(case.when.fields))
        for case in contract.cases
        if all(_match(globs, names) for globs in (case.when.model, *case.when.also))
    )
    return _ForModel(readings, cases)


def _first_field(condition: Condition) -> str | None:
    return next((path_of(path)[0] for path in condition), None)


def _match(globs: tuple[str, ...], names: tuple[str, str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs for name in names)
