"""What a field's value must be: each part of a rule, at its bounds and on values of every kind."""

import json

import pytest

from router.contract.decide import Rejection, ServedIds, decide
from router.contract.rules.field_tests import expectation
from router.contract.schema.model import Contract
from router.contract.schema.sections import Field
from tests.batches import batched
from tests.router.contract.evaluated import cases, check

SERVED = ServedIds(("served",))


@batched("case", cases("field_rules"))
def test_the_case_holds(case):
    """A value that keeps its rule passes untouched, another is refused with the part that it violates."""
    check(case)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (Field(allowed=(0, 0.6, 1.0)), "0, 0.6 or 1"),
        (Field(allowed=("x",)), "x"),
        (Field(allowed=(True, "x")), "true or x"),
        (Field(min=0, max=2), "a number from 0 to 2"),
        (Field(above=0, max=1), "a number above 0 and of at most 1"),
        (Field(min=0.5, below=2), "a number of at least 0.5 and below 2"),
        (Field(min=1, type=("integer",)), "a whole number of at least 1"),
        (Field(type=("string", "array")), "a string or an array"),
        (Field(), ""),
    ],
)
def test_a_rule_says_what_it_expects(field, words):
    """What a field may be is said in words for people."""
    assert expectation(field) == words


ODD = ["0", "1.5", "-1", "1e400", "true", "null", '"1"', '"nan"', '""', "[]", "[[1]]", "{}", '{"type":[]}', '"\\u0000"']
EVERY_PART = Field(
    type=("string", "number", "object", "array"),
    allowed=(1, "x"),
    min=0,
    below=9,
    min_items=1,
    max_items=2,
    max_bytes=5,
    pattern="x+",
    requires={"y": (1,)},
    excludes={"z": ()},
    sources=("w.type",),
    map={"x": 5},
    floor=1,
    ceiling=3,
    default=1,
)


@batched("value", ODD)
@batched("place", ["x", "y", "z", "w", "n"])
def test_no_value_breaks_a_rule(value, place):
    """Values of every kind, also where only conditions read them, are refused or forwarded."""
    contract = Contract(fields={"x": EVERY_PART, "n": EVERY_PART, "w.type": Field(allowed=("a",))})
    body = f'{{"model":"served","{place}":{value}}}'.encode()
    decision = decide(body, contract, SERVED)
    if isinstance(decision, Rejection):
        assert decision.error.status == 400
    else:
        assert json.loads(decision.body)["model"] == "served"
