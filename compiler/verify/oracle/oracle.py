"""The result of a request under a contract: a rejection by a rule, or the request that the engine receives."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from compiler.verify.check import ChatRequest, Fields
from compiler.verify.oracle.fields import Fault, fault_of_budget, fault_of_field, fault_of_sampling, names_of
from compiler.verify.oracle.forwarded_request import ask_for_usage, engine_fields, is_same
from compiler.verify.oracle.named_checks import fault_of_check, fault_of_part_limit
from compiler.verify.oracle.values import at, copied, is_among, put
from router.contract.schema.model import Case, Contract, Sections
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
from router.contract.schema.types import Condition

REQUEST: Final = "request"
"""The rule that a request is one strict JSON object with one valid `model`, `messages` and `stream` each."""

MODELS: Final = "models"
"""The id of the rule for model names."""

SIZE: Final = "limits.max_body_bytes"


class CaseMatch(NamedTuple):
    """The mode of a request and the case that matches it; None: no case matches."""

    mode: str | None
    case: Case | None


class RejectedOutcome(NamedTuple):
    """The request is rejected by a rule."""

    rule: str
    fault: Fault
    sections: Sections
    case_match: CaseMatch | None


class ForwardedOutcome(NamedTuple):
    """The engine receives the request `engine`; `untouched`: these are the client's bytes.

    model: the model name in the response; None: the engine's own. usage: see ExpectedAcceptance.
    """

    engine: Fields
    untouched: bool
    model: str | None
    streamed: bool
    usage: str | None
    sections: Sections
    case_match: CaseMatch
    changed: tuple[str, ...]
    once: tuple[str, ...]


class Oracle:
    """A contract in front of engines that serve these models, the first being what aliases are routed as."""

    def __init__(self, contract: Contract, served: tuple[str, ...]) -> None:
        self.contract = contract
        self.served = served
        self._outcomes: dict[ChatRequest, RejectedOutcome | ForwardedOutcome] = {}

    def outcome(self, request: ChatRequest, case_match: CaseMatch | None = None) -> RejectedOutcome | ForwardedOutcome:
        """Return the expected result of a request; `case_match` replaces the match derived from the request.

        The caller changes nothing in it: a request that comes again has the same result.
        """
        expected = self._outcomes.get(request)
        if expected is None:
            expected = self._outcomes[request] = self._outcome(request, None)
        return expected if case_match in (None, expected.case_match) else self._outcome(request, case_match)

    def _outcome(self, request: ChatRequest, case_match: CaseMatch | None) -> RejectedOutcome | ForwardedOutcome:
        if request.size() > self.contract.limits.max_body_bytes:
            details: dict[str, Any] = {"max": self.contract.limits.max_body_bytes}
            return RejectedOutcome(SIZE, Fault("request_too_large", None, "size", details), self.contract, None)
        default = self.contract.models.default
        fault = _fault_of_reading(request, default)
        if fault is not None:
            return RejectedOutcome(REQUEST, fault, self.contract, None)
        fields = request.fields()
        if fields.get("model") is None:
            fields = {**fields, "model": default}
        served = self.served_for(fields["model"])
        if served is None:
            names = ", ".join(dict.fromkeys((*self.served, *self.contract.models.aliases)))
            details = {"model": fields["model"], "value": fields["model"], "models": names}
            return RejectedOutcome(MODELS, Fault("model_not_found", "model", "model", details), self.contract, None)
        return self._decided_outcome(request, fields, served, case_match)

    def served_for(self, name: str) -> str | None:
        """Return the served model for a name; None if there is none."""
        if name in self.served:
            return name
        alias = self.contract.models.aliases.get(name)
        if alias is None:
            return None
        routed = alias.model or self.served[0]
        return routed if routed in self.served else None

    def with_implied(self, fields: Fields, served: str) -> Fields:
        """Return fields with those that their alias implies."""
        alias = self.contract.models.aliases.get(fields["model"]) if fields["model"] != served else None
        if alias is None or not alias.implies:
            return fields
        fields = copied(fields)
        for path, value in alias.implies.items():
            if at(fields, path) is None:
                put(fields, path, value)
        return fields

    def case_match_of(self, fields: Fields, served: str) -> CaseMatch:
        """Return the mode and the case of a request."""
        names = (fields["model"], served)
        mode = self.contract.mode.default
        for reading in self.contract.mode.match:
            if _is_named(names, reading.model) and _holds(fields, reading.when):
                mode = reading.mode
                break
        for case in self.contract.cases:
            is_for_model = all(_is_named(names, globs) for globs in (case.when.model, *case.when.also))
            is_for_mode = not case.when.mode or mode in case.when.mode
            if is_for_model and is_for_mode and _holds(fields, case.when.fields):
                return CaseMatch(mode, case)
        return CaseMatch(mode, None)

    def sections_of(self, case_match: CaseMatch) -> tuple[Sections, tuple[Rule, ...]]:
        """Return the sections and the rules of a case match."""
        if case_match.case is None:
            return self.contract, self.contract.rules
        return case_match.case.sections, self.contract.case_rules[case_match.case.name]

    def _decided_outcome(
        self, request: ChatRequest, sent: Fields, served: str, case_match: CaseMatch | None
    ) -> RejectedOutcome | ForwardedOutcome:
        fields = self.with_implied(sent, served)
        found = case_match or self.case_match_of(fields, served)
        sections, rules = self.sections_of(found)
        for rule in rules:
            fault = _fault_of(rule, fields, sent, request)
            if fault is not None:
                fault.details.setdefault("model", sent["model"])
                return RejectedOutcome(rule.rule, fault, sections, found)
        got = engine_fields({**fields, "model": served}, rules)
        asked, sent = sent["model"], request.fields()
        streamed = fields.get("stream") is True
        usage = ask_for_usage(got, sections.response.stream) if streamed else None
        renamed = asked != served and self.contract.models.respond_as == "requested"
        changed = tuple(name for name in {**sent, **got} if not is_same(_Absent.of(sent, name), _Absent.of(got, name)))
        once = tuple(_governed_twice(request, rules, self.contract.read_by_conditions))
        untouched = not changed and not once
        name = asked if renamed else None
        return ForwardedOutcome(got, untouched, name, streamed, usage, sections, found, changed, once)


class _Absent:
    """Marks a missing member, which differs from one that is null."""

    @staticmethod
    def of(fields: Fields, name: str) -> Any:  # noqa: ANN401 - any JSON value
        return [fields[name]] if name in fields else []


def _fault_of_reading(request: ChatRequest, default: str | None) -> Fault | None:
    if request.text is not None:
        return Fault("bad_request", None, "json", {})
    names = [name for name, _ in request.members]
    for name in ("messages", "model", "stream"):
        if names.count(name) > 1:
            return Fault("bad_request", name, "repeated", {})
    fields = request.fields()
    if not isinstance(fields.get("stream"), bool | None):
        return Fault("bad_request", "stream", "wrong_type", {})
    model = fields.get("model")
    if not isinstance(default if model is None else model, str):
        return Fault("bad_request", "model", "missing", {})
    return None


def _fault_of(rule: Rule, fields: Fields, sent: Fields, request: ChatRequest) -> Fault | None:
    match rule:
        case Const() | Range():
            return fault_of_sampling(rule, fields)
        case FieldRule():
            return fault_of_field(rule, fields)
        case CheckRule():
            return fault_of_check(rule, fields)
        case PartLimit():
            return fault_of_part_limit(rule, fields)
        case Budget():
            twice = [(name, sent[name]) for name, _ in request.members]
            return fault_of_budget(rule, [*twice, *((name, fields[name]) for name in fields if name not in sent)])
        case UnknownFieldsRule():
            return _fault_of_unknown_member(rule, fields) if rule.path else _fault_of_unknown(rule, request)
        case BodyLimit():
            return None


def _fault_of_unknown(rule: UnknownFieldsRule, request: ChatRequest) -> Fault | None:
    unknown = [name for name, _ in request.members if name not in rule.known]
    if not unknown or rule.unknown_fields.policy != "reject":
        return None
    words = rule.unknown_fields.error
    details = {"value": request.fields()[unknown[0]]}
    return Fault("unknown_field", unknown[0], "unknown", details, () if words is None else (words,))


def _fault_of_unknown_member(rule: UnknownFieldsRule, fields: Fields) -> Fault | None:
    holder = at(fields, rule.path)
    if not isinstance(holder, dict) or rule.unknown_fields.policy != "reject":
        return None
    for name, value in holder.items():
        if name not in rule.known:
            words = rule.unknown_fields.error
            return Fault(
                "unknown_field", f"{rule.path}.{name}", "unknown", {"value": value}, () if words is None else (words,)
            )
    return None


def _governed_twice(request: ChatRequest, rules: tuple[Rule, ...], read: Iterable[str]) -> Iterator[str]:
    """Yield the fields that a contract reads and that are sent more than once: the engine receives one value."""
    governed = {path.partition(".")[0] for path in read}
    governed |= {name for rule in rules if isinstance(rule, Const | Range) for name in names_of(rule.field)}
    for rule in rules:
        if isinstance(rule, FieldRule):
            governed |= {name.partition(".")[0] for name in names_of(rule.path)}
    names = [name for name, _ in request.members]
    return (name for name in sorted(governed) if names.count(name) > 1)


def _is_named(names: tuple[str, str], globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for name in names for glob in globs)


def _holds(fields: Fields, condition: Condition) -> bool:
    return all(is_among(at(fields, path), wanted) for path, wanted in condition.items())
