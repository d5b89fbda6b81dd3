"""The verdict of one rule on a request, and the reason as text."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from router.contract.decide import Forward, Rejection
from router.contract.jsonbytes.numbers import show
from router.contract.jsonbytes.parsing import ParsedRequest
from router.contract.jsonbytes.splice import JsonEdit, to_json
from router.contract.rules.content_parts import content_parts_of
from router.contract.rules.evaluation import EvaluationContext
from router.contract.rules.field_rules import FieldEvaluator
from router.contract.rules.sampling import expectation
from router.contract.schema.conditions import Path, path_of, value_at
from router.contract.schema.fields import BUDGET_FIELDS, spellings_of
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
    sources_of,
)

StepVerdict = Literal["kept", "edited", "no effect", "passed", "found", "refused", "also violated", "not reached"]

MAX_SHOWN: Final = 80
"""Longest value, in characters, that is shown whole."""

FIRST_ONLY: Final = "the client gets the first violation only"


class Step(NamedTuple):
    """One rule and its result: the verdict, the reason as text, the part that is violated, the rule's evidence."""

    rule: str
    verdict: StepVerdict
    reason: str
    part: str | None = None
    evidence: str | None = None


class Evaluation(NamedTuple):
    """A parsed request and the decision about it."""

    request: ParsedRequest
    decision: Forward | Rejection

    def edits_of(self, rule: str) -> tuple[JsonEdit, ...]:
        """Return the edits of a rule, except those that remove repeated fields."""
        edits = self.decision.edits if isinstance(self.decision, Forward) else ()
        return tuple(edit for edit in edits if edit.rule == rule and edit.kind != "remove")


def step_of(rule: Rule, evaluation: Evaluation) -> Step:
    """Return the step of a rule that did not reject the request."""
    return STEPS[type(rule)](rule, evaluation)


def _passed_step(rule: Rule, evaluation: Evaluation) -> Step:
    edits = evaluation.edits_of(rule.rule)
    words = f"the request passes: the engine {_changes(edits)}" if edits else "the request passes"
    return Step(rule.rule, "edited" if edits else "kept", words)


def _part_limit_step(rule: PartLimit, evaluation: Evaluation) -> Step:
    found = content_parts_of(evaluation.request.value("messages")).count(rule.modality)
    return Step(rule.rule, "kept", f"{found} {rule.modality}s, at most {rule.max}")


def _sampling_step(rule: Const | Range, evaluation: Evaluation) -> Step:
    request, decision = evaluation
    sent = [name for name in (rule.field, *spellings_of(rule.field)) if request.value(name) is not None]
    written = ", ".join(f"{name} is {_shown(request, (name,))}" for name in sent) or "not sent"
    if rule.field in decision.violations:
        return Step(rule.rule, *_violated(rule, written))
    if rule.field in sent:
        return Step(rule.rule, "kept", f"{written}, {_kept(rule)}")
    if isinstance(decision, Rejection):
        return Step(rule.rule, "no effect", written)
    edits = [edit for edit in evaluation.edits_of(rule.rule) if edit.field == rule.field]
    if not edits:
        return Step(rule.rule, "no effect", f"{written}: a band injects nothing")
    return Step(rule.rule, "edited", f"{written}: {rule.field} {edits[-1].value.decode()} is injected")


def _kept(rule: Const | Range) -> str:
    return "as pinned" if isinstance(rule, Const) else f"within {show(rule.min)} to {show(rule.max)}"


def _violated(rule: Const | Range, written: str) -> tuple[StepVerdict, str]:
    if isinstance(rule, Const) and rule.conflict == "allow":
        return "passed", f"{written}, not {show(rule.value)}: forwarded unchanged under `conflict: allow`"
    return "also violated", f"{written}: expected {expectation(rule)}; {FIRST_ONLY}"


