"""Requests around every edge of two contracts, and what the router's own code does with each."""

import itertools
import json
import math
from typing import NamedTuple

from router.contract.decide import Forward, ServedIds, decide
from router.contract.errors import build_error_response
from router.contract.schema.fields import BUDGET_FIELDS, spellings_of
from router.contract.schema.sections import Interval
from tests.compiler.diff.contracts import ALIASES, SERVED

BUDGETS = (*BUDGET_FIELDS, "n_predict")
ODDITIES = ("hot", True, "1.0", 0, -1, 1.5, [1], 1e9)


class Outcome(NamedTuple):
    """What a client and the engine see of one request."""

    accepted: bool
    seen: object
    granted: tuple[int, ...]


def outcome(body, contract):
    decision = decide(body, contract, ServedIds((SERVED,)))
    if not isinstance(decision, Forward):
        return Outcome(False, build_error_response(decision.error, decision.errors), ())
    return Outcome(True, (decision.body, decision.model_served, decision.respond_as), _granted(body, decision.body))


def _granted(asked, forwarded):
    """The budgets that a request named in numbers, as the engine gets them; infinite where it gets none."""
    asked, forwarded = json.loads(asked), json.loads(forwarded)
    return tuple(_tokens(forwarded.get(field)) for field in BUDGETS if type(asked.get(field)) is int)


def _tokens(value):
    return value if isinstance(value, int | float) and not isinstance(value, bool) else math.inf


def worse(before, after):
    """Whether a request that passed is rejected, or its budget lowered."""
    if before.accepted and after.accepted:
        return any(new < old for old, new in zip(before.granted, after.granted, strict=True))
    return before.accepted and not after.accepted


def requests(*contracts):
    """Bodies with one thing out of the ordinary, for everything that one of the contracts may look at."""
    numbers = _numbers(contracts)
    for field, value in itertools.product(_sampling_fields(contracts), (*numbers, *ODDITIES, None)):
        yield body({field: value})
    for field, value in itertools.product(BUDGETS, (*filter(_is_whole, numbers), *range(-1, 15), "5", True)):
        yield body({field: value})
    for model in (SERVED, *ALIASES, "unknown"):
        yield body({"model": model})
    for kind, count in itertools.product(("image_url", "video_url", "input_audio", "file"), range(6)):
        part = {"type": kind, kind: {"url": "x"}}
        yield body({"messages": [{"role": "user", "content": [part] * count}]})
    for length in (399, 400, 401, 402, 499, 500, 501, 502):
        yield body({}).ljust(length)


def body(fields):
    return json.dumps({"model": SERVED, "messages": [], **fields}).encode()


def _sampling_fields(contracts):
    """The governed ones under all their names, and one that may be governed by nobody."""
    governed = {"temperature", *itertools.chain(*(contract.sampling.params for contract in contracts))}
    return [name for field in sorted(governed) for name in (field, *spellings_of(field))]


def _numbers(contracts):
    """Every edge in a pair of contracts, and its neighbours on both sides."""
    edges = set()
    for contract in contracts:
        for value in contract.sampling.params.values():
            edges |= {value.min, value.max} if isinstance(value, Interval) else {value}
    near = {math.nextafter(edge, towards) for edge in edges for towards in (-math.inf, math.inf)}
    whole = {int(edge) + step for edge in edges for step in (-1, 1)}
    between = {(low + high) / 2 for low, high in itertools.pairwise(sorted(edges))}
    return sorted(edges | near | whole | between)


def _is_whole(number):
    return isinstance(number, int)
