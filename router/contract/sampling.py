"""Sampling parameters judged by pins and bands."""

from collections.abc import Iterable
from typing import NamedTuple

from router.contract.editing import Edit, drop_repetitions, supply, to_json
from router.contract.errors import ApiError
from router.contract.fields import WHOLE_NUMBER_FIELDS, spellings_of
from router.contract.model import Band, Pin
from router.contract.numbers import read_float, read_whole, show
from router.contract.parsing import Request


class Verdict(NamedTuple):
    """What the sampling rules say: the edits due, the parameters violated, and the first refusal if there is one."""

    edits: list[Edit]
    violations: list[str]
    error: ApiError | None


def judge(request: Request, rules: Iterable[Pin | Band]) -> Verdict:
    """Judge every sampling parameter of a request; all violations are counted, the first is reported."""
    edits: list[Edit] = []
    violations: list[str] = []
    error = None
    for rule in rules:
        spellings = [name for name in (rule.field, *spellings_of(rule.field)) if request.value(name) is not None]
        violating = [name for name in spellings if not satisfies(rule, request.value(name))]
        if violating:
            violations.append(rule.field)
            error = error or _refusal(rule, request, violating[0])
        edits += _edits(rule, request)
    return Verdict(edits, violations, error)


def satisfies(rule: Pin | Band, value: object) -> bool:
    """Tell whether a value, read as an engine reads it and compared as float64, keeps a rule."""
    number = read(rule.field, value)
    if number is None:
        return False
    if isinstance(rule, Pin):
        return float(number) == float(rule.value)
    return float(rule.min) <= float(number) <= float(rule.max)


def read(field: str, value: object) -> int | float | None:
    """Return the number that an engine reads in a sampling field, None when it would refuse the value."""
    return read_whole(value) if field in WHOLE_NUMBER_FIELDS else read_float(value)


def expectation(rule: Pin | Band) -> str:
    """Say in words what a rule accepts."""
    if isinstance(rule, Pin):
        return show(rule.value)
    kind = "a whole number" if rule.field in WHOLE_NUMBER_FIELDS else "a number"
    return f"{kind} from {show(rule.min)} to {show(rule.max)}"


def _refusal(rule: Pin | Band, request: Request, spelling: str) -> ApiError | None:
    if isinstance(rule, Pin) and rule.conflict == "allow":
        return None
    name = rule.field if spelling == rule.field else f"{rule.field} (sent as {spelling})"
    message = f"{name} is {request.shown(spelling)}: expected {expectation(rule)}, or omit the field"
    return ApiError("sampling_contract_violation", message, rule.field)


def _edits(rule: Pin | Band, request: Request) -> list[Edit]:
    edits = []
    for name in (rule.field, *spellings_of(rule.field)):
        edits += drop_repetitions(request, rule.rule, name)
    if request.value(rule.field) is None:
        value = _value_to_supply(rule, request)
        if value is not None:
            edits.append(supply(request, rule.rule, rule.field, to_json(value)))
    return edits


def _value_to_supply(rule: Pin | Band, request: Request) -> int | float | None:
    """Return the value for an absent field: what another spelling says, else the pin."""
    for spelling in spellings_of(rule.field):
        sent = read(rule.field, request.value(spelling))
        if sent is not None:
            equals_pin = isinstance(rule, Pin) and satisfies(rule, sent)
            return rule.value if equals_pin and isinstance(rule, Pin) else _as_sent(request, spelling, sent)
    return rule.value if isinstance(rule, Pin) else None


def _as_sent(request: Request, spelling: str, number: float) -> int | float:
    sent = request.value(spelling)
    return sent if isinstance(sent, int) and not isinstance(sent, bool) else number
