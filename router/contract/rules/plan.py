"""The evaluation plan: the rules of a contract or of a case, prepared for requests."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from router.contract.errors import ApiError, merged_text
from router.contract.jsonbytes.parsing import NOTHING_SENT
from router.contract.jsonbytes.splice import JsonEdit, to_json
from router.contract.rules import budget, part_checks, sampling
from router.contract.rules.checks import CheckEvaluator
from router.contract.rules.evaluation import PARTS, EvaluationContext
from router.contract.rules.field_rules import FieldEvaluator
from router.contract.rules.image_urls import transforms_of as of_images
from router.contract.rules.tool_checks import transforms_of as of_tools
from router.contract.rules.transforms import transforms_of
from router.contract.schema import named_checks
from router.contract.schema.conditions import path_of, value_at
from router.contract.schema.fields import BOUND_TO_BUDGET, BUDGET_FIELDS, spellings_of
from router.contract.schema.rule_list import (
    BodyLimit,
    Budget,
    CheckRule,
    Const,
    FieldRule,
    PartLimit,
    Range,
    Rule,
    UnknownFieldsRule,
)
from router.contract.templates import display, raw_value

Evaluator = Callable[[EvaluationContext], None]
_MESSAGES: Final = frozenset({"messages"})


class RuleSet:
    """Prepared rules: all are evaluated first, then a valid request gets its edits."""

    def __init__(self, rules: Sequence[Rule], known: "KnownEvaluators | None" = None) -> None:
        """Prepare rules; `known` are the evaluators of other rule sets, which rules that are the same share."""
        known = {} if known is None else known
        evaluated = [rule for rule in rules if not isinstance(rule, BodyLimit)]
        names_of_budget = tuple(budget.other_names(evaluated))
        self._names_of_budget = names_of_budget
        self._budget = _sets_budget(evaluated)
        self._always_binds = any(isinstance(rule, FieldRule) and rule.path in BOUND_TO_BUDGET for rule in evaluated)
        sampling_rules = _leading_sampling_rules(evaluated)
        self._evaluators = tuple(
            (rule.fields_read, _shared_evaluator(rule, names_of_budget, known)) for rule in evaluated
        )
        self._sampling_names = frozenset(chain.from_iterable(map(_sampling_names, sampling_rules)))
        self._sampling_edits = tuple(chain.from_iterable(map(_edits_if_absent, sampling_rules)))
        self._other_evaluators = self._evaluators[len(sampling_rules) :]
        self._transforms = (
            *transforms_of([rule for rule in rules if isinstance(rule, FieldRule)]),
            *((None, transform) for rule in rules if isinstance(rule, CheckRule) for transform in of_tools(rule)),
            *((_MESSAGES, change) for rule in rules if isinstance(rule, CheckRule) for change in of_images(rule)),
        )

    def run(self, context: EvaluationContext) -> None:
        """Evaluate a request. If no rule rejects it, add its edits."""
        fields = context.request.fields
        evaluators = self._evaluators
        if self._sampling_names.isdisjoint(fields):
            # Nearly all requests leave the sampling fields alone.
            context.edits += self._sampling_edits
            evaluators = self._other_evaluators
        for names, evaluate in evaluators:
            if names is None or not names.isdisjoint(fields):
                evaluate(context)
        if context.error is not None:
            return
        for names, transform in self._transforms:
            if names is None or not names.isdisjoint(fields):
                transform(context)
        if self._budget is not None and (self._always_binds or not budget.NAMES_OF_BOUND.isdisjoint(fields)):
            budget.keep_bound_fields_valid(context, self._budget, self._names_of_budget)


KnownEvaluators = dict[bytes, Evaluator]
"""Evaluators by all that they are made of."""


def _shared_evaluator(rule: Rule, names_of_budget: tuple[str, ...], known: KnownEvaluators) -> Evaluator:
    made_of = msgspec.json.encode((rule, names_of_budget))
    evaluate = known.get(made_of)
    if evaluate is None:
        evaluate = known[made_of] = _where_marked(_mark_of(rule), EVALUATORS[type(rule)](rule, names_of_budget))
    return evaluate


def _leading_sampling_rules(rules: Sequence[Rule]) -> list[Const | Range]:
    found: list[Const | Range] = []
    for rule in rules:
        if not isinstance(rule, Const | Range):
            break
        found.append(rule)
    return found


def _sets_budget(rules: Sequence[Rule]) -> Budget | FieldRule | None:
    """Return the rule that may set a budget: the one of the section `output`, else the field's."""
    of_fields = [rule for rule in rules if isinstance(rule, FieldRule) and rule.path in BUDGET_FIELDS]
    return next((rule for rule in rules if isinstance(rule, Budget)), next(iter(of_fields), None))


_MARKS: Final[dict[type, str]] = {
    named_checks.ToolResults: "tool",
    named_checks.ToolCallsAnswered: "tool_calls",
    named_checks.ReasoningPassedBack: "tool_calls",
    named_checks.MessageTools: "tools",
    named_checks.ContentParts: PARTS,
    named_checks.Images: PARTS,
}
"""The feature of a request that a check needs, see `EvaluationContext.features`. Without it the check is skipped."""


