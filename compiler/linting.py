"""Chain → warnings: what is not wrong, and yet hardly meant. They are values; whoever asked for them tells them."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from compiler.diagnostics import Diagnostic, Note, nearest, shown, warning
from compiler.inheritance import Link, merge
from compiler.printing import inline
from compiler.sizes import bytes_of
from compiler.tree import Entry, Mapping, Node, Path, Scalar, Sequence, node_at, plain, spelled
from router.artifact import MAX_ARTIFACT_BYTES

_NEARLY_FULL: Final = 0.9
"""The share of the largest artifact from which on a size is worth a warning."""

_SEARCHED: Final = 20
"""Most keys among which a likely one is looked for; no level of a valid profile has as many."""

_BODY_BYTES: Final[Path] = ("limits", "max_body_bytes")
_PARAMS: Final[Path] = ("sampling", "params")


def warnings_of_chain(chain: tuple[Link, ...]) -> Iterator[Diagnostic]:
    """Yield the warnings about what each profile of a chain says in view of its parents; none need be valid."""
    children = [link.tree for link in reversed(chain)]
    parents = accumulate(children, merge, initial=Mapping((), chain[0].tree.at))
    for parent, child in zip(parents, children, strict=False):
        yield from _idle_nulls(parent, child, ())
        yield from _repeated_values(parent, child, ())


def warnings_of_profile(profile: Mapping) -> Iterator[Diagnostic]:
    """Yield the warnings about a merged profile, which need not be valid."""
    yield from _lookalike_aliases(profile)


def warnings_of_size(size: int) -> Iterator[Diagnostic]:
    """Yield the warnings about an artifact of so many bytes."""
    if _NEARLY_FULL * MAX_ARTIFACT_BYTES <= size <= MAX_ARTIFACT_BYTES:
        message = f"the artifact has {size} bytes, and a router reads at most {MAX_ARTIFACT_BYTES}"
        yield warning("large-artifact", message, None, "list fewer or shorter aliases")


def _idle_nulls(parent: Mapping, child: Mapping, path: Path) -> Iterator[Diagnostic]:
    inherited, deleted = _by_key(parent.entries), _by_key(parent.deleted)
    for entry in child.entries:
        place, above = (*path, entry.key), inherited.get(entry.key)
        if isinstance(entry.value, Mapping):
            yield from _idle_nulls(_mapping_of(above, entry.value), entry.value, place)
        elif above is None and isinstance(entry.value, Scalar) and entry.value.value is None:
            yield _idle_null(entry, place, tuple(inherited), deleted.get(entry.key))


def _idle_null(entry: Entry, place: Path, inherited: tuple[str, ...], deletion: Entry | None) -> Diagnostic:
    message = f"this null deletes nothing: no {spelled(place)} is inherited"
    if deletion is not None:
        return warning(
            "idle-null", message, entry.value.at, "remove it", Note(deletion.value.at, "deleted here already")
        )
    match = nearest(entry.key, inherited) if len(inherited) <= _SEARCHED else None
    hint = f"did you mean {spelled((*place[:-1], match))}?" if match else "remove it"
    return warning("idle-null", message, entry.value.at, hint)


def _repeated_values(parent: Mapping, child: Mapping, path: Path) -> Iterator[Diagnostic]:
    inherited = _by_key(parent.entries)
    for entry in child.entries:
        place, above = (*path, entry.key), inherited.get(entry.key)
        if above is None:
            continue
        if isinstance(entry.value, Mapping) and path != _PARAMS:  # a band is one value, however many keys it takes
            yield from _repeated_values(_mapping_of(above, entry.value), entry.value, place)
        elif _meaning(place, entry.value) == _meaning(place, above.value):
            message = f"{spelled(place)} is set to {inline(plain(entry.value))}, which it inherits already"
            note = Note(above.value.at, "set to the same here")
            yield warning("repeated-value", message, entry.value.at, "remove it, or set another value", note)


def _meaning(path: Path, node: Node) -> str:
    """Return what is the same for two values just when they are written alike or, as sizes, mean the same."""
    value = plain(node)
    size = bytes_of(value) if path == _BODY_BYTES and isinstance(value, str) else None
    # Not the value itself: 1, 1.0 and true are equal to Python.
    return repr(sorted(value.items()) if isinstance(value, dict) else value if size is None else size)


def _lookalike_aliases(profile: Mapping) -> Iterator[Diagnostic]:
    aliases = node_at(profile, ("models", "aliases"))
    first: dict[str, Scalar] = {}
    for index, item in enumerate(aliases.items if isinstance(aliases, Sequence) else ()):
        if not isinstance(item, Scalar) or not isinstance(item.value, str):
            continue
        other = first.setdefault(item.value.casefold().strip(), item)
        if other.value != item.value:
            place = spelled(("models", "aliases", index))
            message = (
                f"{place} is {shown(item.value)}, which differs from {shown(str(other.value))} only in case or blanks"
            )
            hint = "keep both only if clients use both: the router takes them for two names"
            yield warning("lookalike-alias", message, item.at, hint, Note(other.at, "the other one is listed here"))


def _by_key(entries: tuple[Entry, ...]) -> dict[str, Entry]:
    return {entry.key: entry for entry in entries}


def _mapping_of(entry: Entry | None, otherwise_at: Node) -> Mapping:
    if entry is not None and isinstance(entry.value, Mapping):
        return entry.value
    return Mapping((), otherwise_at.at)
