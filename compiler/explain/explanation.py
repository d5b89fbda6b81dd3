"""The router's decision on one request, rule by rule, made by the router's own code."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from compiler.explain.steps import Evaluation, Step, step_of
from router.contract.decide import BODY_SIZE, MODELS, READING, SERVED_ID, Forward, Rejection, ServedIds, decide
from router.contract.errors import ApiError
from router.contract.jsonbytes.parsing import ParsedRequest, parse
from router.contract.responses.stream_usage import RULE as STREAM_USAGE
from router.contract.rules.cases import CaseSelection
from router.contract.rules.field_tests import listed
from router.contract.schema.conditions import path_of, value_at
from router.contract.schema.model import Contract, Sections
from router.contract.schema.rule_list import BodyLimit, Const, FieldRule, Range, Rule, UnknownFieldsRule
from router.contract.schema.sections import DEFAULT_MAX_BODY_BYTES, Alias, ModeMatch
from router.contract.schema.types import Condition

MODE: Final = "mode"
"""The step that reads the mode."""

CASES: Final = "cases"
"""The step that finds the case."""

_BEFORE_PARSED: Final = (BODY_SIZE, READING)
_COUNTED_TO_THE_END: Final = (Const, Range, FieldRule, UnknownFieldsRule)
"""Rules that are evaluated even after a rejection, so that every violation is counted."""


class Explanation(NamedTuple):
    """The router's decision and the steps that led to it, in their order."""

    decision: Forward | Rejection
    steps: tuple[Step, ...]


class _Context(NamedTuple):
    """A decided request and its contract; `request` is None when it could not be parsed."""

    body: bytes
    request: ParsedRequest | None
    contract: Contract
    decision: Forward | Rejection

    @property
    def sections(self) -> Sections:
        case = self.decision.case_selection.case
        return self.contract if case is None else case.sections

    @property
    def rules(self) -> tuple[Rule, ...]:
        case = self.decision.case_selection.case
        return self.contract.rules if case is None else self.contract.case_rules[case.name]

    @property
    def alias(self) -> Alias | None:
        """The alias that the request names."""
        asked = self.decision.model_asked
        return None if asked is None else self.contract.models.aliases.get(asked)


def explain(body: bytes, contract: Contract, served_ids: ServedIds | None) -> Explanation:
    """Return the router's decision on the body of a chat completion request, and the reasons."""
    decision = decide(body, contract, served_ids)
    unparsed = isinstance(decision, Rejection) and decision.rule in _BEFORE_PARSED
    context = _Context(body, None if unparsed else parse(body), contract, decision)
    if context.request is not None and decision.is_default_model:
        context.request.fields["model"] = decision.model_asked
    served = () if served_ids is None else served_ids.ids
    if context.request is not None and context.alias is not None and decision.model_asked not in served:
        _imply(context.request.fields, context.alias)
    return Explanation(decision, tuple(_steps(context)))


def _imply(fields: dict[str, Any], alias: Alias) -> None:
    """Add the fields that its alias implies to a parsed request, as the router does."""
    for dotted, value in alias.implies.items():
        *above, last = path_of(dotted)
        holder: Any = fields
        for step in above:
            if holder.get(step) is None:
                holder[step] = {}
            holder = holder[step]
            if not isinstance(holder, dict):
                break
        else:
            if holder.get(last) is None:
                holder[last] = value


def _steps(context: _Context) -> Iterator[Step]:
    size, *others = context.rules
    rejected_by = context.decision.rule if isinstance(context.decision, Rejection) else None
    early = [size.rule, READING, MODELS]
    for place, name in enumerate(early):
        if rejected_by in early[:place]:
            yield _not_reached(context, name)
        elif name == rejected_by and isinstance(context.decision, Rejection):
            yield Step(name, "refused", context.decision.error.message, evidence=_evidence(context, name))
        else:
            yield _early_step(context, name, size)
    yield from _case_steps(context, reached=rejected_by not in early)
    yield from _rule_steps(context, others, rejected_by, reached=rejected_by not in early)
    if context.sections.response.stream.usage != "as_asked":
        yield _stream_step(context)


def _not_reached(context: _Context, name: str) -> Step:
    return Step(name, "not reached", "", evidence=_evidence(context, name))


def _evidence(context: _Context, name: str, rule: Rule | None = None) -> str | None:
    if name == MODELS:
        return None if context.alias is None else context.alias.source
    if name == MODE:
        return context.contract.mode.source
    if name == STREAM_USAGE:
        return context.sections.response.stream.source
    if name == BODY_SIZE:
        limits = context.contract.limits
        return limits.source if limits.max_body_bytes != DEFAULT_MAX_BODY_BYTES else None
    return None if rule is None else rule.evidence(context.sections)


