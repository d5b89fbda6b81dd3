"""What the router would do with one request, rule by rule; decided by the router's own code."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from router.contract import images
from router.contract.decision import MODELS, READING, SERVED_ID, Forward, Refusal, ServedIds, decide
from router.contract.fields import BUDGET_FIELDS, spellings_of
from router.contract.model import Contract
from router.contract.numbers import show
from router.contract.parsing import Request, parse
from router.contract.rules import Band, BodyLimit, Budget, ImageLimit, Pin, Rule
from router.contract.sampling import expectation

Verdict = Literal["kept", "edited", "no effect", "passed", "refused", "also violated", "not reached"]

_BEFORE_PARSED: Final = ("limits.max_body_bytes", READING)


class Step(NamedTuple):
    """One rule and what it said: the verdict, and the reason in words."""

    rule: str
    verdict: Verdict
    reason: str


class Explanation(NamedTuple):
    """The router's decision and the steps that led to it, in their order."""

    decision: Forward | Refusal
    steps: tuple[Step, ...]


class _Case(NamedTuple):
    """A request that was decided; `request` is None when it could not be parsed."""

    body: bytes
    request: Request | None
    contract: Contract
    decision: Forward | Refusal


def explain(body: bytes, contract: Contract, served_ids: ServedIds | None) -> Explanation:
    """Return what the router would do with the body of a chat completion request, and why."""
    decision = decide(body, contract, served_ids)
    unparsed = isinstance(decision, Refusal) and decision.rule in _BEFORE_PARSED
    case = _Case(body, None if unparsed else parse(body), contract, decision)
    return Explanation(decision, tuple(_steps(case)))


def _steps(case: _Case) -> Iterator[Step]:
    refused_by = case.decision.rule if isinstance(case.decision, Refusal) else None
    refused_by_sampling = refused_by is not None and refused_by.startswith("sampling.")
    reached = True
    for name, rule in _rules_in_order(case.contract):
        if name == refused_by and isinstance(case.decision, Refusal):
            reached = False
            yield Step(name, "refused", case.decision.error.message)
        # Behind a sampling rule that refuses, the others are judged all the same, to be counted.
        elif reached or (refused_by_sampling and isinstance(rule, Pin | Band)):
            yield _step(name, rule, case)
        else:
            yield Step(name, "not reached", "")


def _rules_in_order(contract: Contract) -> Iterator[tuple[str, Rule | None]]:
    size, *others = contract.rules
    yield size.rule, size
    yield READING, None
    yield MODELS, None
    yield from ((rule.rule, rule) for rule in others)


def _step(name: str, rule: Rule | None, case: _Case) -> Step:
    """Return the step of a rule that did not refuse."""
    if isinstance(rule, BodyLimit):
        return Step(name, "kept", f"{len(case.body):,} bytes, at most {rule.max_bytes:,}")
    if case.request is None or name == READING:
        return Step(name, "kept", "one strict JSON object")
    if isinstance(rule, ImageLimit):
        found = images.count_images(case.request.value("messages"))
        return Step(name, "kept", f"{found} images, at most {rule.max_images}")
    if isinstance(rule, Budget):
        return _budget_step(case.request, rule, case.decision)
    if isinstance(rule, Pin | Band):
        return _sampling_step(case.request, rule, case.decision)
    return _model_step(case.request, case)


def _model_step(request: Request, case: _Case) -> Step:
    asked = request.value("model")
    if isinstance(case.decision, Forward) and case.decision.model_served == SERVED_ID:
        return Step(MODELS, "edited", f"{asked} is an alias: routed as the served id, which --model names")
    if isinstance(case.decision, Forward) and case.decision.model_served != asked:
        answer = f", and the answer says {asked}" if case.decision.answer_as else ""
        return Step(MODELS, "edited", f"{asked} is an alias: routed as {case.decision.model_served}{answer}")
    if asked in case.contract.models.aliases:
        return Step(MODELS, "kept", f"{asked} is an alias: routed as the served id")
    return Step(MODELS, "kept", f"{asked} is served")


def _sampling_step(request: Request, rule: Pin | Band, decision: Forward | Refusal) -> Step:
    sent = [name for name in (rule.field, *spellings_of(rule.field)) if request.value(name) is not None]
    written = ", ".join(f"{name} is {request.shown(name)}" for name in sent) or "not sent"
    if rule.field in decision.violations:
        return Step(rule.rule, *_violated(rule, written))
    if rule.field in sent:
        return Step(rule.rule, "kept", f"{written}, {_kept(rule)}")
    if isinstance(decision, Refusal):
        return Step(rule.rule, "no effect", written)
    edits = [edit for edit in decision.edits if edit.rule == rule.rule and edit.field == rule.field]
    if not edits:
        return Step(rule.rule, "no effect", f"{written}: a band injects nothing")
    return Step(rule.rule, "edited", f"{written}: {rule.field} {edits[-1].value.decode()} is injected")


def _kept(rule: Pin | Band) -> str:
    return "as pinned" if isinstance(rule, Pin) else f"within {show(rule.min)} to {show(rule.max)}"


def _violated(rule: Pin | Band, written: str) -> tuple[Verdict, str]:
    if isinstance(rule, Pin) and rule.conflict == "allow":
        return "passed", f"{written}, not {show(rule.value)}: forwarded as it is under `conflict: allow`"
    return "also violated", f"{written}: expected {expectation(rule)}; the client is told of the first only"


def _budget_step(request: Request, rule: Budget, decision: Forward | Refusal) -> Step:
    sent = [name for name in (*BUDGET_FIELDS, *spellings_of("max_tokens")) if request.value(name) is not None]
    written = ", ".join(f"{name} is {request.written(name)}" for name in sent) or "no budget sent"
    edits = decision.edits if isinstance(decision, Forward) else ()
    changes = [f"{edit.field} {edit.value.decode()}" for edit in edits if edit.rule == rule.rule and edit.value]
    if not changes:
        return Step(rule.rule, "kept", f"{written}: at most {rule.cap}")
    return Step(rule.rule, "edited", f"{written}: the engine gets {', '.join(changes)}")
