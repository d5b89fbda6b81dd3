"""What an engine would get as things stand while the edits of a request are noted."""

import pytest

from router.contract.errors import ApiError
from router.contract.jsonbytes.parsing import parse
from router.contract.jsonbytes.splice import JsonEdit, apply_edits
from router.contract.rules.evaluation import EvaluationContext


@pytest.fixture
def context():
    """A context of a request that has an object, a null and a number."""
    return EvaluationContext(parse(b'{"o":{"x":1,"n":null},"n":null,"z":0}'), [])


def test_the_first_refusal_answers(context):
    """Of several refusals the first one is told, with its rule."""
    first, second = ApiError("bad_request", "1"), ApiError("bad_request", "2")
    context.reject("one", first)
    context.reject("two", second)
    assert (context.error, context.rejected_by) == (first, "one")


def test_edits_are_seen_by_those_that_come_behind(context):
    """What was put or dropped is what an engine would get, also within an object and of an object whole."""
    context.put("rule", ("o", "y"), 2, b"2")
    assert (context.value_at(("o", "y")), context.value_at(("o", "x"))) == (2, 1)
    context.drop("rule", ("o",))
    assert (context.value_at(("o", "y")), context.value_at(("o", "x")), context.value_at(("o",))) == (None, None, None)
    context.put("rule", ("o",), {"x": {"d": 5}}, b'{"x":{"d":5}}')
    assert (context.value_at(("o", "x", "d")), context.value_at(("o", "x", "d", "e"))) == (5, None)
    assert apply_edits(context.request, context.edits) == b'{"o":{"x":{"d":5}},"n":null,"z":0}'


def test_edits_tell_whether_a_value_was_there(context):
    """A value in place of another is set, one in place of nothing or of null is injected."""
    for path in (("z",), ("n",), ("m",), ("o", "x"), ("o", "n")):
        context.put("rule", path, 1, b"1")
    assert [edit.kind for edit in context.edits] == ["set", "inject", "inject", "set", "inject"]


def test_what_stands_may_be_null(context):
    """A field that is sent as null stands there; one of what is no object does not."""
    assert [context.is_sent(path) for path in (("n",), ("o", "n"), ("m",), ("z", "x"), ("o", "m"))] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_edits_of_a_step_of_its_own_are_seen(context):
    """Values that a step set by itself count, repetitions that it took away change none."""
    context.add_edits(
        [JsonEdit("rule", "set", ("z",), b"7"), JsonEdit("rule", "remove", ("o",)), JsonEdit("rule", "drop", ("n",))]
    )
    assert (context.value_at(("z",)), context.value_at(("o", "x")), len(context.edits)) == (7, 1, 3)
