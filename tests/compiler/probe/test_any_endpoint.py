"""Whatever an endpoint answers, however little sense it makes, the draft of it compiles."""

import json
import random
from itertools import product

import pytest

from compiler.probe.baseline import BaseError
from compiler.probe.draft import Run, draft_of
from compiler.probe.learner import Aims, learn
from compiler.probe.runner import drive
from compiler.verify.assertion import Answer
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
    """Accept a share of all requests and refuse the others in any shape; the same request is answered alike."""

    def answer(key: str) -> Answer:
        chance = random.Random(f"{seed} {key}")
        place = chance.random()
        if place < share:
            return Answer(200, "application/json", b'{"choices": []}')
        if place > 0.97:
            return Answer(chance.choice([429, 500, 503]), "", b"x")
        shape = chance.choice(SHAPES) if seed % 2 else SHAPES[seed // 2 % len(SHAPES)]
        body = json.dumps(shape(chance.choice(TEXTS)))
        return Answer(chance.choice([400, 400, 422, 404, 413]), "application/json", body.encode())

    return lambda asks: {ask.key(): answer(ask.key()) for ask in asks}


@pytest.mark.parametrize(("seed", "share"), exhaustive_but([(1, 0.1), (2, 0.95)], product(range(4), [0.1, 0.5, 0.95])))
def test_the_draft_of_any_endpoint_compiles(seed: int, share: float) -> None:
    """Of answers at random a draft is made that compiles, or it is told that no request is answered."""
    try:
        learnt = drive(learn(Aims("m", SMALL)), answering_at_random(seed, share))
    except BaseError:
        return
    assert draft_of(learnt, Run("m", "m", "http://127.0.0.1/v1", DAY, 0)).data
