"""The rule of one request field: the tests of its value. `transforms` has the edits."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from router.contract.errors import ApiError, merged_text
from router.contract.jsonbytes.numbers import read_float, read_whole, show
from router.contract.jsonbytes.splice import drop_all_repetitions, to_json
from router.contract.rules.evaluation import EvaluationContext
from router.contract.rules.patterns import full_match_of
from router.contract.schema.conditions import Path, equals, is_one_of, path_of, value_at
from router.contract.schema.fields import SAMPLING_FIELDS, WHOLE_NUMBER_FIELDS, spellings_of
from router.contract.schema.rule_list import FieldRule, sources_of
from router.contract.schema.sections import Field
from router.contract.schema.types import Condition, ErrorText, RuleBase, Scalar
from router.contract.templates import display, raw_value

Fields = dict[str, Any]


class Violation(NamedTuple):
    """A violation: the violated part of the rule, the message, and the values of the placeholders."""

    part: str
    message: str
    details: dict[str, Any]


Test = Callable[[Any, Fields], Violation | None]


WIDER_PARTS: Final = {"too_low": "range", "too_high": "range"}
"""Parts of a rule whose words, where they have none of their own, are those of a wider part."""


def error_text_for(rule: RuleBase, part: str) -> ErrorText:
    """Return the error text of a rule for one of its parts."""
    return merged_text(rule.parts.get(part), rule.parts.get(WIDER_PARTS.get(part, "")), rule.error)


class FieldEvaluator:
    """Evaluates one field, under its standard name and the other spellings that engines know."""

    def __init__(self, rule: FieldRule) -> None:
        self.rule = rule.rule
        self.field = rule.field
        self.name = rule.path
        self.path = path_of(rule.path)
        self.spellings = (self.path, *map(path_of, spellings_of(rule.path)))
        self.is_nested = any(len(path) > 1 for path in self.spellings)
        self.sources = tuple(map(path_of, sources_of(rule.field)))
        self.tests = tuple(tests_of(rule))
        self.bounds = _details_of(rule.field)
        # Only this name is rejected: the value may be sent under another one.
        self.tests_of_taken = self.tests[1:] if rule.field.reject else self.tests
        self.code = "sampling_contract_violation" if rule.path in SAMPLING_FIELDS else "contract_violation"

    def __call__(self, context: EvaluationContext) -> None:
        """Reject a value that violates the rule; of a repeated field the last value counts, and only it leaves."""
        fields = context.request.fields
        is_sent = False
        for path in self.spellings:
            value = value_at(fields, path)
            if value is not None:
                is_sent = True
                self._judge(context, path, value, self.tests)
        if self.field.sources and value_at(fields, self.path) is None:
            is_sent = self._judge_source(context) or is_sent
        if self.field.required and not is_sent:
            self._reject(context, Violation("required", "is missing: it is required", {}), self.path, None)
        if context.request.repeats or self.is_nested:
            for path in self.spellings:
                context.edits += drop_all_repetitions(context.request, self.rule, path)

    def _judge_source(self, context: EvaluationContext) -> bool:
        """Evaluate the value that the field takes from a source field. Return whether there is one."""
        fields = context.request.fields
        for source in self.sources:
            value = value_at(fields, source)
            if value is not None:
                # Where values are mapped, those of other fields may be words of another vocabulary.
                if not self.field.map:
                    self._judge(context, source, value, self.tests_of_taken)
                return True
        return False

    def _judge(self, context: EvaluationContext, path: Path, value: Any, tests: tuple[Test, ...]) -> None:  # noqa: ANN401 - any JSON
        for test in tests:
            violation = test(value, context.request.fields)
            if violation is not None:
                self._reject(context, violation, path, value)
                return

    def _reject(self, context: EvaluationContext, violation: Violation, path: Path, value: object) -> None:
        if self.name not in context.violations:
            context.violations.append(self.name)
        if context.error is not None:
            return
        sent_as = ".".join(path)
        # A source is a field of the vendor's own; another spelling is an engine's.
        param = sent_as if sent_as in self.field.sources else self.name
        name = param if param == sent_as else f"{self.name} (sent as {sent_as})"
        message = f"{name} {violation.message.replace(_WRITTEN, _written(context, path, value))}"
        words = error_text_for(self.field, violation.part)
        details = {
            **self.bounds,
            "value": raw_value(value),
            "model": context.request.value("model"),
            **violation.details,
        }
        error = ApiError(self.code, message, param, part=violation.part, words=words, details=details)
        context.reject(self.rule, error)


def tests_of(rule: FieldRule) -> Iterator[Test]:
    """Yield the tests that a value must pass, in their order."""
    field = rule.field
    if field.reject:
        yield lambda _value, _fields: Violation("reject", "is not supported: omit the field", {})
    if field.type:
        yield _type_test(field)
    if field.allowed is not None:
        yield _allowed_test(field.allowed, _reader_of(rule.path))
    if any(bound is not None for bound in (field.min, field.above, field.max, field.below)):
        yield _range_test(field, _reader_of(rule.path))
    if field.min_items is not None or field.max_items is not None:
        yield _items_test(field)
    if field.max_bytes is not None:
        yield _bytes_test(field.max_bytes)
    if field.pattern is not None:
        yield _pattern_test(field.pattern)
    if field.requires:
        yield _requires_test(field.requires)
    if field.excludes:
        yield _excludes_test(field.excludes)


def expectation(field: Field) -> str:
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


_WRITTEN: Final = "\0"
"""Placeholder in the message of a violation for the value as the client wrote it."""
_IS_NOT_EXPECTED: Final = f"is {_WRITTEN}: expected "
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


def _type_test(field: Field) -> Test:
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


def _range_test(field: Field, read: Callable[[object], float | None]) -> Test:
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


def _items_test(field: Field) -> Test:
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


def _bounds(field: Field) -> str:
    least, most = _first(field.min, field.above), _first(field.max, field.below)
    if field.min is not None and field.max is not None:
        return f" from {show(field.min)} to {show(field.max)}"
    low = "" if least is None else f" above {show(least)}" if field.min is None else f" of at least {show(least)}"
    high = "" if most is None else f" below {show(most)}" if field.max is None else f" of at most {show(most)}"
    return f"{low} and{high}" if low and high else low + high


def _details_of(field: Field) -> dict[str, Any]:
    """Return what fills the placeholders of a rule whatever of it is violated."""
    bounds = {"min": _whole(_first(field.min, field.above)), "max": _whole(_first(field.max, field.below))}
    return {**bounds, "allowed": None if field.allowed is None else listed(field.allowed)}


def _first(closed: float | None, is_open: float | None) -> float | None:
    return is_open if closed is None else closed


def _whole(number: float | None) -> float | None:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _shown_scalar(value: bool | float) -> str:
    return to_json(value).decode() if isinstance(value, bool) else show(value)


def _text_of(value: object) -> str:
    return str(display(value)) if isinstance(value, str) else to_json(value).decode()


def _written(context: EvaluationContext, path: Path, value: object) -> str:
    if len(path) == 1 and path[0] in context.request.members:
        return context.request.display(path[0])
    return str(display(value)) if isinstance(value, str | list | dict) else to_json(value).decode()
