"""Check relations between model names and what they imply."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Note, quoted
from compiler.source.tree import Entry, Mapping, Node, Path, Scalar, Sequence, node_at
from compiler.validate.relations.scope import RelationProblem, RelationScope, text_at, value_text

_NEVER_IMPLIED = frozenset({"model", "messages", "stream"})


def relations_of_names(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors between model names and what they imply."""
    aliases = node_at(scope.tree, ("models", "aliases"))
    if isinstance(aliases, Sequence):
        yield from _repeated(scope, aliases)
    for entry in aliases.entries if isinstance(aliases, Mapping) else ():
        yield from _implied(scope, entry)
        yield from _chained(scope, entry)


def _repeated(scope: RelationScope, aliases: Sequence) -> Iterator[RelationProblem]:
    first: dict[object, Node] = {}
    for index, item in enumerate(aliases.items):
        value = item.value if isinstance(item, Scalar) else item
        if value in first:
            path = ("models", "aliases", index)
            notes = (Note(first[value].at, "first listed here"),)
            message = f"{scope.path_text(path)} repeats {value_text(item)}"
            yield (path,), Diagnostic("repeated-alias", message, item.at, hint="remove it", notes=notes)
        first.setdefault(value, item)


def _chained(scope: RelationScope, alias: Entry) -> Iterator[RelationProblem]:
    """Yield an error if an alias is routed as another alias: the router resolves only one step."""
    path: Path = ("models", "aliases", alias.key, "model")
    node, target = node_at(scope.tree, path), text_at(scope.tree, path)
    if node is None or target is None or not _is_alias(scope, target):
        return
    chain = [alias.key]
    while target is not None and _is_alias(scope, target) and target not in chain:
        chain.append(target)
        target = text_at(scope.tree, ("models", "aliases", target, "model"))
    if target is None:
        hint = f"leave it out: {quoted(chain[-1])} is routed as the first served id"
    elif target in chain:
        hint = "name a served model id: these aliases form a cycle"
    else:
        hint = f"name the served model id: {quoted(target)}"
    message = f"{scope.path_text(path)} is {quoted(chain[1] if chain[1:] else alias.key)}, which is an alias itself"
    yield (path,), Diagnostic("alias-of-alias", message, node.at, "a served model id", hint)


def _is_alias(scope: RelationScope, name: str) -> bool:
    aliases = node_at(scope.tree, ("models", "aliases"))
    return isinstance(aliases, Mapping) and aliases.get(name) is not None


def _implied(scope: RelationScope, alias: Entry) -> Iterator[RelationProblem]:
    path: Path = ("models", "aliases", alias.key, "implies")
    implied = node_at(scope.tree, path)
    for entry in implied.entries if isinstance(implied, Mapping) else ():
        first = entry.key.partition(".")[0]
        if first in _NEVER_IMPLIED:
            message = f"{scope.path_text((*path, entry.key))}: an alias cannot imply `{first}`"
            yield (path,), Diagnostic("ungovernable-field", message, entry.key_at, hint="remove it")
