"""What a contract promises about a forwarded body, checked against what each reader and each engine makes of it."""

from collections.abc import Iterator
from typing import Any

import orjson

from router.contract.decide import Forward
from router.contract.rules.field_tests import tests_of
from router.contract.schema.fields import BUDGET_FIELDS, OTHER_SPELLINGS, SAMPLING_FIELDS
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import Const, FieldRule, Range
from tests.router.conformance.engines import Effective, engines, read_by
from tests.router.conformance.readers import REFUSALS, readers, same

GOVERNED = {"model", "min_tokens", *SAMPLING_FIELDS, *BUDGET_FIELDS, *OTHER_SPELLINGS}


def broken_promises(sent: bytes, forward: Forward, contract: Contract) -> list[str]:
    """Say where a reader or an engine reads in what is forwarded something else than the contract judged."""
    judged = orjson.loads(sent)
    broken = list(_between_readers(judged, forward))
    for name, engine in engines().items():
        read = read_by(engine, forward.body)
        if read is not None:
            broken += [f"{name}: {complaint}" for complaint in _of_engine(read, judged, forward, contract)]
    return broken


def _between_readers(judged: dict[str, Any], forward: Forward) -> Iterator[str]:
    forwarded = orjson.loads(forward.body)
    kept = [{key: value for key, value in fields.items() if key not in GOVERNED} for fields in (judged, forwarded)]
    if not same(*(kept if forward.edits else (judged, forwarded))):
        yield "what nobody governs has changed"
    for name, read in readers().items():
        try:
            seen = read(forward.body)
        except REFUSALS:
            continue
        if not same(seen, forwarded):
            yield f"{name} reads the body otherwise"


def _of_engine(read: Effective, judged: dict[str, Any], forward: Forward, contract: Contract) -> Iterator[str]:
    if (read.model, read.stream) != (forward.model_served, forward.stream):
        yield f"model {read.model}, stream {read.stream}"
    for rule in contract.sampling_rules:
        values = {rule.field: read.sampling[rule.field]}
        if rule.field == "n" and read.best_of is not None:
            values["best_of"] = read.best_of
        for name, value in values.items():
            if not (_keeps(rule, value, forward) or (value is None and name in read.unknown)):
                yield f"{name} is {value}"
    yield from _of_fields(read, contract)
    output = contract.output.max_tokens
    if output is None:
        return
    if read.budget is None or not 1 <= read.budget <= output.cap:
        yield f"budget is {read.budget}"
    elif read.min_tokens > read.budget and _is_set_here(judged, forward):
        yield f"min_tokens is {read.min_tokens} beside a budget of {read.budget}"


def _of_fields(read: Effective, contract: Contract) -> Iterator[str]:
    for rule in contract.rules:
        if not isinstance(rule, FieldRule):
            continue
        values = {rule.path: read.sampling[rule.path]}
        if rule.path == "n" and read.best_of is not None:
            values["best_of"] = read.best_of
        for name, value in values.items():
            if not (_keeps_field(rule, value) or (value is None and name in read.unknown)):
                yield f"{name} is {value}"


def _keeps_field(rule: FieldRule, value: Any) -> bool:
    field = rule.field
    if value is None:
        return field.default is None and field.force is None
    if field.drop or field.force is not None:
        return bool(value == field.force)
    is_within = (field.floor is None or value >= field.floor) and (field.ceiling is None or value <= field.ceiling)
    return is_within and all(test(value, {}) is None for test in tests_of(rule))


def _keeps(rule: Const | Range, value: Any, forward: Forward) -> bool:
    if isinstance(rule, Range):
        return value is None or rule.min <= value <= rule.max
    if rule.conflict == "allow" and rule.field in forward.violations:
        return True
    return value is not None and float(value) == float(rule.value)


def _is_set_here(judged: dict[str, Any], forward: Forward) -> bool:
    """Tell whether the budget is the router's: a default, or one that was lowered."""
    is_sent = any(judged.get(name) is not None for name in (*BUDGET_FIELDS, "n_predict"))
    edited = (edit.field for edit in forward.edits if edit.rule == "output.max_tokens")
    return not is_sent or any(judged.get(field) is not None for field in edited)
