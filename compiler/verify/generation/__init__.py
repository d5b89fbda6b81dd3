"""Derive checks from a contract: requests that can show a violation, and the result that the contract requires."""

import random
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

from compiler.verify.check import (
    Check,
    CheckSuite,
    ExpectedAcceptance,
    ExpectedEngineError,
    ExpectedRejection,
    SkippedCheck,
)
from compiler.verify.generation.checks import variants_of_check
from compiler.verify.generation.fields import variants_of_field, variants_of_sampling
from compiler.verify.generation.fixture import Fixture, fixtures
from compiler.verify.generation.limits import (
    variants_of_budget,
    variants_of_part_limit,
    variants_of_size,
    variants_of_unknown,
)
from compiler.verify.generation.names import LARGE, Deployment, Homes, alias_variants, carried, distinguishing, moved
from compiler.verify.generation.request_variant import RequestVariant
from compiler.verify.generation.requests import (
    ENGINE_ANSWERS,
    ENGINE_SAYS,
    UNTOLD,
    combined_request,
    streamed,
    variants_of_bytes,
    variants_of_engine_errors,
    variants_of_models,
    variants_of_reading,
    variants_of_streams,
)
from compiler.verify.oracle.ambiguity import doubt_of
from compiler.verify.oracle.error_text import ErrorRenderer
from compiler.verify.oracle.fields import BUDGETS, Fault, names_of
from compiler.verify.oracle.oracle import MODELS, REQUEST, CaseMatch, ForwardedOutcome, Oracle, RejectedOutcome
from router.contract.errors import STATUS_OF
from router.contract.schema.fields import BOUND_TO_BUDGET
from router.contract.schema.model import Contract
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
from router.contract.schema.sections import Errors

STREAM: Final = "response.stream.usage"
ERRORS: Final = "errors"
ORDER: Final = "order"
MODE: Final = "mode"

DEFAULT_MAX_BODY: Final = 64 * 1024 * 1024
"""Default limit of a request body in bytes."""


class Options(NamedTuple):
    """The options for deriving checks.

    is_own: the endpoint is this project's router in front of a mock engine, so the router's defaults are checked
        too. max_body: the largest body in bytes that is sent.
    """

    is_own: bool = False
    max_body: int = DEFAULT_MAX_BODY


def derive(contract: Contract, deployment: Deployment, options: Options | None = None) -> CheckSuite:
    """Return the checks of a contract for an endpoint, in the contract's own order."""
    return _SuiteBuilder(Oracle(contract, deployment.served), deployment, options or Options()).suite()


def shuffled(suite: CheckSuite, seed: int) -> CheckSuite:
    """Return the checks in another order, the same for a seed."""
    checks = list(suite.checks)
    random.Random(seed).shuffle(checks)  # noqa: S311 - an order to repeat, not a secret
    return suite._replace(checks=tuple(checks))


