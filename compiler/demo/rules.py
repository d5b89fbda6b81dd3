"""The requests of the demo that show fields, checks, unknown fields and cases: for the rules that the contract has."""

import json
from collections.abc import Iterator
from typing import Any, Final

from compiler.demo.scenes import QUESTION, Body, Scene
from compiler.language.constraints import boundary_values, values_named
from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.rules.field_tests import tests_of
from router.contract.schema.model import Case, Contract
from router.contract.schema.rule_list import CheckRule, FieldRule

MAX_FIELDS: Final = 3
MAX_CHECKS: Final = 2
MAX_CASES: Final = 3
"""The most scenes of one kind: the demo must stay short."""

_UNKNOWN: Final = "no_such_field"
_TOOL: Final = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
_OTHER_TYPES: Final[tuple[Any, ...]] = (1, {}, "text")
_BREAKING_CHECKS: Final[tuple[Body, ...]] = (
    {"messages": [{"role": "critic", "content": "Say hello."}]},
    {"messages": [{"role": "assistant", "content": "Hello."}]},
    {"messages": [{"role": "tool", "content": "Hello."}]},
    {"messages": [*QUESTION, *QUESTION]},
    {"tools": [_TOOL, _TOOL]},
    {"tools": [{"type": "no such type"}]},
    {"tool_choice": "sometimes"},
    {"response_format": {"type": "yaml"}},
)


def rule_scenes(contract: Contract, model: str) -> Iterator[Scene]:
    """Yield the requests that show the rules of fields and checks, what becomes of unknown fields, and the cases."""
    yield from _field_scenes(contract, model)
    yield from _check_scenes(contract, model)
    unknown = {_UNKNOWN: 1}
    decision = _decided(contract, model, unknown)
    if isinstance(decision, Rejection) and decision.rule == "unknown_fields":
        yield Scene("an unknown field is refused", unknown, 400)
    elif isinstance(decision, Forward) and contract.unknown_fields.policy == "drop":
        yield Scene("an unknown field is dropped", unknown, rule="unknown_fields")
    yield from _case_scenes(contract, model)


def _decided(contract: Contract, model: str, fields: Body) -> Forward | Rejection:
    body = {"model": model, "messages": QUESTION, **fields}
    return decide(json.dumps(body).encode(), contract, ServedIds((model,)))


def _field_scenes(contract: Contract, model: str) -> Iterator[Scene]:
    shown: dict[str, Scene] = {}
    for rule in contract.rules:
        if not isinstance(rule, FieldRule) or len(shown) == MAX_FIELDS:
            continue
        fields = _nested(rule.path, _violating(rule))
        decision = _decided(contract, model, fields)
        part = decision.error.part if isinstance(decision, Rejection) and decision.rule == rule.rule else None
        if part is not None and part not in shown:
            shown[part] = Scene(f"a field is rejected: {part}", fields, 400)
    yield from shown.values()


def _nested(path: str, value: object) -> Body:
    first, *rest = path.split(".", 1)
    return {first: _nested(rest[0], value) if rest else value}


def _violating(rule: FieldRule) -> object:
    """Return a value that a rule is likely to reject: beyond an edge, an unknown word, or another type."""
    field, tests = rule.field, tuple(tests_of(rule))
    edges = [edge for edge in values_named(field) if isinstance(edge, int | float) and not isinstance(edge, bool)]
    values = [*(edge + 1 for edge in edges), *(each.value for each in boundary_values(rule.path, field))]
    values += ["no such value", *_OTHER_TYPES]
    return next((value for value in values if any(test(value, {}) is not None for test in tests)), values[-1])


def _check_scenes(contract: Contract, model: str) -> Iterator[Scene]:
    made = {rule.rule for rule in contract.rules if isinstance(rule, CheckRule)}
    shown: dict[str, Scene] = {}
    for fields in _BREAKING_CHECKS:
        decision = _decided(contract, model, fields)
        if isinstance(decision, Rejection) and decision.rule in made and len(shown) < MAX_CHECKS:
            sent = ", ".join(f"{name}: {json.dumps(value)[:60]}" for name, value in fields.items())
            shown.setdefault(decision.rule, Scene("a check refuses", fields, 400, sent=sent))
    yield from shown.values()


def _case_scenes(contract: Contract, model: str) -> Iterator[Scene]:
    shown = 0
    for case in contract.cases:
        fields = _fields_of(contract, case)
        decision = _decided(contract, model, fields)
        if decision.case_selection.case is case and isinstance(decision, Forward) and shown < MAX_CASES:
            shown += 1
            yield Scene(f"the case {case.name}", fields, rule=f"cases.{case.name}")


def _fields_of(contract: Contract, case: Case) -> Body:
    """Return fields with which a request is likely to come under a case."""
    conditions = dict(case.when.fields)
    if case.when.mode and contract.mode.default not in case.when.mode:
        readings = (reading.when for reading in contract.mode.match if reading.mode in case.when.mode and reading.when)
        conditions |= next(readings, {})
    fields: Body = {}
    for path, values in conditions.items():
        fields |= _nested(path, values[0] if values else "any")
    return fields
