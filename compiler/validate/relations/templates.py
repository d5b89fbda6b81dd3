"""Check templates: texts with placeholders, and the bodies that contain them."""

import re
from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Diagnostic, nearest
from compiler.language.values import LARGEST_WHOLE, MAX_MESSAGE
from compiler.source.tree import Entry, Mapping, Node, Path, Scalar, Sequence, node_at
from compiler.validate.relations.scope import RelationProblem, RelationScope, value_text
from router.contract.schema.types import ErrorText
from router.contract.templates import PLACEHOLDERS, problem_of

MAX_BODY_DEPTH: Final = 8

_WORDS: Final = frozenset(ErrorText.__struct_fields__)
_NAMED: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


def relations_of_templates(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors in the templates of a profile or a case."""
    yield from _body(scope, ("errors", "body"))
    yield from _words(scope, ("errors", "engine_400"))
    for path in _below(scope, ("errors", "codes")):
        yield from _words(scope, path)
    yield from _error(scope, ("unknown_fields", "error"))
    for path in _below(scope, ("unknown_fields", "within")):
        yield from _error(scope, (*path, "error"))
    for section in ("fields", "checks"):
        for path in _below(scope, (section,)):
            yield from _error(scope, (*path, "error"))


def _below(scope: RelationScope, path: Path) -> Iterator[Path]:
    for entry in _entries(scope, path):
        yield (*path, entry.key)


def _entries(scope: RelationScope, path: Path) -> tuple[Entry, ...]:
    node = node_at(scope.tree, path)
    return node.entries if isinstance(node, Mapping) else ()


def _error(scope: RelationScope, path: Path) -> Iterator[RelationProblem]:
    yield from _words(scope, path)
    for entry in _entries(scope, path):
        if entry.key not in _WORDS:
            yield from _words(scope, (*path, entry.key))


def _words(scope: RelationScope, path: Path) -> Iterator[RelationProblem]:
    if isinstance(node_at(scope.tree, path), Mapping):
        yield from _text(scope, (*path, "message"))
        yield from _body(scope, (*path, "body"))
    else:
        yield from _text(scope, path)


def _text(scope: RelationScope, path: Path) -> Iterator[RelationProblem]:
    node = node_at(scope.tree, path)
    if isinstance(node, Scalar) and isinstance(node.value, str):
        problem = _problem(node.value, scope.path_text(path), node)
        if problem is not None:
            yield (path,), problem


def _problem(text: str, name: str, node: Scalar) -> Diagnostic | None:
    problem = problem_of(text)
    if problem is None:
        return None
    written = [found[1] for found in _NAMED.finditer(text) if found[1] is not None and found[1] not in PLACEHOLDERS]
    if not written:
        message = f"{name}: a single `{problem}`"
        hint = "write {{ and }} for literal braces"
        return Diagnostic("bare-brace", message, node.at, hint=hint)
    match = nearest(written[0].strip(), sorted(PLACEHOLDERS))
    hint = f"did you mean {{{match}}}?" if match else "write {{ and }} for literal braces"
    message = f"{name}: {{{written[0]}}} is not a placeholder"
    expected = "one of " + ", ".join(sorted(PLACEHOLDERS))
    return Diagnostic("unknown-placeholder", message, node.at, expected, hint)


def _body(scope: RelationScope, path: Path) -> Iterator[RelationProblem]:
    node = node_at(scope.tree, path)
    if isinstance(node, Mapping):
        yield from _json(scope, path, node, 1)


def _json(scope: RelationScope, path: Path, node: Node, depth: int) -> Iterator[RelationProblem]:
    if isinstance(node, Scalar):
        yield from _json_scalar(scope, path, node)
        return
    if depth > MAX_BODY_DEPTH:
        message = f"{scope.path_text(path)}: more than {MAX_BODY_DEPTH} levels of nesting in a body"
        yield (path,), Diagnostic("too-deep", message, node.at)
        return
    if isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from _json(scope, (*path, index), item, depth + 1)
        return
    for entry in node.entries:
        yield from _json(scope, (*path, entry.key), entry.value, depth + 1)


def _json_scalar(scope: RelationScope, path: Path, node: Scalar) -> Iterator[RelationProblem]:
    value = node.value
    is_beyond = isinstance(value, int | float) and not abs(value) <= LARGEST_WHOLE
    if is_beyond or (isinstance(value, str) and len(value) > MAX_MESSAGE):
        expected = f"a number, true, false, null, or a text of at most {MAX_MESSAGE} characters"
        message = f"{scope.path_text(path)} is {value_text(node)}"
        yield (path,), Diagnostic("wrong-value", message, node.at, expected)
    elif isinstance(value, str):
        yield from _text(scope, path)
