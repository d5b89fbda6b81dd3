"""Cases in an artifact: each as its difference from the base, so that a change of one value is a change of one line."""

from functools import partial, reduce
from typing import Any, Final

import msgspec

from router.artifact.differences import Values, difference_from, merged_values
from router.artifact.layout import BODY
from router.contract.schema.combinations import SEPARATOR, combinations
from router.contract.schema.model import Contract, Sections, When
from router.contract.schema.types import Frozen, OmitDefaults

MAX_COMBINATIONS: Final = 400
"""Largest number of cases and their combinations in one contract."""

_SECTIONS: Final = Sections.__struct_fields__
_merged = partial(merged_values, whole=BODY)
_difference = partial(difference_from, whole=BODY)


class CaseDifference(OmitDefaults, frozen=True):
    """A case that a profile states: `changes`, merged into the sections of the base, give those of the case.

    Objects are merged member by member, but for bodies of errors; anything else replaces, and a null deletes.
    """

    name: str
    when: When
    changes: dict[str, Any]
    group: str = ""


class CombinationDifference(Frozen, frozen=True):
    """A combination of cases that differs from the changes of its cases, merged one after the other: `changes` too."""

    cases: tuple[str, ...]
    changes: dict[str, Any]


class StoredCases(Frozen, frozen=True):
    """What an artifact has of the cases of a contract; combinations that are as their cases say are not stored."""

    case_groups: tuple[str, ...] = ()
    cases: tuple[CaseDifference, ...] = ()
    combinations: tuple[CombinationDifference, ...] = ()


def stored(contract: Contract) -> Values:
    """Return a contract as an artifact has it: its cases are differences from the base."""
    values: Values = msgspec.to_builtins(contract)
    base = _base_of(values)
    names = {case.name for case in contract.cases if not case.parts}
    combined = [case for case in contract.cases if case.parts and names.issuperset(case.parts)]
    stated = [case for case in contract.cases if case not in combined]
    changes = {case.name: _difference(base, msgspec.to_builtins(case.sections)) for case in stated}
    differing = []
    for case in combined:
        merged = reduce(_merged, (changes[name] for name in case.parts), base)
        if further := _difference(_complete(merged), msgspec.to_builtins(case.sections)):
            differing.append(CombinationDifference(case.parts, further))
    kept = tuple(CaseDifference(case.name, case.when, changes[case.name], case.group) for case in stated)
    return {**values, **msgspec.to_builtins(StoredCases(contract.case_groups, kept, tuple(differing)))}


def restored(values: Values) -> Values:
    """Return the values of a contract with every case and combination as a whole, from those of an artifact.

    Raises msgspec.ValidationError for cases that are not as an artifact has them.
    """
    found = msgspec.convert({key: values[key] for key in StoredCases.__struct_fields__ if key in values}, StoredCases)
    _check_conditions_and_groups(found)
    base = _base_of(values)
    changes = {case.name: case.changes for case in found.cases}
    whens = {case.name: case.when for case in found.cases}
    group_of = {case.name: case.group for case in found.cases}
    differing = {each.cases: each.changes for each in found.combinations}
    cases: list[Values] = []
    for names, when in combinations(whens, group_of, found.case_groups):
        if len(cases) == MAX_COMBINATIONS:
            raise msgspec.ValidationError(f"more than {MAX_COMBINATIONS} cases and combinations of them")
        sections = reduce(_merged, (changes[name] for name in names), base)
        sections = _merged(sections, differing.get(names, {}))
        combined: Values = {"parts": names} if len(names) > 1 else {}
        if group := group_of[names[0]] if len(names) == 1 else "":
            combined["group"] = group
        name = SEPARATOR.join(names)
        cases.append({"name": name, "when": msgspec.to_builtins(when), "sections": sections, **combined})
    rest = {key: value for key, value in values.items() if key != "combinations"}
    return {**rest, "cases": cases}


def _base_of(values: Values) -> Values:
    return {section: values[section] for section in _SECTIONS if section in values}


def _complete(sections: Values) -> Values:
    """Return merged sections with the defaults of members that were deleted."""
    completed: Values = msgspec.to_builtins(msgspec.convert(sections, Sections))
    return completed


def _check_conditions_and_groups(found: StoredCases) -> None:
    for case in found.cases:
        if case.when.also:
            raise msgspec.ValidationError("`also` in the condition of a case, which only combinations have")
        if case.group not in {"", *found.case_groups}:
            raise msgspec.ValidationError(f"the group {case.group!r} of a case is not among `case_groups`")
