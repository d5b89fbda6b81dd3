"""The model names with which cases, modes and aliases are tested, and the conditions that distinguish the cases."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Self

from compiler.verify.check import ChatRequest, Check, written
from compiler.verify.generation.fixture import Fixture, example_names, fixtures
from compiler.verify.generation.request_variant import RequestVariant
from compiler.verify.oracle.error_text import ErrorRenderer, may_be_alike
from compiler.verify.oracle.forwarded_request import is_same
from compiler.verify.oracle.oracle import ForwardedOutcome, Oracle, RejectedOutcome
from router.contract.schema.model import Case, Contract

PLAIN_MODEL: Final = "served-model"
"""A model of no vendor, which the engine of `--through-engine` serves first."""

LARGE: Final = 1024 * 1024
"""Size of a body in bytes above which requests are sent only if necessary."""

Homes = dict[str | None, Fixture]
"""The situation in which the rules of each case are tried, by the name of the case."""


class Deployment(NamedTuple):
    """The models of an endpoint. Aliases are routed to the first one.

    asked: the names that requests may use. is_whole: whether the endpoint serves no other model.
    """

    served: tuple[str, ...]
    asked: tuple[str, ...]
    is_whole: bool = False

    @classmethod
    def of(cls, models: tuple[str, ...]) -> Self:
        """Return an endpoint of which only some models are known."""
        return cls(models, models)

    @classmethod
    def for_contract(cls, contract: Contract, models: tuple[str, ...] = ()) -> Self:
        """Return an endpoint that also serves a model for every name in the contract."""
        globs = [glob for case in contract.cases for globs in (case.when.model, *case.when.also) for glob in globs]
        globs += [glob for reading in contract.mode.match for glob in reading.model]
        routed = [alias.model for alias in contract.models.aliases.values() if alias.model is not None]
        routed += [] if contract.models.default is None else [contract.models.default]
        names = (*(models or (PLAIN_MODEL,)), *routed, *example_names(globs))
        served = tuple(dict.fromkeys(name for name in names if name not in contract.models.aliases))
        return cls(served, served, is_whole=True)

    def reason_for(self, case: Case) -> str:
        """Return the reason for skipping a case."""
        if not case.when.model or self.is_whole:
            return "no request was found that it is for"
        return f"none of the models named by --model is one of {', '.join(case.when.model)}"


def distinguishing(fixture: Fixture, homes: Homes, checks: list[Check]) -> Iterator[tuple[str, ChatRequest]]:
    """Yield requests of a situation that have another result in the other cases, with their descriptions.

    `homes`: the situations in which the rules of each case were tested. `checks`: the checks derived there.
    """
    left = [home for name, home in homes.items() if name != fixture.name]
    while left:
        found = next(_telling(fixture, left[0], homes, checks), None)
        if found is None:
            left = left[1:]
            continue
        description, request = found
        outcome = fixture.outcome(request)
        left = [other for other in left if _is_alike(outcome, fixture.oracle.outcome(request, other.case_match))]
        mode = f"mode {fixture.case_match.mode}" if fixture.case_match.mode else "case"
        yield f"{mode} from {_conditions(fixture)}: {description}", request


def _telling(fixture: Fixture, other: Fixture, homes: Homes, checks: list[Check]) -> Iterator[tuple[str, ChatRequest]]:
    """Yield requests of a situation that have another result in another case."""
    ours, theirs = fixture.rules, other.rules
    differing = {rule.rule for rule in (*ours, *theirs) if rule not in ours or rule not in theirs}
    for check in checks:
        if check.rule not in differing or check.request.text is not None or check.case not in homes:
            continue
        request = moved(check.request, homes[check.case], fixture)
        outcome = fixture.outcome(request)
        if (
            outcome.case_match != fixture.case_match
            or request.length is not None
            or request.size() > LARGE
            or request.engine is not None
        ):
            continue
        if not _is_alike(outcome, fixture.oracle.outcome(request, other.case_match)):
            yield check.description, request


def moved(request: ChatRequest, home: Fixture, fixture: Fixture) -> ChatRequest:
    """Return a request of one situation with the condition of its case replaced by that of another."""
    names = [name for name, _ in request.members]
    own = {name: written(value) for name, value in fixture.fields.items()}
    replaced = {*home.fields, *own} - {*_SHARED}
    keep = [(name, value) for name, value in request.members if name not in replaced]
    added = [(name, value) for name, value in own.items() if name not in _SHARED or name not in names]
    return request._replace(members=(*keep, *added))


def carried(request: ChatRequest, home: Fixture, fixture: Fixture) -> ChatRequest | None:
    """Return a request with all changes of one situation and the condition of another situation's case.

    None if both set the same field.
    """
    rendered = {(name, written(value)) for name, value in home.fields.items()}
    changed = [member for member in request.members if member not in rendered]
    own = [(name, written(value)) for name, value in fixture.fields.items()]
    if not {name for name, _ in changed}.isdisjoint(fixture.fields):
        return None
    return request._replace(members=(*own, *changed))


_SHARED: Final = ("messages", "max_tokens", "max_completion_tokens")


def _conditions(fixture: Fixture) -> str:
    rendered = {name: value for name, value in fixture.fields.items() if name not in (*_SHARED, "model")}
    return f"{fixture.fields['model']}{', ' if rendered else ''}{written(rendered)[1:-1]}"


def _is_alike(one: RejectedOutcome | ForwardedOutcome, other: RejectedOutcome | ForwardedOutcome) -> bool:
    if isinstance(one, ForwardedOutcome) and isinstance(other, ForwardedOutcome):
        return is_same(one.engine, other.engine)
    if isinstance(one, RejectedOutcome) and isinstance(other, RejectedOutcome):
        (status, body, _), (other_status, other_body, _) = _rendered_error(one), _rendered_error(other)
        return status == other_status and may_be_alike(body, other_body)
    return False


def _rendered_error(rejected: RejectedOutcome) -> tuple[int, Any, bool]:
    return ErrorRenderer(rejected.sections.errors, None).rendered(rejected.fault)


def alias_variants(oracle: Oracle, homes: Homes, checks: list[Check]) -> Iterator[tuple[Fixture, RequestVariant]]:
    """Yield requests for each alias: plain, streamed, and where its case is another than that of most."""
    for name in oracle.contract.models.aliases:
        of_alias = list(fixtures(oracle, (name,)))
        if not of_alias:
            continue
        first = of_alias[0]
        yield first, RequestVariant(f"the alias {name}", first.request())
        yield first, RequestVariant(f"the alias {name}, streamed", first.request({"stream": True}))
        implied = oracle.contract.models.aliases[name].implies
        for path, value in implied.items():
            other = (
                (not value)
                if isinstance(value, bool)
                else {"enabled": "disabled", "disabled": "enabled"}.get(str(value), value)
            )
            yield first, RequestVariant(f"the alias {name} with {path} {written(other)}", first.request({path: other}))
        if implied:
            yield from (
                (each, RequestVariant(f"the alias {name} with {_conditions(each)}", each.request()))
                for each in of_alias
            )
            yield from (
                (first, RequestVariant(description, request))
                for description, request in distinguishing(first, homes, checks)
            )
