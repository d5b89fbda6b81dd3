"""Derive requests from two contracts, and find those whose results a client can distinguish.

The result of a request is the router's own decision under each contract. So two spellings of one rule are equal, and a
change that no request reaches is no change.
"""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from compiler.diff.client_view import ClientView, VisibleResponse
from compiler.diff.values import same
from compiler.verify.check import ChatRequest, Check
from compiler.verify.generation import DEFAULT_MAX_BODY, Options, derive
from compiler.verify.generation.names import PLAIN_MODEL, Deployment
from router.contract.schema.model import Contract

ANY_SIZE: Final = 1 << 62
"""No bound of the size of requests, in bytes."""


class Difference(NamedTuple):
    """A request with different results: its description, the requested model, and what its client sees."""

    description: str
    model: str
    old: VisibleResponse
    new: VisibleResponse


class Observation(NamedTuple):
    """Number of requests that were tested, and those with different results.

    cases: the names of the cases that both contracts have. aliases: the names of the aliases that
    either has, if requests use several.
    """

    requests: int
    differences: tuple[Difference, ...]
    cases: frozenset[str]
    aliases: frozenset[str]


def observe(
    before: Contract,
    after: Contract,
    models: tuple[str, ...] = (),
    *,
    reads_messages: bool = True,
    max_body: int = ANY_SIZE,
) -> Observation:
    """Test both contracts with every request of up to `max_body` bytes that can show a rule of either.

    `models`: the names to request, assumed to be served on both sides; none: every name that a contract mentions.
    """
    sides = _sides(before, after, models)
    requests = requests_for(sides[:1] if _are_one(*sides) else sides, max_body)
    onlookers = [ClientView(side.contract, side.deployment.served, reads_messages=reads_messages) for side in sides]
    old, new = ({case.name for case in contract.cases} for contract in (before, after))
    # If only one model is requested, all requests name it.
    aliases = frozenset(() if len(models) == 1 else (*before.models.aliases, *after.models.aliases))
    return Observation(len(requests), tuple(differing(requests, *onlookers)), frozenset(old & new), aliases)


class ComparedContract(NamedTuple):
    """A contract, and the models that it is for.

    unasked: aliases that no request uses; error texts that list the names need them.
    """

    contract: Contract
    deployment: Deployment
    unasked: frozenset[str] = frozenset()


def _sides(before: Contract, after: Contract, models: tuple[str, ...]) -> tuple[ComparedContract, ComparedContract]:
    if models:
        return _for_models(before, models), _for_models(after, models)
    aliases = {**before.models.aliases, **after.models.aliases}
    spoken_of = [name for contract in (before, after) for name in Deployment.for_contract(contract).served]
    served = tuple(name for name in dict.fromkeys(spoken_of) if name not in aliases)
    globs = {glob for contract in (before, after) for glob in _globs(contract)}
    # A condition may be about the alias, so requests use it, too.
    named = [name for name in aliases if any(fnmatchcase(name, glob) for glob in globs)]
    deployment = Deployment(served, (*served, *named), is_whole=True)
    return ComparedContract(before, deployment), ComparedContract(after, deployment)


def _are_one(before: ComparedContract, after: ComparedContract) -> bool:
    return before[1:] == after[1:] and same(before.contract, after.contract)


def _globs(contract: Contract) -> Iterator[str]:
    yield from (glob for reading in contract.mode.match for glob in reading.model)
    yield from (glob for case in contract.cases if not case.parts for glob in case.when.model)


def _for_models(contract: Contract, models: tuple[str, ...]) -> ComparedContract:
    """Return a contract for engines that serve these models, or the models that these are routed to."""
    aliases = contract.models.aliases
    asked = {name: aliases[name] for name in models if name in aliases}
    routed = {name: alias.model or PLAIN_MODEL for name, alias in asked.items() if alias.model or alias.implies}
    served = tuple(dict.fromkeys((*routed.values(), *(name for name in models if name not in routed))))
    return ComparedContract(contract, Deployment(served, models, is_whole=True), frozenset(aliases.keys() - {*models}))


def requests_for(sides: Iterable[ComparedContract], max_body: int = ANY_SIZE) -> dict[ChatRequest, Check]:
    """Return each distinct request that shows a rule of either side; requests above the limit are left out.

    Requests that are only padded to their size are always kept.
    """
    found: dict[ChatRequest, Check] = {}
    for side in sides:
        for check in derive(side.contract, side.deployment, Options(max_body=max_body)).checks:
            is_small = check.request.length is not None or check.request.size() <= DEFAULT_MAX_BODY
            if is_small and check.model not in side.unasked:
                found.setdefault(check.request._replace(engine=None), check)
    return found


def differing(requests: Mapping[ChatRequest, Check], before: ClientView, after: ClientView) -> Iterator[Difference]:
    """Yield the requests with results that a client can distinguish."""
    for request, check in requests.items():
        body = request._replace(length=None).body()
        old, new = before.response_to(request, body), after.response_to(request, body)
        if not old.is_as(new):
            yield Difference(check.description, check.model, old, new)
