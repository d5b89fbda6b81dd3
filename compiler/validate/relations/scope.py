"""The scope of semantic checks: a profile, or a case merged with the base; and how messages name values."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.diagnostics import MAX_SHOWN_VALUE, Diagnostic, Location, quoted
from compiler.source.tree import Mapping, Node, Path, Scalar, Sequence, node_at, path_text

RelationProblem = tuple[tuple[Path, ...], Diagnostic]
"""Paths that must be valid for a diagnostic to be reported, and the diagnostic."""


@dataclass(frozen=True, slots=True)
class RelationScope:
    """A profile, or a case merged with the base: its tree, its path in the profile, and the profile."""

    tree: Mapping
    above: Path
    profile: Mapping
    invalid_paths: frozenset[Path] = frozenset()

    @property
    def is_case(self) -> bool:
        """Whether this is a case and not the profile."""
        return bool(self.above)

    def is_valid(self, path: Path) -> bool:
        """Return whether a path has no known error at, above or below it."""
        return not any(path[: len(other)] == other or other[: len(path)] == path for other in self.invalid_paths)

    def path_text(self, path: Path) -> str:
        """Return a path within the tree as text, from the root of the profile."""
        return path_text((*self.above, *path))


def value_text(node: Node) -> str:
    """Return the description of a value for a message."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return f"a list of {len(node.items)}"
    if isinstance(node.value, str):
        return f"the string {quoted(node.value)}"
    if node.value is None or isinstance(node.value, bool):
        return {None: "null", True: "true", False: "false"}[node.value]
    return number_text(node.value)


def number_text(number: float) -> str:
    """Return a number for a message."""
    if isinstance(number, float) and not math.isfinite(number):
        return ".nan" if math.isnan(number) else f"{'-' if number < 0 else ''}.inf"
    text = repr(number)
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[:20]}... ({len(text)} digits)"


def number_at(root: Node, path: Path) -> tuple[float, Location] | None:
    """Return the number at a path and its place, or None where there is none."""
    node = node_at(root, path)
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return None
    return node.value, node.at


def texts_at(root: Node, path: Path) -> Iterator[tuple[str, Location]]:
    """Yield the texts of a value that is one text or a list of them, each with its place."""
    node = node_at(root, path)
    for item in node.items if isinstance(node, Sequence) else (node,):
        if isinstance(item, Scalar) and isinstance(item.value, str):
            yield item.value, item.at


def text_at(root: Node, path: Path) -> str | None:
    """Return the text at a path, or None where there is none."""
    node = node_at(root, path)
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None


def later(one: Location, other: Location) -> tuple[Location, Location]:
    """Return two places in reverse order of appearance: first the one in the child, or further down."""

    def order(at: Location) -> tuple[int, int, int]:
        return (-sum(1 for _ in at.hops()), at.line, at.column)

    return (one, other) if order(one) > order(other) else (other, one)


KEEP_ONE = "keep one of the two; where the other is inherited, delete it with null"
