"""Contract → checks: every request that can show whether a contract is kept, and what must come of it."""

import random
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

from compiler.verify.check import Acceptance, Check, Derived, Refusal, Told, Untried
from compiler.verify.generation.checks import probes_of_check
from compiler.verify.generation.fields import probes_of_field, probes_of_sampling
from compiler.verify.generation.fixture import Situation, situations
from compiler.verify.generation.limits import probes_of_budget, probes_of_part_limit, probes_of_size, probes_of_unknown
from compiler.verify.generation.names import Deployment, Homes, alias_probes, carried, distinguishing, moved
from compiler.verify.generation.requests import (
    ENGINE_ANSWERS,
    ENGINE_SAYS,
    UNTOLD,
    probes_of_bytes,
    probes_of_engine_errors,
    probes_of_models,
    probes_of_reading,
    probes_of_streams,
    streamed,
    together,
)
from compiler.verify.generation.trial import Probe
from compiler.verify.oracle.ambiguity import doubt_of
from compiler.verify.oracle.error_text import Refusing
from compiler.verify.oracle.fields import BUDGETS, Fault, names_of
from compiler.verify.oracle.outcome import MODELS, REQUEST, Answered, Meaning, Refused
from router.contract.errors import STATUS_OF
from router.contract.schema.fields import BOUND_TO_BUDGET
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import (
    Band,
    BodyLimit,
    Budget,
    CheckRule,
    FieldRule,
    PartLimit,
    Pin,
    Rule,
    UnknownFieldsRule,
)
from router.contract.schema.sections import Errors

STREAM: Final = "response.stream.usage"
ERRORS: Final = "errors"
ORDER: Final = "order"
MODE: Final = "mode"

DEFAULT_MAX_BODY: Final = 64 * 1024 * 1024
"""Largest body in bytes that is sent where nobody says otherwise."""


class Options(NamedTuple):
    """How checks are derived.

    is_own: the endpoint is this project's router in front of an engine of its own: what the contract leaves to it
        counts as well. max_body: the largest body in bytes that is sent.
    """

    is_own: bool = False
    max_body: int = DEFAULT_MAX_BODY


def derive(contract: Contract, deployment: Deployment, options: Options | None = None) -> Derived:
    """Return the checks of a contract for an endpoint, in the contract's own order."""
    return _Derivation(Meaning(contract, deployment.served), deployment, options or Options()).derived()


def shuffled(derived: Derived, seed: int) -> Derived:
    """Return the checks in another order, the same for a seed."""
    checks = list(derived.checks)
    random.Random(seed).shuffle(checks)  # noqa: S311 - an order to repeat, not a secret
    return derived._replace(checks=tuple(checks))