def _mark_of(rule: Rule) -> str | None:
    if isinstance(rule, PartLimit):
        return PARTS
    return _MARKS.get(type(rule.check)) if isinstance(rule, CheckRule) else None


def _where_marked(mark: str | None, evaluate: Evaluator) -> Evaluator:
    """Return an evaluator that is skipped without its feature: most conversations have neither tools nor parts."""

    def evaluate_where_marked(context: EvaluationContext) -> None:
        if mark in context.features():
            evaluate(context)

    return evaluate if mark is None else evaluate_where_marked


def _sampling_names(rule: Const | Range) -> frozenset[str]:
    return frozenset((rule.field, *spellings_of(rule.field)))


def _edits_if_absent(rule: Const | Range) -> list[JsonEdit]:
    return [JsonEdit(rule.rule, "inject", (rule.field,), to_json(rule.value))] if isinstance(rule, Const) else []


def _sampling(rule: Const | Range) -> Evaluator:
    names = _sampling_names(rule)
    edits_if_absent = _edits_if_absent(rule)

    def evaluate(context: EvaluationContext) -> None:
        if names.isdisjoint(context.request.fields):
            context.edits += edits_if_absent
            return
        result = sampling.judge(context.request, rule)
        context.edits += result.edits
        if result.violated:
            context.violations.append(rule.field)
        if result.error is not None:
            context.reject(rule.rule, result.error)

    return evaluate


def _budget(rule: Budget, others: tuple[str, ...]) -> Evaluator:
    names = frozenset((*budget.SPELLINGS, *others))
    if_absent = budget.judge(NOTHING_SENT, rule, others)

    def evaluate(context: EvaluationContext) -> None:
        if context.error is not None:
            return
        try:
            is_absent = names.isdisjoint(context.request.fields)
            held = if_absent if is_absent else budget.judge(context.request, rule, others)
        except ApiError as error:
            _reject(context, rule.rule, error)
            return
        context.add_edits(held.edits)
        context.tokens = held.tokens

    return evaluate


def _part_limit(rule: PartLimit) -> Evaluator:
    def evaluate(context: EvaluationContext) -> None:
        if context.error is not None:
            return
        error = part_checks.too_many(context.parts(), rule)
        if error is not None:
            _reject(context, rule.rule, error)

    return evaluate


def _unknown_fields(rule: UnknownFieldsRule) -> Evaluator:
    known = frozenset(rule.known)
    section = rule.unknown_fields

    def evaluate(context: EvaluationContext) -> None:
        unknown = [name for name in context.request.members if name not in known]
        if not unknown:
            return
        if section.policy == "drop":
            context.edits += [JsonEdit(rule.rule, "drop", (name,)) for name in unknown]
            return
        _reject_unknown(context, rule, unknown[0], context.request.value(unknown[0]))

    return _unknown_members(rule, known) if rule.path else evaluate


def _unknown_members(rule: UnknownFieldsRule, known: frozenset[str]) -> Evaluator:
    path = path_of(rule.path)

    def evaluate(context: EvaluationContext) -> None:
        holder = value_at(context.request.fields, path)
        unknown = [name for name in holder if name not in known] if isinstance(holder, dict) else []
        if not unknown:
            return
        if rule.unknown_fields.policy == "drop":
            for name in unknown:
                context.drop(rule.rule, (*path, name))
            return
        _reject_unknown(context, rule, f"{rule.path}.{unknown[0]}", holder[unknown[0]])

    return evaluate


def _reject_unknown(context: EvaluationContext, rule: UnknownFieldsRule, field: str, value: object) -> None:
    context.violations.append(_UNKNOWN_FIELD)
    name = display(field)
    words = merged_text(rule.unknown_fields.error)
    details = {"value": raw_value(value), "model": context.request.value("model")}
    error = ApiError("unknown_field", f"There is no field {name}: omit it", str(name), words=words, details=details)
    context.reject(rule.rule, error)


def _reject(context: EvaluationContext, rule: str, error: ApiError) -> None:
    if error.param is not None:
        context.violations.append(error.param)
    context.reject(rule, error)


_UNKNOWN_FIELD: Final = "unknown_fields"
"""What violations by unknown fields are counted as: clients must not choose the names of metrics."""

EVALUATORS: Final[dict[type, Callable[[Any, tuple[str, ...]], Evaluator]]] = {
    Const: lambda rule, _: _sampling(rule),
    Range: lambda rule, _: _sampling(rule),
    PartLimit: lambda rule, _: _part_limit(rule),
    Budget: _budget,
    FieldRule: lambda rule, _: FieldEvaluator(rule),
    CheckRule: lambda rule, _: CheckEvaluator(rule),
    UnknownFieldsRule: lambda rule, _: _unknown_fields(rule),
}
"""What makes the evaluator of each kind of rule, from the rule and the fields whose rules set a budget, too.

The size of a body is decided before a request is read.
"""