class _SuiteBuilder:
    """Collects the checks of a contract; equal requests with equal descriptions are added once."""

    def __init__(self, oracle: Oracle, deployment: Deployment, options: Options) -> None:
        self._oracle = oracle
        self._deployment = deployment
        self._options = options
        self._checks: dict[str, Check] = {}
        self._untried: list[SkippedCheck] = []
        self._ids: set[str] = set()
        self._tried: list[Rule] = []
        self._large_pairs: list[tuple[Rule, Rule]] = []
        self._fixtures: list[Fixture] = []

    def suite(self) -> CheckSuite:
        """Return the checks and the skipped ones."""
        found = self._fixtures = list(fixtures(self._oracle, self._deployment.asked))
        by_case: Homes = {}
        for fixture in found:
            by_case.setdefault(fixture.name, fixture)
        self._of_every_request(found)
        for fixture in by_case.values():
            self._of_case(fixture, is_first=fixture is found[0])
        if len(by_case) > 1:
            for fixture in found:
                self._of_mode(fixture, by_case)
        self._of_aliases(by_case)
        for case in self._oracle.contract.cases:
            if case.name not in by_case:
                self._leave_out("cases", case.name, "its rules", self._deployment.reason_for(case))
        return CheckSuite(tuple(self._checks.values()), tuple(self._untried))

    def _of_every_request(self, found: list[Fixture]) -> None:
        if not found:
            self._leave_out(REQUEST, None, "everything", "no request was found that the contract lets pass")
            return
        first = found[0]
        for variant in variants_of_reading(first, is_own=self._options.is_own):
            self._add(REQUEST, first, variant)
        for variant in variants_of_models(first):
            self._add(MODELS, first, variant)
        for variant in variants_of_bytes(first):
            self._add(REQUEST, first, variant)

    def _of_case(self, fixture: Fixture, *, is_first: bool) -> None:
        plain = RequestVariant("nothing but what is needed", fixture.request())
        self._add(REQUEST if is_first else "cases", fixture, plain)
        rejecting: list[tuple[Rule, RequestVariant]] = []
        for rule in fixture.rules:
            if isinstance(rule, BodyLimit) and not is_first:
                continue  # It is held before the case is known.
            is_known = rule in self._tried
            self._tried.append(rule)
            kept = [variant for variant in self._variants(fixture, rule) if variant.is_edge or not is_known]
            if is_known:
                kept = _without_large(fixture, rule, kept)
            for variant in kept:
                self._add(rule.rule, fixture, variant)
                self._add_elsewhere(rule.rule, fixture, variant)
            rejected = next((variant for variant in kept if fixture.rejects(variant.request, rule.rule)), None)
            accepted = next((variant for variant in kept if fixture.accepts(variant.request)), None)
            if rejected is not None:
                rejecting.append((rule, rejected))
            if not is_known:
                self._stream(fixture, rule, rejected, accepted)
        self._of_order(fixture, rejecting)
        for variant in variants_of_streams(fixture):
            self._add(STREAM, fixture, variant)
        self._of_errors(fixture)

    def _add_elsewhere(self, rule: str, fixture: Fixture, variant: RequestVariant) -> None:
        """Test what leads out of a case again, in a request that another condition keeps in the case."""
        if (
            self._oracle.outcome(variant.request).case_match in (None, fixture.case_match)
            or variant.request.text is not None
        ):
            return
        others = [other for other in self._fixtures if other.case_match == fixture.case_match and other is not fixture]
        for move, other in product((carried, moved), others):
            request = move(variant.request, fixture, other)
            if request is not None and self._oracle.outcome(request).case_match == fixture.case_match:
                self._add(rule, other, variant._replace(request=request))
                return

    def _of_errors(self, fixture: Fixture) -> None:
        """Yield requests that an engine rejects: on instruction, or by the engine's own rules."""
        if self._options.is_own:
            for variant in variants_of_engine_errors(fixture):
                self._add(ERRORS, fixture, variant)
            return
        errors = fixture.oracle.sections_of(fixture.case_match)[0].errors
        if errors.engine_400 is not None or errors.bad_request_type is not None:
            request = fixture.request({"messages": fixture.text})._replace(engine=UNTOLD)
            self._add(ERRORS, fixture, RequestVariant("messages that are a string", request))

    def _stream(self, fixture: Fixture, rule: Rule, *variants: RequestVariant | None) -> None:
        for variant in variants:
            if variant is not None and variant.request.length is None and variant.request.size() <= LARGE:
                self._add(rule.rule, fixture, streamed(variant))

    def _of_order(self, fixture: Fixture, rejecting: list[tuple[Rule, RequestVariant]]) -> None:
        """Yield requests that violate two rules; the first rule in the order rejects."""
        for (one, broken), (other, broken_too) in pairwise(rejecting):
            request = combined_request(broken.request, broken_too.request, fixture.request())
            if request is not None and request.size() > LARGE:
                is_new = (one, other) not in self._large_pairs
                self._large_pairs.append((one, other))
                request = request if is_new else None
            if request is not None:
                description = (
                    f"{one.rule} and {other.rule} broken at once ({broken.description}; {broken_too.description})"
                )
                self._add(ORDER, fixture, RequestVariant(description, request))

    def _of_mode(self, fixture: Fixture, homes: Homes) -> None:
        """Test the mode of a request, by a rule that holds only in that mode."""
        self._add("cases", fixture, RequestVariant("nothing but what is needed", fixture.request()))
        others = homes | self._parts_of(fixture, homes)
        for description, request in distinguishing(fixture, others, list(self._checks.values())):
            self._add(
                MODE if self._oracle.contract.mode.match else "cases", fixture, RequestVariant(description, request)
            )

    def _parts_of(self, fixture: Fixture, homes: Homes) -> Homes:
        """Return a situation with fewer of its cases, for each choice of them that no request meets alone."""
        case = fixture.case_match.case
        parts = () if case is None else case.parts
        fewer = (each for each in self._oracle.contract.cases if {*(each.parts or (each.name,))} < {*parts})
        unmet = [CaseMatch(fixture.case_match.mode, each) for each in fewer if each.name not in homes]
        return {
            match.case.name: fixture._replace(case_match=match, rules=self._oracle.sections_of(match)[1])
            for match in unmet
            if match.case is not None
        }

    def _of_aliases(self, by_case: Homes) -> None:
        for name, alias in self._oracle.contract.models.aliases.items():
            if self._oracle.served_for(name) is None:
                reason = f"{alias.model}, which it is routed as, is not among the served models that were named"
                self._leave_out(MODELS, None, f"the alias {name}", reason)
        for fixture, variant in alias_variants(self._oracle, by_case, list(self._checks.values())):
            self._add(MODELS, fixture, variant)

    def _variants(self, fixture: Fixture, rule: Rule) -> Iterator[RequestVariant]:
        for variant in VARIANTS[type(rule)](fixture, rule):
            size = variant.request.size()
            if size <= self._options.max_body + 1:
                yield variant
                continue
            reason = f"the body would have {size:,} bytes, more than the {self._options.max_body:,} of --max-body"
            self._leave_out(rule.rule, fixture.name, variant.description, reason)

    def _add(self, rule: str, fixture: Fixture, variant: RequestVariant) -> None:
        outcome = self._oracle.outcome(variant.request)
        key = variant.request.key()
        if key in self._checks:
            return
        expected = self._expected(variant, outcome)
        if isinstance(outcome, RejectedOutcome) and rule not in {ORDER, MODE}:
            rule = outcome.rule
        case_match = outcome.case_match or fixture.case_match
        case = None if case_match.case is None else case_match.case.name
        wants_engine = isinstance(expected, ExpectedAcceptance) and self._is_about_engine(rule, fixture, expected)
        named = variant.request.fields().get("model") if variant.request.text is None else None
        model = "" if named is None else str(named)
        check_id = self._named(f"{case or 'base'}: {rule}: {variant.description}")
        is_conclusive = isinstance(expected, ExpectedEngineError)
        self._checks[key] = Check(
            check_id, rule, case, model, variant.description, variant.request, expected, wants_engine or is_conclusive
        )

    def _is_about_engine(self, rule: str, fixture: Fixture, expected: ExpectedAcceptance) -> bool:
        """Return whether only the request that the engine receives can show what a check is about."""
        changed = set(expected.changed) - {"model"}
        if rule in {MODE, "cases"} or rule.startswith("unknown_fields"):
            return bool(changed)
        return bool(changed & {name for each in fixture.rules if each.rule == rule for name in _changed_by(each)})

    def _expected(
        self, variant: RequestVariant, outcome: RejectedOutcome | ForwardedOutcome
    ) -> ExpectedRejection | ExpectedAcceptance | ExpectedEngineError:
        own_id = variant.request.request_id() if self._options.is_own else None
        if isinstance(outcome, RejectedOutcome):
            status, body, exact = ErrorRenderer(outcome.sections.errors, own_id).rendered(outcome.fault)
            return ExpectedRejection(outcome.rule, status, body, exact)
        if variant.request.engine is not None:
            return _expected_engine_error(
                variant.request.engine, ErrorRenderer(outcome.sections.errors, own_id), outcome.sections.errors
            )
        return ExpectedAcceptance(
            outcome.engine,
            outcome.untouched,
            outcome.model,
            outcome.streamed,
            outcome.usage,
            outcome.changed,
            outcome.once,
            None
            if self._options.is_own
            else doubt_of(variant.request, self._oracle.sections_of(outcome.case_match)[1]),
        )

    def _named(self, check_id: str) -> str:
        name, count = check_id, 1
        while name in self._ids:
            count += 1
            name = f"{check_id} ({count})"
        self._ids.add(name)
        return name

    def _leave_out(self, rule: str, case: str | None, description: str, reason: str) -> None:
        self._untried.append(SkippedCheck(rule, case, description, reason))


