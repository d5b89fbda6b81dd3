"""The rule of one request field. `field_tests` has the tests of its value, `transforms` the edits."""

from typing import Any, Final

from router.contract.errors import ApiError, merged_text
from router.contract.jsonbytes.splice import drop_all_repetitions, to_json
from router.contract.rules.evaluation import EvaluationContext
from router.contract.rules.field_tests import WRITTEN, Test, Violation, placeholders_of, tests_of
from router.contract.schema.conditions import Path, path_of, value_at
from router.contract.schema.fields import SAMPLING_FIELDS, spellings_of
from router.contract.schema.rule_list import FieldRule, sources_of
from router.contract.schema.sections import Field
from router.contract.schema.types import ErrorText, RuleBase
from router.contract.templates import display, raw_value

WIDER_PARTS: Final = {"too_low": "range", "too_high": "range"}
"""Parts of a rule whose words, where they have none of their own, are those of a wider part."""


def error_text_for(rule: RuleBase | Field, part: str) -> ErrorText:
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
        self.bounds = placeholders_of(rule.field)
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
        name = param + violation.where + ("" if param == sent_as else f" (sent as {sent_as})")
        message = f"{name} {violation.message.replace(WRITTEN, _written(context, path, value))}"
        words = error_text_for(self.field, violation.part)
        details = {
            **self.bounds,
            "value": raw_value(value),
            "model": context.request.value("model"),
            **violation.details,
        }
        error = ApiError(self.code, message, param, part=violation.part, words=words, details=details)
        context.reject(self.rule, error)


def _written(context: EvaluationContext, path: Path, value: object) -> str:
    if len(path) == 1 and path[0] in context.request.members:
        return context.request.display(path[0])
    return str(display(value)) if isinstance(value, str | list | dict) else to_json(value).decode()
