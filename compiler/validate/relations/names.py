"""Relations between the names of models, and what they imply."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Note, shown
from compiler.source.tree import Entry, Mapping, Node, Path, Scalar, Sequence, node_at
from compiler.validate.relations.judged import Judged, Related, described, text_at

_NEVER_IMPLIED = frozenset({"model", "messages", "stream"})


def relations_of_names(judged: Judged) -> Iterator[Related]:
    """Yield what is wrong between the names of models, and what they imply."""
    aliases = node_at(judged.tree, ("models", "aliases"))
    if isinstance(aliases, Sequence):
        yield from _repeated(judged, aliases)
    for entry in aliases.entries if isinstance(aliases, Mapping) else ():
        yield from _implied(judged, entry)
        yield from _chained(judged, entry)


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


def _chained(judged: Judged, alias: Entry) -> Iterator[Related]:
    """Yield an error where an alias is routed as another alias, which no engine serves: one step alone is looked up."""
    path: Path = ("models", "aliases", alias.key, "model")
    node, target = node_at(judged.tree, path), text_at(judged.tree, path)
    if node is None or target is None or not _is_alias(judged, target):
        return
    seen = [alias.key]
    while target is not None and _is_alias(judged, target) and target not in seen:
        seen.append(target)
        target = text_at(judged.tree, ("models", "aliases", target, "model"))
    if target is None:
        hint = f"leave it out: {shown(seen[-1])} is routed as the first served id"
    elif target in seen:
        hint = "name a served model id: these aliases lead round in a circle"
    else:
        hint = f"name the served model id: {shown(target)}"
    message = f"{judged.named(path)} is {shown(seen[1] if seen[1:] else alias.key)}, which is an alias itself"
    yield (path,), Diagnostic("alias-of-alias", message, node.at, "a served model id", hint)


def _is_alias(judged: Judged, name: str) -> bool:
    aliases = node_at(judged.tree, ("models", "aliases"))
    return isinstance(aliases, Mapping) and aliases.get(name) is not None


def _implied(judged: Judged, alias: Entry) -> Iterator[Related]:
    path: Path = ("models", "aliases", alias.key, "implies")
    implied = node_at(judged.tree, path)
    for entry in implied.entries if isinstance(implied, Mapping) else ():
        first = entry.key.partition(".")[0]
        if first in _NEVER_IMPLIED:
            message = f"{judged.named((*path, entry.key))}: no name of a model implies `{first}`"
            yield (path,), Diagnostic("ungovernable-field", message, entry.key_at, hint="remove it")
