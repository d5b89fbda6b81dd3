"""Compare two contracts as a whole: the base first, then case by case.

A case inherits from the base. A change of an inherited setting is reported once, for the base, with the cases that
inherit it. If requests match another case than before, the rules of the two cases are compared for the direction.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from compiler.artifact.to_profile import when_of
from compiler.diagnostics import CommandError
from compiler.diff.change import UNSEEN, Change, any_of
from compiler.diff.changes import compare_sections
from compiler.diff.fields import listed_words
from compiler.diff.models import Moves, compare_mode, compare_models
from compiler.diff.values import listed, same, text_of
from router.artifact.format import digest_of
from router.contract.schema.model import Case, Contract, Sections, When

_JUDGED_BEFORE_CASES: Final = ("limits", "max_body_bytes")
_MOST_NAMED: Final = 5
"""Settings that a sentence names; more are counted."""


class UnknownChangeError(CommandError):
    """Two contracts differ in something that no comparison of settings finds."""


def compare(before: Contract, after: Contract) -> tuple[Change, ...]:
    """Return every change between two contracts, in the order of the profile language; none if they are equal.

    Contracts with equal digests are equal. Raises UnknownChangeError if the digests differ and no setting does.
    """
    digests = digest_of(before), digest_of(after)
    if digests[0] == digests[1]:
        return ()
    changes = _changes(before, after)
    if not changes:
        raise UnknownChangeError(
            f"the contracts differ ({digests[0]} and {digests[1]}), but profilec finds no setting that does: do not "
            "take them for equal; please report this with both files, it is a bug of profilec"
        )
    return changes


def _changes(old: Contract, after: Contract) -> tuple[Change, ...]:
    before = _with_names_of(after, old)
    read = before.read_by_conditions, after.read_by_conditions
    anywhere = _doubtful(_all_moves(before, after))
    of_modes = any(case.when.mode for contract in (before, after) for case in contract.cases)
    shared = [(new.name, compare_sections(old.sections, new.sections, read)) for old, new in _in_both(before, after)]
    base = compare_sections(before, after, read)
    return (
        *compare_models(before.models, after.models, anywhere),
        *compare_mode(before.mode, after.mode, anywhere if of_modes else None),
        *(_with_cases(change, shared) for change in base),
        *_cases(before, after, {name: [*_own(changes, base)] for name, changes in shared}),
    )


def _with_names_of(after: Contract, before: Contract) -> Contract:
    """Return a contract in which combinations of the same cases have the same name as in another contract."""
    names = {frozenset(case.parts): case for case in after.cases if case.parts}
    cases = tuple(
        structs.replace(case, name=named.name, parts=named.parts)
        if (named := names.get(frozenset(case.parts)))
        else case
        for case in before.cases
    )
    return structs.replace(before, cases=cases)


def _in_both(before: Contract, after: Contract) -> Iterator[tuple[Case, Case]]:
    former = {case.name: case for case in before.cases}
    return ((former[case.name], case) for case in after.cases if case.name in former)


def _with_cases(change: Change, shared: list[tuple[str, tuple[Change, ...]]]) -> Change:
    """Return a change of the base with the cases that it is a change of too."""
    names = [text_of(name) for name, changes in shared if change in changes]
    if not names or change.at == _JUDGED_BEFORE_CASES:
        return change
    where = "every case" if len(names) == len(shared) > 1 else f"case {listed_words(names)}"
    return replace(change, consequence=f"{change.consequence}; the same in {where}")


def _own(changes: Iterable[Change], base: tuple[Change, ...]) -> Iterator[Change]:
    """Yield the changes of a case that are not changes of the base."""
    return (change for change in changes if change not in base)


def _cases(before: Contract, after: Contract, own: dict[str, list[Change]]) -> Iterator[Change]:
    """Yield what changes in the cases, those of the second contract first, in their order.

    A combination of cases is reported only for what none of its cases is reported for.
    """
    former = {case.name: case for case in before.cases}
    names = {case.name for case in after.cases}
    for case in after.cases:
        at = ("cases", case.name)
        if case.name not in former:
            if former.keys() >= set(case.parts):
                moves = _moves((old, new) for new, old in _replaced_sections(case, after, before))
                yield Change(at, None, when_of(case.when), _added(case, after, "will be"), *moves)
            continue
        if not case.parts and not same(former[case.name].when, case.when):
            words = f"it is for requests {_which(case.when)} now: those that come under it or leave it meet other rules"
            moves = _doubtful(_all_moves(before, after))
            yield Change((*at, "when"), when_of(former[case.name].when), when_of(case.when), words, *moves)
        reported = [change for part in case.parts for change in own.get(part, ())]
        yield from (replace(change, at=(*at, *change.at)) for change in own[case.name] if change not in reported)
    for case in before.cases:
        if case.name not in names and names >= set(case.parts):
            moves = _moves(_replaced_sections(case, before, after))
            yield Change(
                ("cases", case.name), when_of(case.when), None, _added(case, before, "will no longer be"), *moves
            )
    yield from _groups(before, after)
    yield from _order(before, after)


def _replaced_sections(case: Case, contract: Contract, other: Contract) -> Iterator[tuple[Sections, Sections]]:
    """Yield the rules of the requests of a case, each with the rules that they may meet in a contract without it."""
    here, there = _sections_by_cases(contract), _sections_by_cases(other)
    stated = [each for each in contract.cases if not each.parts and each.group == case.group]
    later = [each.name for each in stated[stated.index(case) + 1 :]] if case in stated else []
    for parts, sections in here.items():
        others = [tuple(name for name in parts if name != left_out) for left_out in case.parts if parts == case.parts]
        if case.name in parts:
            others = [tuple(name for name in parts if name != case.name)]
            others += [tuple(instead if name == case.name else name for name in parts) for instead in later]
        yield from ((sections, there[names]) for names in others if names in there)


def _sections_by_cases(contract: Contract) -> dict[tuple[str, ...], Sections]:
    return {(): contract, **{case.parts or (case.name,): case.sections for case in contract.cases}}


def _groups(before: Contract, after: Contract) -> Iterator[Change]:
    """Yield the change of the groups of cases; what it changes for requests is a change of combinations."""
    if before.case_groups != after.case_groups:
        yield Change(("case_groups",), before.case_groups, after.case_groups, f"{UNSEEN} by this alone")
    for old, new in _in_both(before, after):
        if old.group != new.group:
            words = f"{UNSEEN} by this alone: it is combined with the cases of other groups now"
            yield Change(("cases", new.name, "group"), old.group or None, new.group or None, words)


def _order(before: Contract, after: Contract) -> Iterator[Change]:
    kept = {old.name for old, _ in _in_both(before, after)}
    old, new = (
        tuple(case.name for case in contract.cases if case.name in kept and not case.parts)
        for contract in (before, after)
    )
    if any(_group_of(after, group, old) != _group_of(after, group, new) for group in ("", *after.case_groups)):
        words = "requests that several cases are for come under another one of them"
        yield Change(("cases",), old, new, words, *_doubtful(_all_moves(before, after)))


def _group_of(contract: Contract, group: str, names: tuple[str, ...]) -> list[str]:
    """Return those of some cases that are of a group, in their order."""
    of_group = {case.name for case in contract.cases if not case.parts and case.group == group}
    return [name for name in names if name in of_group]


def _all_moves(before: Contract, after: Contract) -> Moves:
    """Return the possible directions for a request that matches another case than before."""
    old, new = ([contract, *(case.sections for case in contract.cases)] for contract in (before, after))
    if len(old) == len(new) == 1:
        return False, False
    return _moves((these, those) for these in old for those in new if these is not those)


def _moves(pairs: Iterable[tuple[Sections, Sections]]) -> Moves:
    changes = [change for before, after in pairs for change in compare_sections(before, after)]
    return any_of(change.tightens for change in changes), any_of(change.loosens for change in changes)


def _doubtful(moves: Moves) -> Moves:
    """Return unknown directions: it cannot be determined whether such requests exist."""
    tightens, loosens = (None if direction else direction for direction in moves)
    return tightens, loosens


def _which(when: When) -> str:
    """Describe the requests that match a case."""
    parts = [f"for model {listed(globs)}" for globs in (when.model, *when.also) if globs]
    parts += [f"in mode {listed(when.mode)}"] if when.mode else []
    parts += [f"with {path}{f' {listed(values)}' if values else ''}" for path, values in when.fields.items()]
    return listed_words(parts or ["of every kind"])


def _added(case: Case, contract: Contract, will: str) -> str:
    """Describe the requests that will, or will no longer, match a case, and how the case differs from the base."""
    differs = [change.path for change in compare_sections(contract, case.sections)]
    named = differs if len(differs) <= _MOST_NAMED else [*differs[: _MOST_NAMED - 1], f"{len(differs) - 4} more"]
    where = f", which differs from the base in {listed_words(named)}" if named else f": {UNSEEN}, it is as the base"
    return f"requests {_which(case.when)} {will} held to this case{where}"
