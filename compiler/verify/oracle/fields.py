"""The oracle for the rules of fields, consts, ranges and the budget."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from compiler.verify.oracle.values import Fields, at, choices, is_among, is_match, is_of_type, number_in, plain_number
from router.contract.schema.fields import BUDGET_FIELDS, OTHER_SPELLINGS, SAMPLING_FIELDS
from router.contract.schema.rule_list import Budget, Const, FieldRule, Range
from router.contract.schema.sections import Field
from router.contract.schema.types import ErrorText


class Fault(NamedTuple):
    """What is wrong with a request: the code and field of the error, and the part of the rule that it violates.

    words: the error texts of the rule, the most specific first. details: the values of placeholders; a placeholder
    without a value may be anything.
    """

    code: str
    param: str | None
    part: str
    details: dict[str, Any]
    words: tuple[ErrorText, ...] = ()


BUDGETS: Final = (*BUDGET_FIELDS, *(name for name, meant in OTHER_SPELLINGS.items() if meant == "max_tokens"))
"""Every name that a budget may be sent under, in the order of precedence."""


@cache
def names_of(path: str) -> tuple[str, ...]:
    """Return the names under which engines know a field, its own first."""
    return (path, *(other for other, meant in OTHER_SPELLINGS.items() if meant == path))


def fault_of_field(rule: FieldRule, fields: Fields) -> Fault | None:
    """Return the fault of a request under the rule of a field."""
    sent = [(rule.path, value) for name in names_of(rule.path) if (value := at(fields, name)) is not None]
    sent += _taken(rule, fields)
    found = next(((param, *fault) for param, value in sent for fault in _faults(rule, param, value, fields)), None)
    if found is None and rule.field.required and not sent:
        found = (rule.path, "required", {"value": None})
    if found is None:
        return None
    param, part, details = found
    code = "sampling_contract_violation" if rule.path in SAMPLING_FIELDS else "contract_violation"
    details = {**_bounds(rule.field), **details}
    return Fault(code, param, part, details, words_of_part(rule.field.parts, part, rule.field.error))


def _taken(rule: FieldRule, fields: Fields) -> list[tuple[str, Any]]:
    """Return the source field that supplies a missing value, and the value."""
    if at(fields, rule.path) is not None:
        return []
    given = [
        (source, value)
        for source in rule.field.sources
        for name in names_of(source)
        if (value := at(fields, name)) is not None
    ]
    return given[:1]


def _bounds(field: Field) -> dict[str, Any]:
    """Return the values of placeholders that do not depend on the violated part of a rule."""
    least, most = _either(field.min, field.above), _either(field.max, field.below)
    allowed = None if field.allowed is None else choices(field.allowed)
    return {"min": plain_number(least), "max": plain_number(most), "allowed": allowed}


def words_of_part(parts: dict[str, ErrorText], part: str, error: ErrorText | None) -> tuple[ErrorText, ...]:
    """Return the error texts for a part of a rule: its own, those of the range around it, those of the rule."""
    wider = {"too_low": "range", "too_high": "range"}.get(part, "")
    return tuple(words for words in (parts.get(part), parts.get(wider), error) if words is not None)


def _faults(
    rule: FieldRule,
    param: str,
    value: Any,  # noqa: ANN401 - any JSON value
    fields: Fields,
) -> Iterator[tuple[str, dict[str, Any]]]:
    field, details = rule.field, {"value": value}
    is_taken = param in field.sources
    if is_taken and field.map:
        return  # What is mapped may be of another vocabulary.
    if field.reject and not is_taken:
        yield "reject", details
    if field.type and not any(is_of_type(value, kind) for kind in field.type):
        yield "wrong_type", details
    if field.allowed is not None and not _is_allowed(rule, value):
        yield "allowed", details | {"allowed": choices(field.allowed), "expected": choices(field.allowed)}
    yield from ((part, details | found) for part, found in _out_of_range(rule, value))
    yield from ((part, details | found) for part, found in _ill_measured(field, value))
    if field.pattern is not None and not is_match(field.pattern, value):
        yield "pattern", details | {"expected": field.pattern}
    if not all(is_among(at(fields, other), wanted) for other, wanted in field.requires.items()):
        yield "requires", details
    if any(at(fields, other) is not None and is_among(at(fields, other), w) for other, w in field.excludes.items()):
        yield "excludes", details


def _is_allowed(rule: FieldRule, value: object) -> bool:
    allowed = rule.field.allowed or ()
    numbers = {float(each) for each in allowed if not isinstance(each, bool | str)}
    return number_in(rule.path, value) in numbers or any(
        value is each or (isinstance(each, str) and value == each) for each in allowed if isinstance(each, bool | str)
    )


def _out_of_range(rule: FieldRule, value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    field = rule.field
    least, most = _either(field.min, field.above), _either(field.max, field.below)
    if least is None and most is None:
        return
    details = {"min": plain_number(least), "max": plain_number(most)}
    number = number_in(rule.path, value)
    if number is None:
        yield "wrong_type", details
        return
    if (field.min is not None and number < field.min) or (field.above is not None and number <= field.above):
        yield "too_low", details
    if (field.max is not None and number > field.max) or (field.below is not None and number >= field.below):
        yield "too_high", details


def _either(closed: float | None, is_open: float | None) -> float | None:
    return is_open if closed is None else closed


def _ill_measured(field: Field, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401
    items = len(value) if isinstance(value, list) else 1
    if items < (field.min_items or 0) or (field.max_items is not None and items > field.max_items):
        yield "items", {"count": items, "min": field.min_items or 0, "max": field.max_items}
    if field.max_bytes is not None:
        sizes = [
            len(each.encode()) for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)
        ]
        if any(size > field.max_bytes for size in sizes):
            yield "bytes", {"count": max(sizes), "max": field.max_bytes}


def fault_of_sampling(rule: Const | Range, fields: Fields) -> Fault | None:
    """Return the fault of a request under a const or a range; a const that yields is never violated."""
    if isinstance(rule, Const) and rule.conflict == "allow":
        return None
    least, most = (rule.value, rule.value) if isinstance(rule, Const) else (rule.min, rule.max)
    for name in names_of(rule.field):
        value = fields.get(name)
        number = number_in(rule.field, value)
        if value is None or (number is not None and least <= number <= most):
            continue
        bounds = {"allowed": choices([least])} if isinstance(rule, Const) else {"min": least, "max": most}
        return Fault("sampling_contract_violation", rule.field, "value", {"value": value, **bounds})
    return None


def fault_of_budget(rule: Budget, sent: list[tuple[str, Any]]) -> Fault | None:
    """Return the fault of a request under the budget; `sent` are its members, repetitions included."""
    names = [name for name, _ in sent]
    for name in BUDGETS:
        if names.count(name) > 1:
            return Fault("bad_request", _standard(name), "repeated", {})
    fields = dict(sent)
    budgets = [(name, fields[name]) for name in BUDGETS if fields.get(name) is not None]
    for name, value in budgets:
        if type(value) is not int or value < 1:
            return Fault("bad_request", _standard(name), "wrong_type", {"value": value, "min": 1, "max": rule.cap})
    for name, value in budgets:
        if value > rule.cap and rule.on_exceed == "reject":
            details = {"value": value, "min": 1, "max": rule.cap, "count": value}
            return Fault("max_tokens_exceeded", _standard(name), "cap", details)
    return None


def _standard(name: str) -> str:
    return OTHER_SPELLINGS.get(name, name)