def _early_step(context: _Context, name: str, size: Rule) -> Step:
    evidence = _evidence(context, name)
    if name == READING:
        return Step(name, "kept", "one strict JSON object")
    if name == MODELS:
        return _model_step(context)._replace(evidence=evidence)
    most = size.max_bytes if isinstance(size, BodyLimit) else 0
    return Step(name, "kept", f"{len(context.body):,} bytes, at most {most:,}", evidence=evidence)


def _model_step(context: _Context) -> Step:
    step = _name_step(context)
    if not context.decision.is_default_model:
        return step
    return step._replace(verdict="edited", reason=f"no model is sent, and the default is set: {step.reason}")


def _name_step(context: _Context) -> Step:
    asked, decision = context.decision.model_asked, context.decision
    implied = [
        f"{edit.field} {edit.value.decode()}"
        for edit in (decision.edits if isinstance(decision, Forward) else ())
        if edit.rule == "models.aliases" and edit.path != ("model",)
    ]
    implies = f"; it implies {', '.join(implied)}" if implied else ""
    if isinstance(decision, Forward) and decision.model_served == SERVED_ID:
        return Step(MODELS, "edited", f"{asked} is an alias: routed as the served id, which --model names{implies}")
    if isinstance(decision, Forward) and decision.model_served != asked:
        named = f", and the response says {asked}" if decision.respond_as else ""
        return Step(MODELS, "edited", f"{asked} is an alias: routed as {decision.model_served}{named}{implies}")
    if context.alias is not None:
        routed = "the served id" if context.alias.model is None else context.alias.model
        return Step(MODELS, "kept", f"{asked} is an alias: routed as {routed}")
    return Step(MODELS, "kept", f"{asked} is served")


def _case_steps(context: _Context, *, reached: bool) -> Iterator[Step]:
    """Yield the steps that read the mode and find the case, if the contract has them."""
    found = context.decision.case_selection
    if context.contract.mode.default is not None:
        mode = Step(MODE, "found", _mode_text(found), evidence=_evidence(context, MODE))
        yield mode if reached else _not_reached(context, MODE)
    if context.contract.cases:
        if not reached:
            yield _not_reached(context, CASES)
        elif found.case is None:
            yield Step(CASES, "no effect", "no case matches: the rules outside of cases apply")
        else:
            yield Step(CASES, "found", f"{found.case.name}: it is {_case_text(found)}")


def _mode_text(found: CaseSelection) -> str:
    if found.reading is None:
        return f"{found.mode}, the default: no reading fits"
    return f"{found.mode}, read from {_read_from(found.reading)}"


def _read_from(reading: ModeMatch) -> str:
    parts = ["the model's name"] if reading.model else []
    return " and ".join([*parts, *reading.when]) or "any request"


def _case_text(found: CaseSelection) -> str:
    if found.case is None:
        return ""
    when = found.case.when
    parts = [f"for model {listed(globs)}" for globs in (when.model, *when.also) if globs]
    parts += [f"for mode {listed(when.mode)}"] if when.mode else []
    return " and ".join([*parts, *_conditions(when.fields)])


def _conditions(condition: Condition) -> Iterator[str]:
    return (f"for {path} {listed(values)}" if values else f"for any {path}" for path, values in condition.items())


def _rule_steps(context: _Context, rules: list[Rule], rejected_by: str | None, *, reached: bool) -> Iterator[Step]:
    is_refused = not reached
    for rule in rules:
        evidence = _evidence(context, rule.rule, rule)
        if context.request is None or not reached or (is_refused and not isinstance(rule, _COUNTED_TO_THE_END)):
            yield _not_reached(context, rule.rule)._replace(evidence=evidence)
        elif rule.rule == rejected_by and isinstance(context.decision, Rejection):
            is_refused = True
            yield _rejected_step(rule.rule, context.decision.error)._replace(evidence=evidence)
        else:
            yield step_of(rule, Evaluation(context.request, context.decision))._replace(evidence=evidence)


def _rejected_step(name: str, error: ApiError) -> Step:
    return Step(name, "refused", error.message, error.part)


def _stream_step(context: _Context) -> Step:
    decision, evidence = context.decision, _evidence(context, STREAM_USAGE)
    if isinstance(decision, Rejection) or context.request is None:
        return _not_reached(context, STREAM_USAGE)
    if not decision.stream:
        return Step(STREAM_USAGE, "no effect", "not streamed", evidence=evidence)
    asked = value_at(context.request.fields, ("stream_options", "include_usage"))
    if asked is not None:
        end = {"copy": ", and its end frame carries it too"}.get(decision.usage or "", "")
        reason = f"the client sets it: include_usage is {str(asked).lower()}{end}"
        return Step(STREAM_USAGE, "kept", reason, evidence=evidence)
    where = "its end frame carries it" if decision.usage == "move" else "a frame of its own carries it"
    return Step(STREAM_USAGE, "edited", f"the engine is asked for the usage, and {where}", evidence=evidence)