def _field_step(rule: FieldRule, evaluation: Evaluation) -> Step:
    request = evaluation.request
    # Evaluated once more, alone: the decision keeps only the names of violations that the client does not get.
    alone = EvaluationContext(request, [])
    FieldEvaluator(rule)(alone)
    if alone.error is not None:
        return Step(rule.rule, "also violated", f"{alone.error.message}; {FIRST_ONLY}", alone.error.part)
    paths = (path_of(rule.path), *map(path_of, spellings_of(rule.path)), *map(path_of, sources_of(rule.field)))
    sent = [path for path in paths if value_at(request.fields, path) is not None]
    written = ", ".join(f"{'.'.join(path)} is {_shown(request, path)}" for path in sent) or "not sent"
    edits = evaluation.edits_of(rule.rule)
    if edits:
        return Step(rule.rule, "edited", f"{written}: the engine {_changes(edits)}")
    return Step(rule.rule, "kept" if sent else "no effect", f"{written}, as allowed" if sent else written)


def _unknown_fields_step(rule: UnknownFieldsRule, evaluation: Evaluation) -> Step:
    if rule.path:
        holder = value_at(evaluation.request.fields, path_of(rule.path))
        if not isinstance(holder, dict):
            return Step(rule.rule, "no effect", f"{rule.path} is no object")
        unknown = [f"{rule.path}.{name}" for name in holder if name not in rule.known]
    else:
        unknown = [name for name in evaluation.request.members if name not in rule.known]
    if not unknown:
        return Step(rule.rule, "kept", f"every {'member' if rule.path else 'field'} is known")
    names = ", ".join(map(_cut, unknown))
    if rule.unknown_fields.policy == "reject":
        return Step(rule.rule, "also violated", f"not known: {names}; {FIRST_ONLY}")
    if isinstance(evaluation.decision, Rejection):
        return Step(rule.rule, "no effect", f"not known: {names}")
    return Step(rule.rule, "edited", f"not known: the engine does not get {names}")


def _under_another_name(decision: Forward | Rejection) -> str:
    tokens = decision.tokens if isinstance(decision, Forward) else None
    return "no budget sent" if tokens is None or tokens.asked is None else f"{tokens.asked} tokens requested"


def _budget_step(rule: Budget, evaluation: Evaluation) -> Step:
    request = evaluation.request
    sent = [name for name in (*BUDGET_FIELDS, *spellings_of("max_tokens")) if request.value(name) is not None]
    written = ", ".join(f"{name} is {request.written(name)}" for name in sent) or _under_another_name(
        evaluation.decision
    )
    edits = evaluation.edits_of(rule.rule)
    if not edits:
        return Step(rule.rule, "kept", f"{written}: at most {rule.cap}")
    return Step(rule.rule, "edited", f"{written}: the engine {_changes(edits)}")


def _changes(edits: Iterable[JsonEdit]) -> str:
    """Describe what the engine receives and does not receive, by the last edit of each field."""
    last = {edit.path: edit for edit in edits}
    gets = [f"{edit.field} {_cut(edit.value.decode())}" for edit in last.values() if edit.kind != "drop"]
    not_gets = [edit.field for edit in last.values() if edit.kind == "drop"]
    return " and ".join(_edit_text(gets, not_gets))


def _edit_text(gets: list[str], not_gets: list[str]) -> Iterator[str]:
    if gets:
        yield f"gets {', '.join(gets)}"
    if not_gets:
        yield f"does not get {', '.join(not_gets)}"


def _shown(request: ParsedRequest, path: Path) -> str:
    """Return the display text of a field's value, in the client's notation if the client sent it."""
    if len(path) == 1 and path[0] in request.members:
        return request.display(path[0])
    return _cut(to_json(value_at(request.fields, path)).decode())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


STEPS: Final[dict[type, Callable[[Any, Evaluation], Step]]] = {
    BodyLimit: _passed_step,
    Const: _sampling_step,
    Range: _sampling_step,
    PartLimit: _part_limit_step,
    Budget: _budget_step,
    FieldRule: _field_step,
    CheckRule: _passed_step,
    UnknownFieldsRule: _unknown_fields_step,
}
"""What makes the step of each kind of rule."""
