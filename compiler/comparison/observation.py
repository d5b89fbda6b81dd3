"""What a client can tell of two contracts: requests are derived from both, and those that fare otherwise are told.

A request is judged by what the router itself would do with it under each contract, so that two ways of spelling one
thing are the same, and a change that no request meets is none.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final, NamedTuple

from compiler.comparison.narrowing import with_aliases
from compiler.comparison.onlooker import Onlooker, Seen
from compiler.verify.check import Ask, Check
from compiler.verify.derivation import DEFAULT_MAX_BODY, Options, derive
from compiler.verify.derivation.names import PLAIN_MODEL, Deployment
from router.contract.model import Contract

_ANY_SIZE: Final = 1 << 62


class Difference(NamedTuple):
    """A request that fares otherwise: what it tries, the model that it asks for, what its client sees."""

    shows: str
    model: str
    old: Seen
    new: Seen


class Observation(NamedTuple):
    """How many requests were tried, and those that fare otherwise."""

    requests: int
    differences: tuple[Difference, ...]


def observe(
    before: Contract, after: Contract, models: tuple[str, ...] = (), *, reads_messages: bool = True
) -> Observation:
    """Try every request that can show a rule of either contract with both.

    `models` are the names to ask for, taken to be answered on both sides; none: every name that a contract speaks of.
    """
    sides = _sides(before, after, models)
    checks = _distinct(chain.from_iterable(map(_derived, sides)))
    onlookers = [Onlooker(side.contract, side.deployment.served, reads_messages=reads_messages) for side in sides]
    differences = tuple(_differing(checks, *onlookers))
    return Observation(len(checks), differences)


class _Side(NamedTuple):
    """A contract, and the models before which it stands."""

    contract: Contract
    deployment: Deployment


def _sides(before: Contract, after: Contract, models: tuple[str, ...]) -> tuple[_Side, _Side]:
    if models:
        old, new = (with_aliases(contract, models) for contract in (before, after))
        return _for_models(old, models), _for_models(new, models)
    aliases = {**before.models.aliases, **after.models.aliases}
    spoken_of = [name for contract in (before, after) for name in Deployment.for_contract(contract).served]
    served = tuple(name for name in dict.fromkeys(spoken_of) if name not in aliases)
    globs = {glob for contract in (before, after) for glob in _globs(contract)}
    # An alias is one more name to ask for where a condition may be about it.
    named = [name for name in aliases if any(fnmatchcase(name, glob) for glob in globs)]
    deployment = Deployment(served, (*served, *named), is_whole=True)
    return _Side(before, deployment), _Side(after, deployment)


def _globs(contract: Contract) -> Iterator[str]:
    yield from (glob for reading in contract.mode.read for glob in reading.model)
    yield from (glob for case in contract.cases for glob in case.when.model)


def _for_models(contract: Contract, models: tuple[str, ...]) -> _Side:
    """Return a contract in front of engines that serve these models, or what they are routed as where that matters."""
    aliases = contract.models.aliases
    routed = {name: alias.model or PLAIN_MODEL for name, alias in aliases.items() if alias.model or alias.implies}
    served = tuple(dict.fromkeys((*routed.values(), *(name for name in models if name not in routed))))
    return _Side(contract, Deployment(served, models, is_whole=True))


def _derived(side: _Side) -> Iterable[Check]:
    return derive(side.contract, side.deployment, Options(max_body=_ANY_SIZE)).checks


def _distinct(checks: Iterable[Check]) -> list[tuple[Check, Ask]]:
    """Return each request once; none that is too large to be looked at, unless it is but made up to a size."""
    found: dict[Ask, Check] = {}
    for check in checks:
        if check.ask.length is not None or check.ask.size() <= DEFAULT_MAX_BODY:
            found.setdefault(check.ask._replace(engine=None), check)
    return [(check, ask) for ask, check in found.items()]


def _differing(checks: list[tuple[Check, Ask]], before: Onlooker, after: Onlooker) -> Iterator[Difference]:
    for check, ask in checks:
        body = ask._replace(length=None).body()
        old, new = before.sees(ask, body), after.sees(ask, body)
        if not old.is_as(new):
            yield Difference(check.shows, check.model, old, new)