class _Derivation:
    """Collects the checks of a contract, each request once for what it shows."""

    def __init__(self, meaning: Meaning, deployment: Deployment, options: Options) -> None:
        self._meaning = meaning
        self._deployment = deployment
        self._options = options
        self._checks: dict[str, Check] = {}
        self._untried: list[Untried] = []
        self._ids: set[str] = set()
        self._tried: list[Rule] = []
        self._situations: list[Situation] = []

    def derived(self) -> Derived:
        """Return the checks and what is left out."""
        found = self._situations = list(situations(self._meaning, self._deployment.asked))
        by_case: Homes = {}
        for situation in found:
            by_case.setdefault(situation.name, situation)
        self._of_every_request(found)
        for situation in by_case.values():
            self._of_case(situation, is_first=situation is found[0])
        if len(by_case) > 1:
            for situation in found:
                self._of_mode(situation, by_case)
        self._of_aliases(by_case)
        for case in self._meaning.contract.cases:
            if case.name not in by_case:
                self._leave_out("cases", case.name, "its rules", self._deployment.reason_for(case))
        return Derived(tuple(self._checks.values()), tuple(self._untried))

    def _of_every_request(self, found: list[Situation]) -> None:
        if not found:
            self._leave_out(REQUEST, None, "everything", "no request was found that the contract lets pass")
            return
        first = found[0]
        for probe in probes_of_reading(first, is_own=self._options.is_own):
            self._add(REQUEST, first, probe)
        for probe in probes_of_models(first):
            self._add(MODELS, first, probe)
        for probe in probes_of_bytes(first):
            self._add(REQUEST, first, probe)

    def _of_case(self, situation: Situation, *, is_first: bool) -> None:
        plain = Probe("nothing but what is needed", situation.ask())
        self._add(REQUEST if is_first else "cases", situation, plain)
        refusing: list[tuple[Rule, Probe]] = []
        for rule in situation.rules:
            if isinstance(rule, BodyLimit) and not is_first:
                continue  # It is held before the case is known.
            is_known = rule in self._tried
            self._tried.append(rule)
            kept = [probe for probe in self._probes(situation, rule) if probe.is_edge or not is_known]
            for probe in kept:
                self._add(rule.rule, situation, probe)
                self._add_elsewhere(rule.rule, situation, probe)
            refused = next((probe for probe in kept if situation.refuses(probe.ask, rule.rule)), None)
            accepted = next((probe for probe in kept if situation.accepts(probe.ask)), None)
            if refused is not None:
                refusing.append((rule, refused))
            if not is_known:
                self._stream(situation, rule, refused, accepted)
        self._of_order(situation, refusing)
        for probe in probes_of_streams(situation):
            self._add(STREAM, situation, probe)
        self._of_errors(situation)

    def _add_elsewhere(self, rule: str, situation: Situation, probe: Probe) -> None:
        """Try what leads out of a case once more in a request that is held in the case by something else."""
        if self._meaning.outcome(probe.ask).place in (None, situation.place) or probe.ask.text is not None:
            return
        others = [other for other in self._situations if other.place == situation.place and other is not situation]
        for move, other in product((carried, moved), others):
            ask = move(probe.ask, situation, other)
            if ask is not None and self._meaning.outcome(ask).place == situation.place:
                self._add(rule, other, probe._replace(ask=ask))
                return

    def _of_errors(self, situation: Situation) -> None:
        """Let the engine refuse: by telling it to, or else by what engines refuse by themselves."""
        if self._options.is_own:
            for probe in probes_of_engine_errors(situation):
                self._add(ERRORS, situation, probe)
            return
        errors = situation.meaning.sections_of(situation.place)[0].errors
        if errors.engine_400 is not None or errors.bad_request_type is not None:
            ask = situation.ask({"messages": situation.text})._replace(engine=UNTOLD)
            self._add(ERRORS, situation, Probe("messages that are a string", ask))

    def _stream(self, situation: Situation, rule: Rule, *probes: Probe | None) -> None:
        for probe in probes:
            if probe is not None and probe.ask.length is None:
                self._add(rule.rule, situation, streamed(probe))

    def _of_order(self, situation: Situation, refusing: list[tuple[Rule, Probe]]) -> None:
        """Let two rules be broken at once: the first of them answers."""
        for (one, broken), (other, broken_too) in pairwise(refusing):
            ask = together(broken.ask, broken_too.ask, situation.ask())
            if ask is not None:
                shows = f"{one.rule} and {other.rule} broken at once ({broken.shows}; {broken_too.shows})"
                self._add(ORDER, situation, Probe(shows, ask))

    def _of_mode(self, situation: Situation, homes: Homes) -> None:
        """Show which mode is read from a request: by what holds in it and not elsewhere."""
        self._add("cases", situation, Probe("nothing but what is needed", situation.ask()))
        for shows, ask in distinguishing(situation, homes, list(self._checks.values())):
            self._add(MODE if self._meaning.contract.mode.match else "cases", situation, Probe(shows, ask))

    def _of_aliases(self, by_case: Homes) -> None:
        for name, alias in self._meaning.contract.models.aliases.items():
            if self._meaning.served_for(name) is None:
                reason = f"{alias.model}, which it is routed as, is not among the served models that were named"
                self._leave_out(MODELS, None, f"the alias {name}", reason)
        for situation, probe in alias_probes(self._meaning, by_case, list(self._checks.values())):
            self._add(MODELS, situation, probe)

    def _probes(self, situation: Situation, rule: Rule) -> Iterator[Probe]:
        for probe in _PROBES_OF[type(rule)](situation, rule):
            size = probe.ask.size()
            if size <= self._options.max_body + 1:
                yield probe
                continue
            reason = f"the body would have {size:,} bytes, more than the {self._options.max_body:,} of --max-body"
            self._leave_out(rule.rule, situation.name, probe.shows, reason)

    def _add(self, rule: str, situation: Situation, probe: Probe) -> None:
        outcome = self._meaning.outcome(probe.ask)
        key = probe.ask.key()
        if key in self._checks:
            return
        expected = self._expected(probe, outcome)
        if isinstance(outcome, Refused) and rule not in {ORDER, MODE}:
            rule = outcome.rule
        place = outcome.place or situation.place
        case = None if place.case is None else place.case.name
        wants_engine = isinstance(expected, Acceptance) and self._is_about_engine(rule, situation, expected)
        model = str(probe.ask.fields().get("model", "")) if probe.ask.text is None else ""
        check_id = self._named(f"{case or 'base'}: {rule}: {probe.shows}")
        is_told = isinstance(expected, Told)
        self._checks[key] = Check(
            check_id, rule, case, model, probe.shows, probe.ask, expected, wants_engine or is_told
        )

    def _is_about_engine(self, rule: str, situation: Situation, expected: Acceptance) -> bool:
        """Tell whether what a check is about can be seen only in what the engine gets."""
        changed = set(expected.changed) - {"model"}
        if rule in {MODE, "cases", "unknown_fields"}:
            return bool(changed)
        return bool(changed & {name for each in situation.rules if each.rule == rule for name in _changed_by(each)})

    def _expected(self, probe: Probe, outcome: Refused | Answered) -> Refusal | Acceptance | Told:
        own_id = probe.ask.request_id() if self._options.is_own else None
        if isinstance(outcome, Refused):
            status, body, exact = Refusing(outcome.sections.errors, own_id).told(outcome.fault)
            return Refusal(outcome.rule, status, body, exact)
        if probe.ask.engine is not None:
            return _told(probe.ask.engine, Refusing(outcome.sections.errors, own_id), outcome.sections.errors)
        return Acceptance(
            outcome.engine,
            outcome.untouched,
            outcome.model,
            outcome.streamed,
            outcome.usage,
            outcome.changed,
            outcome.once,
            None if self._options.is_own else doubt_of(probe.ask, self._meaning.sections_of(outcome.place)[1]),
        )

    def _named(self, check_id: str) -> str:
        name, count = check_id, 1
        while name in self._ids:
            count += 1
            name = f"{check_id} ({count})"
        self._ids.add(name)
        return name

    def _leave_out(self, rule: str, case: str | None, shows: str, reason: str) -> None:
        self._untried.append(Untried(rule, case, shows, reason))