def _without_large(fixture: Fixture, rule: Rule, variants: list[RequestVariant]) -> list[RequestVariant]:
    """Return the variants without the large bodies, but for one that the rule rejects if no small one is rejected.

    For a rule that was tested in another case: there its large bodies were sent, and each costs as much as hundreds of
    others.
    """
    small = [variant for variant in variants if variant.request.size() <= LARGE]
    rejected = [variant for variant in variants if fixture.rejects(variant.request, rule.rule)]
    return small if any(variant in small for variant in rejected) else [*small, *rejected[:1]]


def _changed_by(rule: Rule) -> Iterator[str]:
    """Yield the top-level members of a request that a rule may change."""
    if isinstance(rule, FieldRule):
        paths = (*names_of(rule.path), *(name for source in rule.field.sources for name in names_of(source)))
        yield from (path.partition(".")[0] for path in paths)
    elif isinstance(rule, Const | Range):
        yield from names_of(rule.field)
    elif isinstance(rule, Budget):
        yield from (*BUDGETS, *(path.partition(".")[0] for path in BOUND_TO_BUDGET))
    elif isinstance(rule, CheckRule):
        yield from ("tool_choice",) if rule.rule == "checks.tool_choice" else ()


def _expected_engine_error(name: str, rejecting: ErrorRenderer, errors: Errors) -> ExpectedEngineError:
    """Return the expected response to an engine's 400."""
    layers = [each for each in (errors.engine_400, errors.codes.get("bad_request")) if each is not None]
    if name == UNTOLD:
        status, body, exact = rejecting.rendered_with(layers, Fault("bad_request", None, "engine", {}))
        return ExpectedEngineError(status, body, exact and errors.engine_400 is not None, if_rejected=True)
    said = ENGINE_ANSWERS[name]
    if errors.engine_400 is not None:
        param = said["error"]["param"] if name == "nested" else None
        return ExpectedEngineError(
            *rejecting.rendered_with(layers, Fault("bad_request", param, "engine", {}), ENGINE_SAYS)
        )
    body = said
    if errors.bad_request_type is not None and name == "nested":
        body = {"error": {**said["error"], "type": errors.bad_request_type}}
    if errors.bad_request_type is not None and name == "flat":
        body = {**said, "type": errors.bad_request_type}
    return ExpectedEngineError(STATUS_OF["bad_request"], body, exact=True)


VARIANTS: Final[dict[type, Callable[[Fixture, Any], Iterator[RequestVariant]]]] = {
    BodyLimit: variants_of_size,
    Const: variants_of_sampling,
    Range: variants_of_sampling,
    FieldRule: variants_of_field,
    CheckRule: variants_of_check,
    PartLimit: variants_of_part_limit,
    Budget: variants_of_budget,
    UnknownFieldsRule: variants_of_unknown,
}
