"""A profile as an immutable tree of values, each with the place where it was written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from compiler.diagnostics import Location
from compiler.source.scalars import Value

MAX_NODES: Final = 10_000
"""Most keys and values in one document, aliases counted as what they expand to."""

MAX_DEPTH: Final = 32
"""Deepest nesting of mappings and lists in one document."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, and whether it was written in quotes."""

    value: Value
    at: Location
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of values."""

    items: "tuple[Node, ...]"
    at: Location


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value; after merging also the inherited entry that it replaced or deleted."""

    key: str
    key_at: Location
    value: "Node"
    replaced: "Entry | None" = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys with their values in the order of writing; after merging also the keys that a null deleted."""

    entries: tuple[Entry, ...]
    at: Location
    deleted: tuple[Entry, ...] = ()

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key, or None."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def without(self, key: str) -> "Mapping":
        """Return this mapping without one key."""
        return Mapping(tuple(entry for entry in self.entries if entry.key != key), self.at, self.deleted)

    def deletion_of(self, key: str) -> Entry | None:
        """Return the entry whose null deleted a key, or None."""
        return next((entry for entry in self.deleted if entry.key == key), None)


Node = Scalar | Sequence | Mapping
Path = tuple[str | int, ...]


def plain(node: Node) -> Any:  # noqa: ANN401 - whatever the document holds
    """Return the bare values of a tree: dicts, lists and scalars, fresh on every call."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {entry.key: plain(entry.value) for entry in node.entries}


def node_at(root: Node, path: Path) -> Node | None:
    """Return the node at a path of keys and list indices, or None where the tree has none."""
    node: Node = root
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str):
            entry = node.get(step)
            if entry is None:
                return None
            node = entry.value
        elif isinstance(node, Sequence) and isinstance(step, int):
            node = node.items[step]
        else:
            return None
    return node


def key_location(root: Mapping, path: Path) -> Location:
    """Return the location of the key at a path, of an item of a list, or of the document for the root."""
    if not path:
        return root.at
    parent = node_at(root, path[:-1])
    if isinstance(parent, Mapping) and isinstance(path[-1], str):
        entry = parent.get(path[-1])
        if entry is not None:
            return entry.key_at
    node = node_at(root, path)
    return root.at if node is None else node.at


def place_within(scalar: Scalar, start: int, end: int) -> Location:
    """Return the location of some characters of a string, or of the whole string if it has escapes or lines."""
    at, text = scalar.at, str(scalar.value)
    written = at.document.line(at.line)[at.column - 1 : at.end_column - 1]
    for quote, spell in _SPELLINGS:
        if at.line == at.end_line and written == f"{quote}{spell(text)}{quote}":
            column = at.column + len(quote)
            first, behind = column + len(spell(text[:start])), column + len(spell(text[:end]))
            return Location(at.document, at.line, first, at.line, behind)
    return at


_SPELLINGS: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("", lambda text: text),
    ("'", lambda text: text.replace("'", "''")),
    ('"', lambda text: text.replace("\\", "\\\\").replace('"', '\\"')),
)
"""The ways to write a string in one line: plain, in single quotes, in double quotes."""


def path_text(path: Path) -> str:
    """Return a path for people: `models.aliases[2]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
