"""What becomes of the fields of a valid request: each kind of change, alone and together."""

import json

from hypothesis import given
from hypothesis import strategies as st

from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.jsonbytes.members import find_members
from router.contract.rules.field_tests import FIELD_TESTS
from router.contract.schema.conditions import path_of, value_at
from router.contract.schema.model import Contract
from router.contract.schema.sections import Field, ValueRule
from tests.batches import batched
from tests.router.contract.evaluated import cases, check

SERVED = ServedIds(("served",))


@batched("case", cases("transforms"))
def test_the_case_holds(case):
    """The engine gets exactly what the rules make of the request."""
    check(case)


PATHS = ["a", "b", "o.a", "o.b", "o.p.a", "p.a", "temperature", "n", "max_tokens"]
SCALARS = st.sampled_from([0, 1, 2, 0.5, 1.5, "x", "y", "", True, False])
NUMBERS = st.sampled_from([0, 1, 2, 0.5, 1.5])
STATING = {
    "reject": st.just(True),
    "type": st.sampled_from([("string",), ("number",), ("integer", "boolean"), ("array", "string", "number")]),
    "allowed": st.lists(SCALARS, min_size=1, max_size=4).map(tuple),
    "min": NUMBERS,
    "below": NUMBERS,
    "multiple_of": st.sampled_from([0.5, 2]),
    "min_length": st.just(1),
    "max_length": st.sampled_from([1, 2]),
    "min_items": st.just(1),
    "max_items": st.just(2),
    "max_bytes": st.just(1),
    "pattern": st.sampled_from(["x*", ".?"]),
    "items": st.sampled_from([ValueRule(type=("string",), max_length=1), ValueRule(min=1)]),
    "requires": st.sampled_from([{"b": ()}, {"o.a": (1, "x")}]),
    "excludes": st.sampled_from([{"b": (0, "x")}, {"o.b": ()}]),
}
CHANGING = {
    "map": st.just({"x": "y", "1": 2, "true": False}),
    "floor": st.just(1),
    "ceiling": st.just(1.5),
    "force": SCALARS,
    "drop": st.just(True),
    "sources": st.lists(st.sampled_from(PATHS), min_size=1, max_size=2).map(tuple),
}
assert STATING.keys() == {member for test in FIELD_TESTS for member in test.members} - {"above", "max"}
VALUES = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "1e0",
        "0.5",
        "-0.0",
        '"x"',
        '"y"',
        '"xxx"',
        "true",
        "false",
        "null",
        "[]",
        '["x"]',
        "[1,2,3]",
        "{}",
    ]
)


@st.composite
def contracts(draw, *, changing):
    """Return a contract of field rules that state something, or also change something."""
    fields = {}
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=5, unique=True)):
        members = STATING | (CHANGING if changing else {})
        stated = draw(st.lists(st.sampled_from(sorted(members)), max_size=3, unique=True))
        values = {
            name: draw(members[name])
            for name in stated
            if name not in {"drop", "force"} or "drop" not in stated or name == "drop"
        }
        has_default = not {"drop", "force"} & set(stated) and draw(st.booleans())
        fields[path] = Field(**values, default=draw(SCALARS) if has_default else None)
    return Contract(fields=fields)


def written(members):
    return "{" + ",".join(f'"{key}":{value}' for key, value in members) + "}"


def objects(values):
    """Return written objects whose keys are repeated now and then."""
    return st.lists(st.tuples(st.sampled_from(["a", "b", "p", "\\u0061"]), values), max_size=4).map(written)


NESTED = objects(VALUES | objects(VALUES))
REQUESTS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "temperature", "n", "best_of", "max_tokens", "n_predict"]), VALUES)
    | st.tuples(st.sampled_from(["o", "p"]), VALUES | NESTED),
    max_size=7,
).map(lambda members: written([("model", '"served"'), *members]).encode())


def repeated(body, path):
    """Tell whether a key on the way to a path stands twice in its object."""
    span = (0, len(body))
    for step in path_of(path):
        standing = [member for member in find_members(body, *span) if member.key == step]
        if len(standing) > 1:
            return True
        if not standing or body[standing[0].start] != ord("{"):
            return False
        span = (standing[0].start, standing[0].end)
    return False


@given(contracts(changing=False), REQUESTS)
def test_what_leaves_keeps_the_contract(contract, body):
    """What is forwarded is forwarded untouched when it comes again, unless a default itself breaks a rule."""
    decision = decide(body, contract, SERVED)
    if isinstance(decision, Rejection):
        return
    again = decide(decision.body, contract, SERVED)
    if isinstance(again, Rejection):
        # Defaults are not judged: the compiler refuses those that break their own rule.
        defaults = {edit.field for edit in decision.edits if edit.kind != "remove"}
        assert defaults
        return
    assert again.body is decision.body
    assert [path for path in contract.fields if repeated(decision.body, path)] == []


@given(contracts(changing=True), REQUESTS)
def test_what_leaves_is_as_the_rules_say(contract, body):
    """Whatever rules meet, what leaves is JSON without a governed field twice, forced as forced, dropped as dropped."""
    decision = decide(body, contract, SERVED)
    if isinstance(decision, Rejection):
        assert decision.error.status == 400
        return
    assert isinstance(decision, Forward)
    left = json.loads(decision.body)
    assert [path for path in contract.fields if repeated(decision.body, path)] == []
    moved = {source for field in contract.fields.values() for source in field.sources}
    for path, field in contract.fields.items():
        parts = [other for other in contract.fields if other.startswith(f"{path}.") or path.startswith(f"{other}.")]
        value = value_at(left, path_of(path))
        if parts or path in moved:
            continue
        if field.drop:
            assert value is None
        elif field.force is not None:
            assert (value, type(value)) == (field.force, type(field.force)) or value == field.force
        elif field.default is not None:
            assert value is not None
