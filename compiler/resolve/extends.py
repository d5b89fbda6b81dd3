"""`extends`: load a profile and its parents as a chain of layers, and merge them, the root parent first."""

import hashlib
import os
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from compiler.diagnostics import Diagnostic, Location, Note, ProfileError, quoted_path
from compiler.language.schema import CASE, SCHEMA, Rules
from compiler.resolve.presets import preset_path
from compiler.resolve.selection import Selection, is_path
from compiler.source.tree import Entry, Mapping, Node, Scalar, Sequence, path_text
from compiler.source.tree import Path as TreePath
from compiler.source.yaml_reader import MAX_FILE_BYTES, read_with_gaps

_STREAM: Final = "stdin"
"""The name of a profile that is read from a stream and sets no name."""

ALIASES: Final = ("models", "aliases")
"""The path of the aliases. They are a list or a mapping; a mapping in a child adds to both."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One profile of a chain: its own tree without `extends`, and the source that the artifact records.

    empty: the errors of keys and list items without a value, by path; the tree does not have them. of_cases: the
    profiles that cases of this one extend, each with its parents; the tree has what they say in those cases.
    """

    kind: Literal["file", "preset"]
    name: str
    sha256: str
    path: Path
    tree: Mapping
    empty: dict[TreePath, Diagnostic] = field(default_factory=dict)
    of_cases: tuple["Layer", ...] = ()


@dataclass(frozen=True, slots=True)
class _Parent:
    """The target of an `extends` value."""

    kind: Literal["file", "preset"]
    name: str
    path: Path
    display: str
    at: Location | None


def load_chain(selection: Selection) -> tuple[Layer, ...]:
    """Return the chain of layers from the selected profile to its last parent.

    Raises ProfileError when a profile cannot be read, is not strict YAML, or extends itself, be it in a case.
    """
    return _load(_start(selection), selection, {})


