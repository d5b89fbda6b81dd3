"""Rules of sampling parameters: a constant or a range for each."""

import math
from typing import NamedTuple

from router.contract.errors import ApiError
from router.contract.jsonbytes.numbers import read_float, read_whole, show
from router.contract.jsonbytes.parsing import ParsedRequest
from router.contract.jsonbytes.splice import JsonEdit, drop_repetitions, supply, to_json
from router.contract.schema.fields import WHOLE_NUMBER_FIELDS, spellings_of
from router.contract.schema.rule_list import Const, Range
from router.contract.templates import raw_value


class SamplingResult(NamedTuple):
    """The result of a sampling rule: the edits, whether it is violated, and the error if it rejects the request."""

    edits: list[JsonEdit]
    violated: bool
    error: ApiError | None


def judge(request: ParsedRequest, rule: Const | Range) -> SamplingResult:
    """Evaluate the rule of one sampling parameter under every name that engines accept for it."""
    sent = [name for name in (rule.field, *spellings_of(rule.field)) if name in request.fields]
    violating = [name for name in sent if not _keeps(rule, request.value(name))]
    edits = _supply_missing(rule, request)
    if request.repeats:
        edits += [edit for name in sent for edit in drop_repetitions(request, rule.rule, name)]
    return SamplingResult(edits, bool(violating), _refusal(rule, request, violating[0]) if violating else None)


def _keeps(rule: Const | Range, value: object) -> bool:
    return value is None or satisfies(rule, value)


def satisfies(rule: Const | Range, value: object) -> bool:
    """Return whether a value, read as an engine reads it and compared as float64, keeps a rule."""
    number = read(rule.field, value)
    if number is None:
        return False
    if isinstance(rule, Const):
        return float(number) == float(rule.value)
    return float(rule.min) <= float(number) <= float(rule.max)


def read(field: str, value: object) -> int | float | None:
    """Return the number that an engine reads in a sampling field, None when it would reject the value."""
    return read_whole(value) if field in WHOLE_NUMBER_FIELDS else read_float(value)


def expectation(rule: Const | Range) -> str:
    """Return a text for the values that a rule accepts."""
    if isinstance(rule, Const):
        return show(rule.value)
    kind = "a whole number" if rule.field in WHOLE_NUMBER_FIELDS else "a number"
    return f"{kind} from {show(rule.min)} to {show(rule.max)}"


def _refusal(rule: Const | Range, request: ParsedRequest, spelling: str) -> ApiError | None:
    if isinstance(rule, Const) and rule.conflict == "allow":
        return None
    name = rule.field if spelling == rule.field else f"{rule.field} (sent as {spelling})"
    message = f"{name} is {request.display(spelling)}: expected {expectation(rule)}, or omit the field"
    details = {"value": raw_value(request.value(spelling)), "model": request.value("model"), **_bounds(rule)}
    return ApiError("sampling_contract_violation", message, rule.field, details=details)


def _bounds(rule: Const | Range) -> dict[str, object]:
    expected = {"expected": expectation(rule)}
    if isinstance(rule, Const):
        return {**expected, "allowed": show(rule.value)}
    return {**expected, "min": rule.min, "max": rule.max}


def _supply_missing(rule: Const | Range, request: ParsedRequest) -> list[JsonEdit]:
    if request.value(rule.field) is not None:
        return []
    value = _value_to_supply(rule, request)
    return [] if value is None else [supply(request, rule.rule, rule.field, to_json(value))]


def _value_to_supply(rule: Const | Range, request: ParsedRequest) -> int | float | None:
    """Return the value for an absent field: what another spelling says, else the pin."""
    for spelling in spellings_of(rule.field):
        sent = read(rule.field, request.value(spelling))
        # JSON has no number for the NaN or the infinity that a string may say.
        if sent is not None and math.isfinite(sent):
            equals_pin = isinstance(rule, Const) and satisfies(rule, sent)
            return rule.value if equals_pin and isinstance(rule, Const) else _as_sent(request, spelling, sent)
    return rule.value if isinstance(rule, Const) else None


def _as_sent(request: ParsedRequest, spelling: str, number: float) -> int | float:
    sent = request.value(spelling)
    return sent if isinstance(sent, int) and not isinstance(sent, bool) else number