def _changed_by(rule: Rule) -> Iterator[str]:
    """Yield the top-level members of a request that a rule may change."""
    if isinstance(rule, FieldRule):
        paths = (*names_of(rule.path), *(name for source in rule.field.sources for name in names_of(source)))
        yield from (path.partition(".")[0] for path in paths)
    elif isinstance(rule, Pin | Band):
        yield from names_of(rule.field)
    elif isinstance(rule, Budget):
        yield from (*BUDGETS, *(path.partition(".")[0] for path in BOUND_TO_BUDGET))
    elif isinstance(rule, CheckRule):
        yield from ("tool_choice",) if rule.rule == "checks.tool_choice" else ()


def _told(name: str, refusing: Refusing, errors: Errors) -> Told:
    """Return how an engine's 400 is told."""
    layers = [each for each in (errors.engine_400, errors.codes.get("bad_request")) if each is not None]
    if name == UNTOLD:
        status, body, exact = refusing.in_words(layers, Fault("bad_request", None, "engine", {}))
        return Told(status, body, exact and errors.engine_400 is not None, if_refused=True)
    said = ENGINE_ANSWERS[name]
    if errors.engine_400 is not None:
        param = said["error"]["param"] if name == "nested" else None
        return Told(*refusing.in_words(layers, Fault("bad_request", param, "engine", {}), ENGINE_SAYS))
    body = said
    if errors.bad_request_type is not None and name == "nested":
        body = {"error": {**said["error"], "type": errors.bad_request_type}}
    if errors.bad_request_type is not None and name == "flat":
        body = {**said, "type": errors.bad_request_type}
    return Told(STATUS_OF["bad_request"], body, exact=True)


_PROBES_OF: Final[dict[type, Callable[[Situation, Any], Iterator[Probe]]]] = {
    BodyLimit: probes_of_size,
    Pin: probes_of_sampling,
    Band: probes_of_sampling,
    FieldRule: probes_of_field,
    CheckRule: probes_of_check,
    PartLimit: probes_of_part_limit,
    Budget: probes_of_budget,
    UnknownFieldsRule: probes_of_unknown,
}
