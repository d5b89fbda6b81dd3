"""Drift check: whether an artifact is up to date with its sources. The digest decides; differences come with paths."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from compiler.diagnostics import Diagnostic, Location, quoted, quoted_path, warning
from compiler.diff.cases import compare
from compiler.diff.change import Change
from compiler.diff.values import Value
from compiler.pipeline import Compilation
from compiler.source.tree import Mapping, node_at
from compiler.source.yaml_writer import inline
from router.artifact.format import Artifact, Source

_MANY: Final = 5
"""More sources than this are counted, not listed."""


def drift(artifact: Artifact, today: Compilation, file: str, rebuild: str) -> Iterator[Diagnostic]:
    """Yield the differences between an artifact and its sources' compilation: only warnings for an equal contract.

    `file` is the artifact's name for people, `rebuild` the command that rebuilds it.
    """
    name, hint = quoted_path(file), f"rebuild to refresh: {rebuild}"
    if artifact.digest != today.artifact.digest:
        changes = _with_aliases_as_one(compare(artifact.contract, today.artifact.contract))
        for change in changes:
            at = _set_at(today.profile, change.at)
            yield Diagnostic("stale-artifact", f"{name} is out of date: {_change_text(change)}", at, hint=hint)
        if not changes:
            message = f"{name} is out of date: its digest is {artifact.digest}, and {today.artifact.digest} today"
            yield Diagnostic("stale-artifact", message, None, hint=hint)
        return
    if artifact.name != today.artifact.name:
        message = f"the profile is named {quoted(today.artifact.name)} now, but {quoted(artifact.name)} in {name}"
        yield warning("stale-name", message, _set_at(today.profile, ("name",)), hint)
    for message in _changed_sources(artifact.sources, today.artifact.sources, name):
        yield warning("stale-source", message, None, hint)


def _with_aliases_as_one(changes: tuple[Change, ...]) -> list[Change]:
    """Return changes, those of aliases that one side has and the other has not as one change of two lists."""
    listed = [change for change in changes if change.at == _ALIASES]
    if not listed:
        return [*changes]
    sides = [[each for each in side if each is not None] for side in zip(*_values(listed), strict=True)]
    return [Change(_ALIASES, sides[0], sides[1], ""), *(change for change in changes if change.at != _ALIASES)]


def _values(changes: list[Change]) -> list[tuple[Value, Value]]:
    return [(change.before, change.after) for change in changes]


_ALIASES: Final = ("models", "aliases")


def _change_text(change: Change) -> str:
    before, after = (_plain(value) for value in (change.before, change.after))
    if isinstance(before, list) and isinstance(after, list):
        return f"{change.path} {_list_text(before, after)}"
    old, new = ("absent" if value is None else inline(value) for value in (before, after))
    return f"{change.path} is {old} there, but {new} now"


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever differs
    """Return what differs as a profile writes it."""
    plain = msgspec.to_builtins(value)
    return list(plain) if isinstance(plain, tuple) else plain


def _list_text(before: list[Any], after: list[Any]) -> str:
    gone, new = [each for each in before if each not in after], [each for each in after if each not in before]
    parts = [f"{inline(items)} only {where}" for items, where in ((gone, "there"), (new, "now")) if items]
    return f"lists {', and '.join(parts)}" if parts else "is in another order now"


_DEPTH_OF_A_RULE: Final = 2


def _set_at(profile: Mapping, path: tuple[str, ...]) -> Location | None:
    """Return where a value was set, or deleted; None where it is a default.

    A value that a case inherits was set in the base. A constraint that a rule does not set has the rule's place.
    """
    own = path[2:] if path[0] == "cases" else path
    fixed = [(*each[:-1], "fixed") for each in (path, own) if each[-1:] in {("allowed",), ("default",)}]
    rules = [each[:-1] for each in (path, own) if len(own) > _DEPTH_OF_A_RULE and own[0] in {"fields", "checks"}]
    for each in (path, *fixed, own, *rules):
        node = node_at(profile, each)
        if node is not None:
            return node.at
        deleted = _deleted_at(profile, each)
        if deleted is not None:
            return deleted
    return None


def _deleted_at(profile: Mapping, path: tuple[str, ...]) -> Location | None:
    for length in range(len(path)):
        parent = node_at(profile, path[:length])
        deletion = parent.deletion_of(path[length]) if isinstance(parent, Mapping) else None
        if deletion is not None:
            return deletion.value.at
    return None


def _changed_sources(old: tuple[Source, ...], new: tuple[Source, ...], name: str) -> Iterator[str]:
    if [(source.kind, source.name) for source in old] != [(source.kind, source.name) for source in new]:
        yield f"{name} was built from {_list_sources(old) or 'nothing'}, but its sources are {_list_sources(new)} now"
        return
    for before, after in zip(old, new, strict=True):
        if before.sha256 != after.sha256:
            yield f"{_source_name(after)} has changed since {name} was built"


def _list_sources(sources: tuple[Source, ...]) -> str:
    listed = ", ".join(map(_source_name, sources[:_MANY]))
    return f"{listed} and {len(sources) - _MANY} more" if len(sources) > _MANY else listed


def _source_name(source: Source) -> str:
    return f"preset:{source.name}" if source.kind == "preset" else source.name