def layers_of(chain: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return the layers of a chain and of what its cases extend, each file once."""
    found = {layer.path: layer for layer in chain}
    for layer in chain:
        found |= {each.path: each for each in layers_of(layer.of_cases) if each.path not in found}
    return tuple(found.values())


def _load(start: _Parent, selection: Selection, above: dict[str, _Parent]) -> tuple[Layer, ...]:
    """Return a chain; `above` are the profiles on the way to it, none of which it may have again."""
    layers: tuple[Layer, ...] = ()
    visited = dict(above)
    parent: _Parent | None = start
    while parent is not None:
        data = _read(parent, selection) if visited or selection.content is None else selection.content
        identity = os.path.realpath(parent.path)
        if identity in visited:
            raise ProfileError(_cycle(list(visited.values()), parent))
        visited[identity] = parent
        tree, empty = read_with_gaps(data, parent.display, parent.at)
        if any(path[-1:] == ("extends",) for path in empty):
            raise ProfileError(*empty.values())  # Without the parent most errors would be of its absence.
        digest = hashlib.sha256(data).hexdigest()
        extends = tree.get("extends")
        tree, of_cases, gaps = _with_extended_cases(tree.without("extends"), parent.path, selection, visited)
        empty |= gaps
        layers = (*layers, Layer(parent.kind, parent.name, digest, parent.path, tree, empty, of_cases))
        parent = _next(extends, parent.path)
    return layers


def _with_extended_cases(
    tree: Mapping, path: Path, selection: Selection, visited: dict[str, _Parent]
) -> tuple[Mapping, tuple[Layer, ...], dict[TreePath, Diagnostic]]:
    """Return a tree in which each case has what the profile says that it extends.

    Also returns the layers of these profiles, and the errors of their keys without a value by path in the tree.
    """
    cases = tree.get("cases")
    if cases is None or not isinstance(cases.value, Mapping):
        return tree, (), {}
    entries: list[Entry] = []
    found: tuple[Layer, ...] = ()
    gaps: dict[TreePath, Diagnostic] = {}
    for entry in cases.value.entries:
        extends = entry.value.get("extends") if isinstance(entry.value, Mapping) else None
        parent = _next(extends, path)
        if isinstance(entry.value, Mapping) and extends is not None:
            own = entry.value.without("extends")
            if parent is not None:
                chain = _load(parent, selection, visited)
                own = _merged(_sections_for_case(chain, parent), own, ("cases", entry.key))
                found += chain
                gaps |= {("cases", entry.key, *at): gap for layer in chain for at, gap in layer.empty.items()}
            entry = _with_value(entry, own)  # noqa: PLW2901 - the same case, extended
        entries.append(entry)
    return _replaced(tree, cases, Mapping(tuple(entries), cases.value.at, cases.value.deleted)), found, gaps


def _sections_for_case(chain: tuple[Layer, ...], parent: _Parent) -> Mapping:
    """Return what a profile says for a case. Raises ProfileError with all that a case may not hold."""
    merged = merge_chain(chain)
    problems = [*_unfit(merged, CASE["schema"], (), parent)]
    if problems:
        raise ProfileError(*problems)
    return Mapping(merged.without("name").entries, merged.at)


def _unfit(tree: Mapping, known: Rules, path: tuple[str, ...], parent: _Parent) -> Iterator[Diagnostic]:
    for entry in tree.entries:
        place = (*path, entry.key)
        if (entry.key in known and entry.key not in {"when", "group"}) or place == ("name",):
            if place == ("limits",) and isinstance(entry.value, Mapping):
                yield from _unfit(entry.value, known["limits"]["schema"], place, parent)
            continue
        message = f"extends: a case cannot extend {quoted_path(parent.display)}, which has {path_text(place)}"
        allowed = ", ".join(key for key in known if key not in {"when", "group", "extends"})
        hint = "what holds for all requests belongs outside of cases: extend a profile without it"
        note = Note(entry.key_at, f"{path_text(place)} is here")
        yield Diagnostic(
            "bad-extends", message, parent.at, f"{' '.join(path) or 'a profile'} with {allowed} alone", hint, (note,)
        )


def merge_chain(layers: tuple[Layer, ...]) -> Mapping:
    """Merge a chain into one tree, the root parent first; nulls in cases stay only if they delete something."""
    root = layers[0].tree.at
    profile = reduce(merge, (layer.tree for layer in reversed(layers)), Mapping((), root))
    cases = profile.get("cases")
    if cases is None or not isinstance(cases.value, Mapping):
        return profile
    below = _merged_below(profile, cases.value)
    return _replaced(profile, cases, _map_values(cases.value, lambda case: _without_idle_nulls(case, below(case))))


def _merged_below(profile: Mapping, cases: Mapping) -> Callable[[Mapping], Mapping]:
    """Return the function that gives all values that a case is merged into: the base and cases of earlier groups."""
    listed = profile.get("case_groups")
    items = listed.value.items if listed is not None and isinstance(listed.value, Sequence) else ()
    trees = [entry.value for entry in cases.entries if isinstance(entry.value, Mapping)]
    groups: dict[object, Mapping] = {None: profile}
    for earlier, group in pairwise((None, *(item.value for item in items if isinstance(item, Scalar)))):
        groups[group] = reduce(_united, (case for case in trees if _group_of(case) == earlier), groups[earlier])
    return lambda case: groups.get(_group_of(case), profile)


def _group_of(case: Mapping) -> object:
    group = case.get("group")
    return group.value.value if group is not None and isinstance(group.value, Scalar) else None


def _united(one: Mapping, other: Mapping) -> Mapping:
    """Return the keys of two mappings, at any depth; nulls are no values."""
    entries = {entry.key: entry for entry in one.entries}
    for entry in other.entries:
        inner = entries.get(entry.key)
        if inner is not None and isinstance(inner.value, Mapping) and isinstance(entry.value, Mapping):
            entries[entry.key] = _with_value(inner, _united(inner.value, entry.value))
        elif inner is None and not _deletes(entry.value):
            entries[entry.key] = entry
    return Mapping(tuple(entries.values()), one.at)


def merge(parent: Mapping, child: Mapping) -> Mapping:
    """Merge a child into its parent: mappings merge key by key, scalars and lists replace, a null deletes.

    The result has no null as a mapping's value, except in a case: there it deletes a value of the base. The result
    records what each value replaced, and which null deleted what.
    """
    return _merged(parent, child, ())


def names_as_keys(node: Node) -> Node:
    """Return a list of aliases as the equivalent mapping; any other value unchanged."""
    items = node.items if isinstance(node, Sequence) else ()
    names = {item.value: item.at for item in items if isinstance(item, Scalar) and isinstance(item.value, str)}
    if not names or len(names) < len(items):
        return node  # Validation reports the errors of the list.
    return Mapping(tuple(Entry(name, at, Mapping((), at)) for name, at in names.items()), node.at)


def _merged(parent: Mapping, child: Mapping, path: tuple[str, ...]) -> Mapping:
    within_case = path[:1] == ("cases",) and len(path) > 1
    entries = {entry.key: entry for entry in parent.entries}
    deleted = {entry.key: entry for entry in parent.deleted}
    for entry in child.entries:
        inherited = entries.get(entry.key)
        if within_case or not _deletes(entry.value):
            deleted.pop(entry.key, None)
            entries[entry.key] = _merged_entry(inherited, entry, (*path, entry.key))
        elif inherited is not None or entry.key not in deleted:
            deleted[entry.key] = Entry(entry.key, entry.key_at, entry.value, entries.pop(entry.key, None))
    if path == ("cases",):
        # The first case that matches applies, so the cases of a child come before the inherited ones.
        new = [key for key in entries if parent.get(key) is None]
        entries = {key: entries[key] for key in (*new, *(entry.key for entry in parent.entries)) if key in entries}
    return Mapping(tuple(entries.values()), child.at, tuple(deleted.values()))


def _merged_entry(inherited: Entry | None, entry: Entry, path: tuple[str, ...]) -> Entry:
    if not isinstance(entry.value, Mapping):
        return Entry(entry.key, entry.key_at, entry.value, inherited)
    if inherited is not None and path == ALIASES:
        inherited = _with_value(inherited, names_as_keys(inherited.value))
    if inherited is not None and isinstance(inherited.value, Mapping):
        return Entry(entry.key, entry.key_at, _merged(inherited.value, entry.value, path), inherited.replaced)
    return Entry(entry.key, entry.key_at, _merged(Mapping((), entry.value.at), entry.value, path), inherited)


def _without_idle_nulls(case: Mapping, base: Mapping) -> Mapping:
    """Return a case without the nulls that delete nothing of the base; they become deletions of the case."""
    kept: list[Entry] = []
    gone = {entry.key: entry for entry in case.deleted}
    for entry in case.entries:
        below = base.get(entry.key)
        if isinstance(entry.value, Mapping):
            inner = below.value if below is not None and isinstance(below.value, Mapping) else Mapping((), base.at)
            # The base has no `when`, so the base of a case's `when` is empty.
            kept.append(_with_value(entry, _without_idle_nulls(entry.value, inner)))
        elif below is None and _deletes(entry.value):
            gone[entry.key] = entry
        else:
            kept.append(entry)
    return Mapping(tuple(kept), case.at, tuple(gone.values()))


def _map_values(tree: Mapping, change: Callable[[Mapping], Mapping]) -> Mapping:
    entries = (
        _with_value(entry, change(entry.value)) if isinstance(entry.value, Mapping) else entry for entry in tree.entries
    )
    return Mapping(tuple(entries), tree.at, tree.deleted)


def _replaced(tree: Mapping, entry: Entry, value: Mapping) -> Mapping:
    entries = tuple(_with_value(each, value) if each.key == entry.key else each for each in tree.entries)
    return Mapping(entries, tree.at, tree.deleted)


def _with_value(entry: Entry, value: Node) -> Entry:
    return Entry(entry.key, entry.key_at, value, entry.replaced)


def _deletes(value: Node) -> bool:
    return isinstance(value, Scalar) and value.value is None


def _start(selection: Selection) -> _Parent:
    if selection.kind == "preset":
        named_by = selection.chosen_by
        return _Parent(
            "preset", selection.name, preset_path(selection.name, None, named_by), _preset(selection.name), None
        )
    if not selection.name:
        raise ProfileError(Diagnostic("unreadable-file", f"{selection.chosen_by}: the path is empty"))
    if selection.content is not None:
        # Only the content of a stream can name it, and its `extends` is relative to the working folder.
        return _Parent("file", _STREAM, Path(_STREAM), selection.display_name, None)
    path = Path(selection.name)
    if not path.name.isprintable():
        message = f"the file name {quoted_path(path.name)} has characters that an artifact cannot hold"
        raise ProfileError(Diagnostic("unusable-name", message, hint="rename the file"))
    return _Parent("file", path.name, path, selection.name, None)


def _next(extends: Entry | None, path: Path) -> _Parent | None:
    if extends is None or _deletes(extends.value):
        return None
    name, at = _parent_name(extends.value), extends.value.at
    if not is_path(name):
        return _Parent("preset", name, preset_path(name, at), _preset(name), at)
    parent = PurePosixPath(name)
    written = parent.name if parent.is_absolute() else posixpath.normpath(name)
    return _Parent("file", written, path.parent / name, _display(path.parent / name), at)


def _display(path: Path) -> str:
    """Return a path for messages: without `..` if that names the same file, which a symbolic link may prevent."""
    folded = os.path.normpath(path)
    same = os.path.exists(path) and os.path.exists(folded) and os.path.samefile(path, folded)  # noqa: PTH110, PTH121
    return folded if same else str(path)


def _preset(name: str) -> str:
    return f"preset:{name}"


def _parent_name(value: Node) -> str:
    name = value.value if isinstance(value, Scalar) else None
    if isinstance(name, str) and name and not name.endswith(".json"):
        return name
    message, hint = "extends: this is not the name of a profile", ""
    if isinstance(name, str) and name:
        message, hint = "extends: an artifact cannot be extended", "extend the profile that it was built from"
    elif isinstance(value, Sequence):
        hint = "a profile has one parent; that parent may extend another"
    expected = SCHEMA["extends"]["meta"]["expected"]
    raise ProfileError(Diagnostic("bad-extends", message, value.at, expected, hint or None))


def _read(parent: _Parent, selection: Selection) -> bytes:
    try:
        with parent.path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ProfileError(_unreadable(parent, selection, error.strerror or str(error))) from error
    except ValueError as error:  # a NUL in the path
        raise ProfileError(_unreadable(parent, selection, str(error))) from error


def _unreadable(parent: _Parent, selection: Selection, reason: str) -> Diagnostic:
    message = f"cannot read {quoted_path(parent.display)}: {reason}"
    if parent.at is not None:
        hint = "a path is relative to the file that names it"
        return Diagnostic("unreadable-file", f"extends: {message}", parent.at, hint=hint)
    named_by = "" if selection.chosen_by in {"SOURCE", selection.name} else f"{selection.chosen_by}: "
    return Diagnostic("unreadable-file", f"{named_by}{message}")


def _cycle(visited: list[_Parent], again: _Parent) -> Diagnostic:
    """Return the error of a chain that contains a profile twice, with every hop as a note."""
    hops = [*visited[1:], again]
    notes = tuple(Note(hop.at, f"extends {quoted_path(hop.display)}") for hop in hops if hop.at is not None)
    return Diagnostic(
        "cycle",
        f"extends: {quoted_path(again.display)} extends itself",
        again.at,
        hint="remove one of these lines",
        notes=notes,
        shows_hops=False,
    )
