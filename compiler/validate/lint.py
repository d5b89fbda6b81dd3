"""Lint: warnings about values that are valid but probably a mistake. The caller prints them."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from compiler.artifact.sizes import bytes_of
from compiler.diagnostics import Diagnostic, Location, Note, nearest, quoted, warning
from compiler.language.known_fields import KNOWN_FIELDS
from compiler.language.schema import SCHEMA
from compiler.language.values import keys_of_sizes
from compiler.resolve.extends import ALIASES, Layer, merge, names_as_keys
from compiler.source.tree import Entry, Mapping, Node, Path, Scalar, Sequence, node_at, path_text, plain
from compiler.source.yaml_writer import inline
from compiler.validate.case_trees import cases_of
from compiler.validate.model_names import warnings_of_child, warnings_of_names
from compiler.validate.relations.cases import overlaps
from compiler.validate.unpassable import unpassable_values
from router.artifact.format import MAX_ARTIFACT_BYTES

_NEARLY_FULL: Final = 0.9
"""The share of the largest artifact size from which on a warning is given."""

_SEARCHED: Final = 20
"""Most keys among which a likely one is looked for; no level of a valid profile has as many."""

_SIZES: Final = frozenset(keys_of_sizes(SCHEMA))
"""Keys whose values are sizes in bytes."""

_BOOLEANS: Final = frozenset({"yes", "no", "on", "off"})
_OF_ANY_TYPE: Final = frozenset({"fixed", "default", "force", "allowed", "map", "requires", "excludes", "when"})
"""Keys whose values, or those below, are values of a request: of any type, so no schema finds a wrong one."""

_NEARLY_SAME: Final = 0.85
"""How similar two names of fields are, from 0 to 1, when one is taken for a misspelling of the other."""

_SOURCE: Final = "source"
_PARAMS: Final[Path] = ("sampling", "params")


def warnings_of_chain(chain: tuple[Layer, ...]) -> Iterator[Diagnostic]:
    """Yield the warnings about each profile of a chain compared with its parents; they may be invalid."""
    if _is_blank(chain[0].tree.at.document.text):
        hint = "add rules, or `extends` with a preset; or write {} if nothing is to be enforced"
        yield warning("empty-profile", "the profile is empty: it enforces nothing", chain[0].tree.at, hint)
    children = [layer.tree for layer in reversed(chain)]
    parents = accumulate(children, merge, initial=Mapping((), chain[0].tree.at))
    for parent, child in zip(parents, children, strict=False):
        yield from _idle_nulls(parent, child, ())
        yield from _repeated_values(parent, child, ())
        yield from _stale_evidence(parent, child, ())
        for place, text in _unquoted_texts(child, ()):
            yield from _joined_items(text, place)
            yield from _word_for_boolean(text, place)
        yield from _misspelled_fields(parent, child)
        yield from warnings_of_child(parent, child)


def warnings_of_profile(profile: Mapping) -> Iterator[Diagnostic]:
    """Yield the warnings about a merged profile, which need not be valid."""
    yield from warnings_of_names(profile)
    for entry, case in cases_of(profile):
        yield from _idle_nulls_of_case(case, ("cases", entry.key))


def warnings_of_valid(profile: Mapping) -> Iterator[Diagnostic]:
    """Yield the warnings about a merged profile that need a valid profile."""
    yield from overlaps(profile)
    yield from unpassable_values(profile)


def warnings_of_size(size: int) -> Iterator[Diagnostic]:
    """Yield the warnings about an artifact of a size in bytes."""
    if _NEARLY_FULL * MAX_ARTIFACT_BYTES <= size <= MAX_ARTIFACT_BYTES:
        message = f"the artifact has {size} bytes, and a router reads at most {MAX_ARTIFACT_BYTES}"
        yield warning("large-artifact", message, None, "list fewer or shorter aliases")


def _idle_nulls(parent: Mapping, child: Mapping, path: Path) -> Iterator[Diagnostic]:
    inherited, deleted = _by_key(parent.entries), _by_key(parent.deleted)
    for entry in child.entries:
        place, above = (*path, entry.key), inherited.get(entry.key)
        if path[:1] == ("cases",) and isinstance(entry.value, Mapping):
            continue  # Only the merged profile shows what a null in a case deletes.
        if isinstance(entry.value, Mapping):
            below = _mapping_of(above, entry.value, place)
            yield from _idle_nulls(below, entry.value, place)
        elif above is None and isinstance(entry.value, Scalar) and entry.value.value is None:
            yield _idle_null(entry, place, tuple(inherited), deleted.get(entry.key))


def _idle_nulls_of_case(case: Mapping, path: Path) -> Iterator[Diagnostic]:
    for deletion in case.deleted:
        # A null of a parent may have an effect only without its child, whose author cannot change the parent.
        if deletion.replaced is None and deletion.key_at.document.extended_at is None:
            yield _idle_null(deletion, (*path, deletion.key), (), None)
    for entry in case.entries:
        if isinstance(entry.value, Mapping):
            yield from _idle_nulls_of_case(entry.value, (*path, entry.key))


def _idle_null(entry: Entry, place: Path, inherited: tuple[str, ...], deletion: Entry | None) -> Diagnostic:
    message = f"this null deletes nothing: no {path_text(place)} is inherited"
    if deletion is not None:
        return warning(
            "idle-null", message, entry.value.at, "remove it", Note(deletion.value.at, "already deleted here")
        )
    if "body" in place[:-1]:
        return warning("idle-null", message, entry.value.at, 'for a null in the body write "{null}"')
    match = nearest(entry.key, inherited) if len(inherited) <= _SEARCHED else None
    hint = f"did you mean {path_text((*place[:-1], match))}?" if match else "remove it"
    return warning("idle-null", message, entry.value.at, hint)


def _repeated_values(parent: Mapping, child: Mapping, path: Path) -> Iterator[Diagnostic]:
    inherited = _by_key(parent.entries)
    is_changed = any(True for _ in _changes(parent, child, path))
    for entry in child.entries:
        place, above = (*path, entry.key), inherited.get(entry.key)
        if above is None or (entry.key == _SOURCE and is_changed):
            continue  # A repeated source confirms that it is also the source of the change.
        if isinstance(entry.value, Mapping) and not _is_params(path):  # a band is one value, however many keys it takes
            yield from _repeated_values(_mapping_of(above, entry.value), entry.value, place)
        elif _meaning(place, entry.value) == _meaning(place, above.value):
            message = f"{path_text(place)} is set to {inline(plain(entry.value))}, which is already the inherited value"
            note = Note(above.value.at, "the same value is set here")
            yield warning("repeated-value", message, entry.value.at, "remove it, or set another value", note)


def _stale_evidence(parent: Mapping, child: Mapping, path: Path) -> Iterator[Diagnostic]:
    """Yield a warning for each mapping that a child changes while it keeps the evidence of its parent."""
    inherited = _by_key(parent.entries)
    evidence = inherited.get(_SOURCE)
    if evidence is not None and isinstance(evidence.value, Scalar) and child.get(_SOURCE) is None:
        for place, change in _changes(parent, child, path):
            message = f"{path_text(place)} is changed, but {path_text((*path, _SOURCE))} is inherited"
            hint = f"say where this comes from, or write `{_SOURCE}: null`"
            yield warning("stale-evidence", message, change.key_at, hint, Note(evidence.value.at, "the source is here"))
            break
    for entry in child.entries:
        above = inherited.get(entry.key)
        if isinstance(entry.value, Mapping) and above is not None and isinstance(above.value, Mapping):
            yield from _stale_evidence(above.value, entry.value, (*path, entry.key))


def _changes(parent: Mapping, child: Mapping, path: Path) -> Iterator[tuple[Path, Entry]]:
    """Yield the values of a child that differ from the inherited ones, except evidence."""
    inherited = _by_key(parent.entries)
    for entry in child.entries:
        place, above = (*path, entry.key), inherited.get(entry.key)
        if entry.key == _SOURCE:
            continue
        if isinstance(entry.value, Mapping) and above is not None and isinstance(above.value, Mapping):
            yield from _changes(above.value, entry.value, place)
        elif above is None:
            if not (isinstance(entry.value, Scalar) and entry.value.value is None):
                yield place, entry
        elif _meaning(place, entry.value) != _meaning(place, above.value):
            yield place, entry


def _unquoted_texts(node: Node, path: Path) -> Iterator[tuple[Path, Scalar]]:
    """Yield each string that is not in quotes, with its path."""
    if isinstance(node, Mapping):
        for entry in node.entries:
            yield from _unquoted_texts(entry.value, (*path, entry.key))
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from _unquoted_texts(item, (*path, index))
    elif isinstance(node.value, str) and not node.quoted:
        yield path, node


def _joined_items(text: Scalar, path: Path) -> Iterator[Diagnostic]:
    """Yield a warning for a text that is two list items in fact, because the second is indented too far."""
    if _looks_like_items(text.at):
        message = f"{path_text(path)} is one text over several lines: {quoted(str(text.value))}"
        hint = "items of a list start in the same column; put the text in quotes if it is one text"
        yield warning("joined-items", message, text.at, hint)


def _is_blank(text: str) -> bool:
    """Return whether a document has nothing but comments."""
    return all(line.strip() in {"", "---", "..."} or line.lstrip().startswith("#") for line in text.splitlines())


def _word_for_boolean(text: Scalar, path: Path) -> Iterator[Diagnostic]:
    """Yield a warning for a string that is a boolean in YAML 1.1."""
    word = str(text.value).lower()
    if word in _BOOLEANS and _takes_any(path):
        literal = "true" if word in {"yes", "on"} else "false"
        message = f"{path_text(path)} is the string {text.value}: YAML 1.2 has only true and false"
        yield warning("word-for-boolean", message, text.at, f'write {literal}, or "{text.value}" for the string')


def _takes_any(path: Path) -> bool:
    return not _OF_ANY_TYPE.isdisjoint(path) and "error" not in path


def _misspelled_fields(parent: Mapping, child: Mapping) -> Iterator[Diagnostic]:
    """Yield a warning for each new rule of a field whose name is almost that of a known one."""
    for above in ((), *(("cases", entry.key) for entry, _ in cases_of(child))):
        fields, inherited = (node_at(tree, (*above, "fields")) for tree in (child, parent))
        for entry in fields.entries if isinstance(fields, Mapping) else ():
            if entry.key in KNOWN_FIELDS or (isinstance(inherited, Mapping) and inherited.get(entry.key) is not None):
                continue
            match = nearest(entry.key, sorted(KNOWN_FIELDS), _NEARLY_SAME)
            if match is not None:
                message = f"{path_text((*above, 'fields', entry.key))} is a rule for a field that no known API has"
                yield warning("unfamiliar-field", message, entry.key_at, f"did you mean {match}?")


def _looks_like_items(at: Location) -> bool:
    return any(at.document.line(number).lstrip().startswith("- ") for number in range(at.line + 1, at.end_line + 1))


def _is_params(path: Path) -> bool:
    return path[2:] == _PARAMS if path[:1] == ("cases",) else path == _PARAMS


def _meaning(path: Path, node: Node) -> str:
    """Return a text that is equal for two values if they are written alike or are the same size in bytes."""
    value = plain(node)
    size = bytes_of(value) if path[-1] in _SIZES and isinstance(value, str) else None
    # Not the value itself: 1, 1.0 and true are equal to Python.
    return repr(sorted(value.items()) if isinstance(value, dict) else value if size is None else size)


def _by_key(entries: tuple[Entry, ...]) -> dict[str, Entry]:
    return {entry.key: entry for entry in entries}


def _mapping_of(entry: Entry | None, otherwise_at: Node, path: Path = ()) -> Mapping:
    node = names_as_keys(entry.value) if entry is not None and path == ALIASES else entry and entry.value
    if isinstance(node, Mapping):
        return node
    return Mapping((), otherwise_at.at)
