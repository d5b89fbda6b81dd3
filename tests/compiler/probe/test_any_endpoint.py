"""Whatever an endpoint answers, however little sense it makes, the draft of it compiles."""

import json
import random
from itertools import product

import pytest

from compiler.probe.baseline import BaselineError
from compiler.probe.draft import ProbeRun, draft_of
from compiler.probe.learner import ProbeGoal, learn
from compiler.probe.runner import run_learner
from compiler.verify.assertion import EndpointResponse
from tests.compiler.probe.endpoints import DAY, SMALL
from tests.exhaustive import exhaustive_but

SHAPES = (
    lambda text: {"error": {"message": text, "type": "t", "code": None, "param": None}},
    lambda text: {"detail": [{"msg": text, "loc": ["body"]}]},
    lambda text: [text],
    lambda text: text,
    lambda text: {"error": text},
    lambda text: {"error": {"message": {"inner": text}}, "n": 1.5},
    lambda text: {"empty": {}},
    lambda text: {"message": "", "code": "", "type": text},
)
TEXTS = ("no", "bad {x}", "two\nlines", "a" * 3000, "Ünï \u2028", "400 is 1", "")


def answering_at_random(seed: int, share: float):
    """Accept a share of all requests and reject the others in any shape; the same request is answered alike."""

    def response(key: str) -> EndpointResponse:
        chance = random.Random(f"{seed} {key}")
        place = chance.random()
        if place < share:
            return EndpointResponse(200, "application/json", b'{"choices": []}')
        if place > 0.97:
            return EndpointResponse(chance.choice([429, 500, 503]), "", b"x")
        shape = chance.choice(SHAPES) if seed % 2 else SHAPES[seed // 2 % len(SHAPES)]
        body = json.dumps(shape(chance.choice(TEXTS)))
        return EndpointResponse(chance.choice([400, 400, 422, 404, 413]), "application/json", body.encode())

    return lambda chat_requests: {request.key(): response(request.key()) for request in chat_requests}


@pytest.mark.parametrize(("seed", "share"), exhaustive_but([(1, 0.1), (2, 0.95)], product(range(4), [0.1, 0.5, 0.95])))
def test_the_draft_of_any_endpoint_compiles(seed: int, share: float) -> None:
    """Of answers at random a draft is made that compiles, or it is told that no request is answered."""
    try:
        learned = run_learner(learn(ProbeGoal("m", SMALL)), answering_at_random(seed, share))
    except BaselineError:
        return
    assert draft_of(learned, ProbeRun("m", "m", "http://127.0.0.1/v1", DAY, 0)).data
