"""Relations within the named checks."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Note
from compiler.source.tree import Path, node_at
from compiler.validate.relations.judged import Judged, Related, texts_at


def relations_of_checks(judged: Judged) -> Iterator[Related]:
    """Yield what is wrong within the named checks."""
    above: Path = ("checks", "tool_choice")
    allowed, needing = (*above, "allowed"), (*above, "requires_tools")
    node = node_at(judged.tree, allowed)
    if node is None:
        return
    known = {word for word, _ in texts_at(judged.tree, allowed)}
    for word, at in texts_at(judged.tree, needing):
        if word not in known:
            message = f"{judged.named(needing)} names `{word}`, which is not allowed at all"
            hint = "remove it, or allow it"
            notes = (Note(node.at, "what is allowed is set here"),)
            yield (allowed, needing), Diagnostic("never-allowed", message, at, hint=hint, notes=notes)
