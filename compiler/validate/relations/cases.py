"""Check relations of cases: to each other, and to the modes that they name."""

from collections.abc import Iterable, Iterator
from typing import Any

from compiler.artifact.from_profile import mode_of, when_of
from compiler.diagnostics import Diagnostic, Note, nearest, quoted, warning
from compiler.source.tree import Entry, Mapping, Path, Sequence, node_at, plain
from compiler.validate.case_overlap import covers, covers_common, overlap
from compiler.validate.case_trees import cases_of
from compiler.validate.relations.scope import RelationProblem, RelationScope, text_at, texts_at
from router.artifact.differences import merged_values
from router.contract.schema.model import When
from router.contract.schema.sections import Mode

_CaseWhen = tuple[Entry, When]


def relations_of_cases(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors between cases, and between cases and modes; errors within a case are found elsewhere."""
    if scope.is_case:
        return
    modes = _modes(scope)
    groups = [name for name, _ in texts_at(scope.tree, ("case_groups",))]
    for entry, case in cases_of(scope.tree):
        yield from _empty_when(scope, entry, case)
        yield from _unknown_modes(scope, entry, modes)
        yield from _unknown_group(scope, entry, groups)
    known = frozenset(modes) if scope.is_valid(("mode",)) else frozenset()
    for cases in _whens_by_group(scope):
        for index, (later, when) in enumerate(cases):
            if known and not known.issuperset(when.mode):
                continue  # A mode that there is not is the mistake.
            earlier = next((entry for entry, other in cases[:index] if covers(other, when, known)), None)
            if earlier is not None:
                yield (), _covered(scope, later, earlier)


def overlaps(profile: Mapping) -> Iterator[Diagnostic]:
    """Yield a warning for each case of a valid profile that partially overlaps earlier ones of its group.

    Two cases overlap partially if neither contains the other, and no earlier case matches all that they share.
    """
    scope = RelationScope(profile, (), profile)
    modes = frozenset(_modes(scope))
    mode = mode_of(plain(profile).get("mode", {}))
    for cases in _whens_by_group(scope):
        yield from _overlaps(scope, cases, modes, mode)


def _overlaps(scope: RelationScope, cases: list[_CaseWhen], modes: frozenset[str], mode: Mode) -> Iterator[Diagnostic]:
    for index, (later, when) in enumerate(cases):
        earlier = [
            entry
            for number, (entry, other) in enumerate(cases[:index])
            if overlap(other, when, mode)
            and not covers(other, when, modes)
            and not covers(when, other, modes)
            and not any(covers_common(third, other, when, modes) for _, third in cases[:number])
        ]
        if earlier:
            names = " and ".join(scope.path_text(("cases", entry.key)) for entry in earlier)
            place = scope.path_text(("cases", later.key))
            message = f"{place} matches some requests that {names} {'matches' if len(earlier) == 1 else 'match'}, too"
            hint = "the first case that matches applies: check their order, or narrow one of them"
            notes = (Note(entry.key_at, "an earlier case") for entry in earlier)
            yield warning("overlapping-cases", message, later.key_at, hint, *notes)


def _modes(scope: RelationScope) -> list[str]:
    """Return the names of all modes."""
    default = text_at(scope.tree, ("mode", "default"))
    read = node_at(scope.tree, ("mode", "match"))
    items = range(len(read.items)) if isinstance(read, Sequence) else ()
    named = [default, *(text_at(scope.tree, ("mode", "match", index, "mode")) for index in items)]
    return list(dict.fromkeys(mode for mode in named if mode is not None))


def _whens(scope: RelationScope) -> Iterator[_CaseWhen]:
    """Yield the cases whose `when` is valid, each with its condition."""
    for entry, case in cases_of(scope.tree):
        when = node_at(case, ("when",))
        if isinstance(when, Mapping) and scope.is_valid(("cases", entry.key, "when")):
            values: dict[str, Any] = merged_values({}, plain(when))
            if any(values.values()):
                yield entry, when_of(values)


def _whens_by_group(scope: RelationScope) -> Iterable[list[_CaseWhen]]:
    of_group: dict[str | None, list[_CaseWhen]] = {}
    for entry, when in _whens(scope):
        of_group.setdefault(text_at(scope.tree, ("cases", entry.key, "group")), []).append((entry, when))
    return of_group.values()


def _unknown_group(scope: RelationScope, entry: Entry, groups: list[str]) -> Iterator[RelationProblem]:
    path: Path = ("cases", entry.key, "group")
    for group, at in texts_at(scope.tree, path):
        if group not in groups:
            message = f"{scope.path_text(path)} is {quoted(group)}, but `case_groups` has no such group"
            match = nearest(group, groups)
            hint = f"did you mean {match}?" if match else f"add it: `case_groups: [{', '.join([*groups, group])}]`"
            expected = f"one of {', '.join(groups)}" if groups else None
            yield (path, ("case_groups",)), Diagnostic("unknown-group", message, at, expected, hint)


def _empty_when(scope: RelationScope, entry: Entry, case: Mapping) -> Iterator[RelationProblem]:
    when = case.get("when")
    path: Path = ("cases", entry.key, "when")
    if when is None or not isinstance(when.value, Mapping) or any(merged_values({}, plain(when.value)).values()):
        return
    message = f"{scope.path_text(path)} is empty: the case would match every request"
    hint = "state which requests it matches; put rules for all requests outside of cases"
    yield (path,), Diagnostic("empty-when", message, when.key_at, "model, mode or fields, at least one", hint)


def _unknown_modes(scope: RelationScope, entry: Entry, modes: list[str]) -> Iterator[RelationProblem]:
    path: Path = ("cases", entry.key, "when", "mode")
    for mode, at in texts_at(scope.tree, path):
        if mode in modes:
            continue
        message = f"{scope.path_text(path)} names {quoted(mode)}, but there is no such mode"
        if not modes:
            hint = "define the modes under `mode`"
            yield (path, ("mode",)), Diagnostic("unknown-mode", message, at, hint=hint)
            continue
        match = nearest(mode, modes)
        hint = f"did you mean {match}?" if match else "modes are defined under `mode`, as its default or by a reading"
        yield (path, ("mode",)), Diagnostic("unknown-mode", message, at, f"one of {', '.join(modes)}", hint)


def _covered(scope: RelationScope, later: Entry, earlier: Entry) -> Diagnostic:
    place, first = (scope.path_text(("cases", entry.key)) for entry in (later, earlier))
    message = f"{place} is never reached: {first} comes first and matches all of its requests"
    hint = f"move {place} before it, or narrow {first}"
    return Diagnostic(
        "covered-case", message, later.key_at, hint=hint, notes=(Note(earlier.key_at, "the earlier case"),)
    )
