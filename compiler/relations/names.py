"""Relations between the names of models."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Note
from compiler.relations.judged import Judged, Related, described
from compiler.tree import Node, Scalar, Sequence, node_at


def relations_of_names(judged: Judged) -> Iterator[Related]:
    """Yield what is wrong between the names of models."""
    aliases = node_at(judged.tree, ("models", "aliases"))
    first: dict[object, Node] = {}
    for index, item in enumerate(aliases.items if isinstance(aliases, Sequence) else ()):
        value = item.value if isinstance(item, Scalar) else item
        if value in first:
            path = ("models", "aliases", index)
            notes = (Note(first[value].at, "first listed here"),)
            message = f"{judged.named(path)} repeats {described(item)}"
            yield (path,), Diagnostic("repeated-alias", message, item.at, hint="remove it", notes=notes)
        first.setdefault(value, item)
