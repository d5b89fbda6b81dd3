"""`order`: its ids are those of existing rules."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Note, nearest, quoted
from compiler.source.tree import Mapping, Node, Scalar, Sequence, node_at
from compiler.validate.case_trees import cases_of, merged_case
from compiler.validate.relations.scope import RelationProblem, RelationScope, text_at
from router.contract.schema.rule_list import PART_LIMITS, UNKNOWN_WITHIN

_ALWAYS_FIRST = "limits.max_body_bytes"
_SHOWN = 20
"""Most ids that are listed in a message."""


def relations_of_order(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the ids in `order` that are unknown or repeated."""
    order = node_at(scope.tree, ("order",))
    is_inherited = scope.is_case and order is node_at(scope.profile, ("order",))
    if not isinstance(order, Sequence) or is_inherited:
        return
    known = _ids(scope)
    first: dict[str, Node] = {}
    for index, item in enumerate(order.items):
        if not isinstance(item, Scalar) or not isinstance(item.value, str):
            continue
        path = ("order", index)
        if item.value in first:
            message = f"{scope.path_text(path)} repeats {quoted(item.value)}"
            notes = (Note(first[item.value].at, "first listed here"),)
            yield (path,), Diagnostic("repeated-item", message, item.at, hint="remove it", notes=notes)
        elif item.value not in {*known, _ALWAYS_FIRST}:
            message = f"{scope.path_text(path)} is {quoted(item.value)}, but there is no such rule"
            expected = f"one of {', '.join(known)}" if 0 < len(known) <= _SHOWN else "the id of an existing rule"
            match = nearest(item.value, known)
            hint = f"did you mean {match}?" if match else "remove it"
            yield (path,), Diagnostic("unknown-rule", message, item.at, expected, hint)
        first.setdefault(item.value, item)


def _ids(scope: RelationScope) -> list[str]:
    """Return the ids of all rules of the profile and of this case; for the profile, of every case.

    A case may have no rule of an id that it inherits the order of, and a profile may order rules that only cases have.
    """
    trees = [scope.profile, scope.tree]
    if not scope.is_case:
        trees += [merged_case(scope.profile, case) for _, case in cases_of(scope.profile)]
    return list(dict.fromkeys(id_ for tree in trees for id_ in _ids_of(tree)))


def _ids_of(tree: Mapping) -> Iterator[str]:
    if text_at(tree, ("unknown_fields", "policy")) in {"drop", "reject"}:
        yield "unknown_fields"
    within = node_at(tree, ("unknown_fields", "within"))
    for entry in within.entries if isinstance(within, Mapping) else ():
        yield f"{UNKNOWN_WITHIN}.{entry.key}"
    for path in (("sampling", "params"), ("fields",), ("checks",)):
        rules = node_at(tree, path)
        for entry in rules.entries if isinstance(rules, Mapping) else ():
            yield ".".join((*path, entry.key))
    for path in (*(("limits", limit) for limit in PART_LIMITS.values()), ("output", "max_tokens")):
        if node_at(tree, path) is not None:
            yield ".".join(path)
