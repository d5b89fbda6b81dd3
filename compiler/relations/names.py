"""Relations between the names of models, and what they imply."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Note
from compiler.relations.judged import Judged, Related, described
from compiler.tree import Entry, Mapping, Node, Path, Scalar, Sequence, node_at

_NEVER_IMPLIED = frozenset({"model", "messages", "stream"})


def relations_of_names(judged: Judged) -> Iterator[Related]:
    """Yield what is wrong between the names of models, and what they imply."""
    aliases = node_at(judged.tree, ("models", "aliases"))
    if isinstance(aliases, Sequence):
        yield from _repeated(judged, aliases)
    for entry in aliases.entries if isinstance(aliases, Mapping) else ():
        yield from _implied(judged, entry)


def _repeated(judged: Judged, aliases: Sequence) -> Iterator[Related]:
    first: dict[object, Node] = {}
    for index, item in enumerate(aliases.items):
        value = item.value if isinstance(item, Scalar) else item
        if value in first:
            path = ("models", "aliases", index)
            notes = (Note(first[value].at, "first listed here"),)
            message = f"{judged.named(path)} repeats {described(item)}"
            yield (path,), Diagnostic("repeated-alias", message, item.at, hint="remove it", notes=notes)
        first.setdefault(value, item)


def _implied(judged: Judged, alias: Entry) -> Iterator[Related]:
    path: Path = ("models", "aliases", alias.key, "implies")
    implied = node_at(judged.tree, path)
    for entry in implied.entries if isinstance(implied, Mapping) else ():
        first = entry.key.partition(".")[0]
        if first in _NEVER_IMPLIED:
            message = f"{judged.named((*path, entry.key))}: no name of a model implies `{first}`"
            yield (path,), Diagnostic("ungovernable-field", message, entry.key_at, hint="remove it")
