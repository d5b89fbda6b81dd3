"""The tests of a field's value: one entry for each kind of constraint, in the order in which they are made."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

from router.contract.jsonbytes.numbers import read_float, read_whole, show
from router.contract.jsonbytes.splice import to_json
from router.contract.rules.patterns import full_match_of
from router.contract.schema.conditions import equals, is_one_of, path_of, value_at
from router.contract.schema.fields import WHOLE_NUMBER_FIELDS
from router.contract.schema.rule_list import FieldRule
from router.contract.schema.sections import ValueRule, is_stated
from router.contract.schema.types import Condition, Scalar
from router.contract.templates import display, raw_value

Fields = dict[str, Any]


class Violation(NamedTuple):
    """A violation: the violated part of the rule, the message, and the values of the placeholders.

    `where` is the place within the value, as in `[2]`.
    """

    part: str
    message: str
    details: dict[str, Any]
    where: str = ""


Test = Callable[[Any, Fields], Violation | None]


class FieldTest(NamedTuple):
    """A kind of constraint: the members of a rule that state it, and what makes its test from the rule and its path."""

    members: tuple[str, ...]
    make: Callable[[Any, str], Test]


def tests_of(rule: FieldRule) -> Iterator[Test]:
    """Yield the tests that a value must pass, in their order."""
    return (test.make(rule.field, rule.path) for test in FIELD_TESTS if _is_due(test, rule.field))


def _is_due(test: FieldTest, rule: ValueRule) -> bool:
    return any(is_stated(rule, member) for member in test.members if hasattr(rule, member))


def placeholders_of(field: ValueRule) -> dict[str, Any]:
    """Return what fills the placeholders of a rule whatever of it is violated."""
    bounds = {"min": _whole(_first(field.min, field.above)), "max": _whole(_first(field.max, field.below))}
    return {**bounds, "allowed": None if field.allowed is None else listed(field.allowed)}


def expectation(field: ValueRule) -> str:
    """Return a text for the values that a field may have."""
    if field.allowed is not None:
        return listed(field.allowed)
    kind = _KINDS[field.type[0]] if len(field.type) == 1 else " or ".join(_KINDS[each] for each in field.type)
    bounds = _bounds(field)
    return f"{kind or 'a number'}{bounds}" if bounds else kind


def listed(values: tuple[Scalar, ...]) -> str:
    """Return values for people: `0, 0.6 or 1`."""
    words = [value if isinstance(value, str) else _shown_scalar(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


WRITTEN: Final = "\0"
"""Placeholder in the message of a violation for the value as the client wrote it."""
_IS_NOT_EXPECTED: Final = f"is {WRITTEN}: expected "
_KINDS: Final = {
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
}


def is_of_type(value: object, kind: str) -> bool:
    """Return whether a JSON value is of a type; a whole number may be written with a point."""
    if kind == "boolean" or isinstance(value, bool):
        return kind == "boolean" and isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, _PYTHON_TYPES[kind])


_PYTHON_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "number": (int, float),
    "array": list,
    "object": dict,
}


def _reject_test(_value: Any, _fields: Fields) -> Violation:  # noqa: ANN401
    return Violation("reject", "is not supported: omit the field", {})


def _type_test(field: ValueRule) -> Test:
    said = f"{_IS_NOT_EXPECTED}{' or '.join(_KINDS[kind] for kind in field.type)}, or omit the field"
    details = {"expected": " or ".join(_KINDS[kind] for kind in field.type)}

    def test(value: Any, _: Fields) -> Violation | None:  # noqa: ANN401
        fits = any(is_of_type(value, kind) for kind in field.type)
        return None if fits else Violation("wrong_type", said, details)

    return test


def _allowed_test(allowed: tuple[Scalar, ...], read: Callable[[object], float | None]) -> Test:
    numbers = frozenset(float(each) for each in allowed if not isinstance(each, str | bool))
    exact = tuple(each for each in allowed if isinstance(each, str | bool))
    words = listed(allowed)
    violation = Violation(
        "allowed", f"{_IS_NOT_EXPECTED}{words}, or omit the field", {"allowed": words, "expected": words}
    )

    def test(value: Any, _: Fields) -> Violation | None:  # noqa: ANN401
        if numbers and not isinstance(value, list | dict):
            number = read(value)
            if number is not None and float(number) in numbers:
                return None
        return None if any(equals(value, each) for each in exact) else violation

    return test


def _range_test(field: ValueRule, read: Callable[[object], float | None]) -> Test:
    expected = expectation(field) if field.allowed is None else f"a number{_bounds(field)}"
    said = f"{_IS_NOT_EXPECTED}{expected}, or omit the field"
    least, most = (_first(field.min, field.above), _first(field.max, field.below))
    details = {"min": _whole(least), "max": _whole(most), "expected": expected}
    low = float("-inf") if least is None else float(least)
    high = float("inf") if most is None else float(most)
    excludes_low, excludes_high = field.above is not None, field.below is not None

    def test(value: Any, _: Fields) -> Violation | None:  # noqa: ANN401
        number = read(value)
        if number is None:
            return Violation("wrong_type", said, details)
        number = float(number)
        if number < high if excludes_high else number <= high:
            is_kept = number > low if excludes_low else number >= low
            # NaN is neither: it counts as too low.
            return None if is_kept else Violation("too_low", said, details)
        return Violation("too_high" if number > low else "too_low", said, details)

    return test


def _multiple_test(step: float, read: Callable[[object], float | None]) -> Test:
    numerator, denominator = _ratio(step)
    expected = f"a multiple of {show(step)}"
    said, details = f"{_IS_NOT_EXPECTED}{expected}, or omit the field", {"expected": expected}

    def test(value: Any, _: Fields) -> Violation | None:  # noqa: ANN401
        number = read(value)
        if number is None:
            return Violation("wrong_type", said, details)
        if math.isfinite(number):
            top, bottom = (value, 1) if type(value) is int else _ratio(number)
            if top * denominator % (bottom * numerator) == 0:
                return None
        return Violation("multiple_of", said, details)

    return test


def _ratio(number: float) -> tuple[int, int]:
    """Return a number as it is written, in decimal, as a fraction: the float 0.1 is no tenth."""
    return Decimal(repr(number)).as_integer_ratio()


def _length_test(rule: ValueRule) -> Test:
    least, most = rule.min_length or 0, rule.max_length

    def test(value: Any, _: Fields) -> Violation | None:  # noqa: ANN401
        count = len(value) if isinstance(value, str) else least
        if count >= least and (most is None or count <= most or not isinstance(value, str)):
            return None
        bound = f"at least {least} are needed" if count < least else f"at most {most} are allowed"
        return Violation("length", f"holds {count} characters: {bound}", {"count": count, "min": least, "max": most})

    return test


def _item_test(rule: ValueRule) -> Test:
    tests = tuple(test.make(rule, "") for test in FIELD_TESTS if _is_due(test, rule))
    bounds = placeholders_of(rule)

    def test(value: Any, fields: Fields) -> Violation | None:  # noqa: ANN401
        for index, item in enumerate(value if isinstance(value, list) else ()):
            for each in tests:
                found = each(item, fields)
                if found is not None:
                    said = found.message.replace(WRITTEN, _text_of(item)).replace(", or omit the field", "")
                    details = {**bounds, **found.details, "index": index, "value": raw_value(item)}
                    return Violation("item", said, details, f"[{index}]")
        return None

    return test


def _items_test(field: ValueRule) -> Test:
    least, most = field.min_items or 0, field.max_items

    def test(value: Any, _: Fields) -> Violation | None:  # noqa: ANN401
        count = len(value) if isinstance(value, list) else 1
        if count >= least and (most is None or count <= most):
            return None
        bound = f"at least {least} are needed" if count < least else f"at most {most} are allowed"
        return Violation("items", f"holds {count} items: {bound}", {"count": count, "min": least, "max": most})

    return test


def _bytes_test(most: int) -> Test:
    def test(value: Any, _: Fields) -> Violation | None:  # noqa: ANN401
        texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
        count = max((len(text.encode("utf-8", "surrogatepass")) for text in texts), default=0)
        if count <= most:
            return None
        return Violation(
            "bytes", f"holds a text of {count} bytes: at most {most} are allowed", {"count": count, "max": most}
        )

    return test


def _pattern_test(pattern: str) -> Test:
    matches = full_match_of(pattern)
    violation = Violation("pattern", f"{_IS_NOT_EXPECTED}a string that matches {pattern}", {"expected": pattern})

    def test(value: Any, _: Fields) -> Violation | None:  # noqa: ANN401
        return None if isinstance(value, str) and matches(value) else violation

    return test


def _requires_test(condition: Condition) -> Test:
    prepared = [(path, path_of(path), wanted) for path, wanted in condition.items()]

    def test(_: Any, fields: Fields) -> Violation | None:  # noqa: ANN401
        for name, path, wanted in prepared:
            if not is_one_of(value_at(fields, path), wanted):
                expected = f"{name} to be {listed(wanted)}" if wanted else name
                return Violation("requires", f"needs {expected}", {"expected": expected})
        return None

    return test


def _excludes_test(condition: Condition) -> Test:
    prepared = [(path, path_of(path), wanted) for path, wanted in condition.items()]

    def test(_: Any, fields: Fields) -> Violation | None:  # noqa: ANN401
        for name, path, wanted in prepared:
            other = value_at(fields, path)
            if other is not None and is_one_of(other, wanted):
                with_value = f" {_text_of(other)}" if wanted else ""
                return Violation("excludes", f"cannot be sent together with {name}{with_value}", {"expected": name})
        return None

    return test


def _reader_of(path: str) -> Callable[[object], float | None]:
    return read_whole if path in WHOLE_NUMBER_FIELDS else read_float


def _bounds(field: ValueRule) -> str:
    least, most = _first(field.min, field.above), _first(field.max, field.below)
    if field.min is not None and field.max is not None:
        return f" from {show(field.min)} to {show(field.max)}"
    low = "" if least is None else f" above {show(least)}" if field.min is None else f" of at least {show(least)}"
    high = "" if most is None else f" below {show(most)}" if field.max is None else f" of at most {show(most)}"
    return f"{low} and{high}" if low and high else low + high


def _first(closed: float | None, is_open: float | None) -> float | None:
    return is_open if closed is None else closed


def _whole(number: float | None) -> float | None:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _shown_scalar(value: bool | float) -> str:
    return to_json(value).decode() if isinstance(value, bool) else show(value)


def _text_of(value: object) -> str:
    return str(display(value)) if isinstance(value, str) else to_json(value).decode()


FIELD_TESTS: Final = (
    FieldTest(("reject",), lambda _field, _path: _reject_test),
    FieldTest(("type",), lambda rule, _path: _type_test(rule)),
    FieldTest(("allowed",), lambda rule, path: _allowed_test(rule.allowed, _reader_of(path))),
    FieldTest(("min", "above", "max", "below"), lambda rule, path: _range_test(rule, _reader_of(path))),
    FieldTest(("multiple_of",), lambda rule, path: _multiple_test(rule.multiple_of, _reader_of(path))),
    FieldTest(("min_length", "max_length"), lambda rule, _path: _length_test(rule)),
    FieldTest(("min_items", "max_items"), lambda rule, _path: _items_test(rule)),
    FieldTest(("max_bytes",), lambda rule, _path: _bytes_test(rule.max_bytes)),
    FieldTest(("pattern",), lambda rule, _path: _pattern_test(rule.pattern)),
    FieldTest(("items",), lambda rule, _path: _item_test(rule.items)),
    FieldTest(("requires",), lambda rule, _path: _requires_test(rule.requires)),
    FieldTest(("excludes",), lambda rule, _path: _excludes_test(rule.excludes)),
)
"""Every constraint that a value is tested for. What a rule does with a valid value is in `transforms`."""
