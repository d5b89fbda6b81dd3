"""The oracle for the rules of fields, consts, ranges and the budget."""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any, Final, NamedTuple

from compiler.verify.oracle.values import Fields, at, choices, is_among, is_match, is_of_type, number_in, plain_number
from router.contract.schema.fields import BUDGET_FIELDS, OTHER_SPELLINGS, SAMPLING_FIELDS
from router.contract.schema.rule_list import Budget, Const, FieldRule, Range
from router.contract.schema.sections import ValueRule
from router.contract.schema.types import ErrorText, Scalar


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


def _bounds(field: ValueRule) -> dict[str, Any]:
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
    yield from ((part, details | found) for part, found in _faults_of_value(field, rule.path, value))
    for index, item in enumerate(value if field.items is not None and isinstance(value, list) else ()):
        for _, found in _faults_of_value(field.items or ValueRule(), "", item):
            yield "item", {**_bounds(field.items or ValueRule()), **found, "value": item, "index": index}
    if not all(is_among(at(fields, other), wanted) for other, wanted in field.requires.items()):
        yield "requires", details
    if any(at(fields, other) is not None and is_among(at(fields, other), w) for other, w in field.excludes.items()):
        yield "excludes", details


def _faults_of_value(
    rule: ValueRule,
    path: str,
    value: Any,  # noqa: ANN401 - any JSON value
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is wrong with a value, or with an item of one, whose path is empty."""
    if rule.type and not any(is_of_type(value, kind) for kind in rule.type):
        yield "wrong_type", {}
    if rule.allowed is not None and not _is_allowed(rule.allowed, path, value):
        yield "allowed", {"allowed": choices(rule.allowed), "expected": choices(rule.allowed)}
    yield from _out_of_range(rule, path, value)
    yield from _off_step(rule, path, value)
    yield from _ill_measured(rule, value)
    if rule.pattern is not None and not is_match(rule.pattern, value):
        yield "pattern", {"expected": rule.pattern}


def _is_allowed(allowed: tuple[Scalar, ...], path: str, value: object) -> bool:
    numbers = {float(each) for each in allowed if not isinstance(each, bool | str)}
    return number_in(path, value) in numbers or any(
        value is each or (isinstance(each, str) and value == each) for each in allowed if isinstance(each, bool | str)
    )


def _out_of_range(rule: ValueRule, path: str, value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    least, most = _either(rule.min, rule.above), _either(rule.max, rule.below)
    if least is None and most is None:
        return
    details = {"min": plain_number(least), "max": plain_number(most)}
    number = number_in(path, value)
    if number is None:
        yield "wrong_type", details
        return
    if (rule.min is not None and number < rule.min) or (rule.above is not None and number <= rule.above):
        yield "too_low", details
    if (rule.max is not None and number > rule.max) or (rule.below is not None and number >= rule.below):
        yield "too_high", details


def _either(closed: float | None, is_open: float | None) -> float | None:
    return is_open if closed is None else closed


def _off_step(rule: ValueRule, path: str, value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is wrong with a value that is no multiple, in the decimal digits in which both are written."""
    if rule.multiple_of is None:
        return
    number = value if type(value) is int else number_in(path, value)
    if number is None:
        yield "wrong_type", {}
    elif not math.isfinite(number) or (Fraction(repr(number)) / Fraction(repr(rule.multiple_of))).denominator != 1:
        yield "multiple_of", {}


def _ill_measured(rule: ValueRule, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401
    if isinstance(value, str):
        length = len(value)
        if length < (rule.min_length or 0) or (rule.max_length is not None and length > rule.max_length):
            yield "length", {"count": length, "min": rule.min_length or 0, "max": rule.max_length}
    items = len(value) if isinstance(value, list) else 1
    if items < (rule.min_items or 0) or (rule.max_items is not None and items > rule.max_items):
        yield "items", {"count": items, "min": rule.min_items or 0, "max": rule.max_items}
    if rule.max_bytes is not None:
        sizes = [
            len(each.encode()) for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)
        ]
        if any(size > rule.max_bytes for size in sizes):
            yield "bytes", {"count": max(sizes), "max": rule.max_bytes}


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
