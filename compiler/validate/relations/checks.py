"""Check relations within the named checks."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Note
from compiler.source.tree import Path, node_at
from compiler.validate.relations.scope import RelationProblem, RelationScope, texts_at


def relations_of_checks(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors within the named checks."""
    above: Path = ("checks", "tool_choice")
    allowed, needing = (*above, "allowed"), (*above, "requires_tools")
    node = node_at(scope.tree, allowed)
    if node is None:
        return
    known = {word for word, _ in texts_at(scope.tree, allowed)}
    for word, at in texts_at(scope.tree, needing):
        if word not in known:
            message = f"{scope.path_text(needing)} names `{word}`, which `allowed` does not list"
            hint = "remove it, or add it to `allowed`"
            notes = (Note(node.at, "`allowed` is set here"),)
            yield (allowed, needing), Diagnostic("never-allowed", message, at, hint=hint, notes=notes)
