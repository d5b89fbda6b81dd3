"""What an engine would get as things stand while the edits of a request are noted."""

import pytest

from router.contract.errors import ApiError
from router.contract.jsonbytes.parsing import parse
from router.contract.jsonbytes.splice import Edit, apply_edits
from router.contract.rules.evaluation import Draft


@pytest.fixture
def draft():
    """A draft of a request that has an object, a null and a number."""
    return Draft(parse(b'{"o":{"x":1,"n":null},"n":null,"z":0}'), [])


def test_the_first_refusal_answers(draft):
    """Of several refusals the first one is told, with its rule."""
    first, second = ApiError("bad_request", "1"), ApiError("bad_request", "2")
    draft.refuse("one", first)
    draft.refuse("two", second)
    assert (draft.error, draft.refused_by) == (first, "one")


def test_edits_are_seen_by_those_that_come_behind(draft):
    """What was put or dropped is what an engine would get, also within an object and of an object whole."""
    draft.put("rule", ("o", "y"), 2, b"2")
    assert (draft.value_at(("o", "y")), draft.value_at(("o", "x"))) == (2, 1)
    draft.drop("rule", ("o",))
    assert (draft.value_at(("o", "y")), draft.value_at(("o", "x")), draft.value_at(("o",))) == (None, None, None)
    draft.put("rule", ("o",), {"x": {"d": 5}}, b'{"x":{"d":5}}')
    assert (draft.value_at(("o", "x", "d")), draft.value_at(("o", "x", "d", "e"))) == (5, None)
    assert apply_edits(draft.request, draft.edits) == b'{"o":{"x":{"d":5}},"n":null,"z":0}'


def test_edits_tell_whether_a_value_was_there(draft):
    """A value in place of another is set, one in place of nothing or of null is injected."""
    for path in (("z",), ("n",), ("m",), ("o", "x"), ("o", "n")):
        draft.put("rule", path, 1, b"1")
    assert [edit.kind for edit in draft.edits] == ["set", "inject", "inject", "set", "inject"]


def test_what_stands_may_be_null(draft):
    """A field that is sent as null stands there; one of what is no object does not."""
    assert [draft.stands(path) for path in (("n",), ("o", "n"), ("m",), ("z", "x"), ("o", "m"))] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_edits_of_a_step_of_its_own_are_seen(draft):
    """Values that a step set by itself count, repetitions that it took away change none."""
    draft.note([Edit("rule", "set", ("z",), b"7"), Edit("rule", "remove", ("o",)), Edit("rule", "drop", ("n",))])
    assert (draft.value_at(("z",)), draft.value_at(("o", "x")), len(draft.edits)) == (7, 1, 3)
