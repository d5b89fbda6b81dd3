"""Fields by dotted path and what conditions say of them: numbers by value, strings and booleans exactly."""

import pytest

from router.contract.schema import conditions
from router.contract.schema.conditions import equals, is_one_of, path_of, value_at

FIELDS = {"a": {"b": {"c": 1}, "n": None, "l": [1]}, "s": "x", "t": True, "f": 0.5, "z": 0}


@pytest.mark.parametrize(
    ("dotted", "value"),
    [
        ("a.b.c", 1),
        ("a.b", {"c": 1}),
        ("a.n", None),
        ("a.n.c", None),
        ("a.l.0", None),
        ("s.x", None),
        ("gone", None),
        ("gone.b", None),
    ],
)
def test_a_path_leads_through_objects_alone(dotted, value):
    """What is absent, null or within anything but an object is nothing."""
    assert value_at(FIELDS, path_of(dotted)) == value


@pytest.mark.parametrize(
    ("value", "wanted", "is_equal"),
    [
        (1, 1.0, True),
        (1.0, 1, True),
        (True, 1, False),
        (1, True, False),
        (False, False, True),
        ("1", 1, False),
        ("x", "x", True),
        ("X", "x", False),
        (None, "x", False),
        ([1], 1, False),
        ({"x": 1}, "x", False),
    ],
)
def test_values_are_compared_by_kind(value, wanted, is_equal):
    """Numbers are equal by value; a boolean is no number and a string no word for one."""
    assert equals(value, wanted) is is_equal


@pytest.mark.parametrize(
    ("condition", "is_so"),
    [
        ({}, True),
        ({"a.b.c": (1,)}, True),
        ({"a.b.c": (2, 1)}, True),
        ({"a.b.c": (2,)}, False),
        ({"a.b": ()}, True),
        ({"a.n": ()}, False),
        ({"z": ()}, True),
        ({"s": ("x",), "t": (True,)}, True),
        ({"s": ("x",), "t": (False,)}, False),
    ],
)
def test_all_of_a_condition_must_hold(condition, is_so):
    """Every field has one of its values; without values it only has to be there."""
    assert conditions.tester_of(condition)(FIELDS) is is_so


def test_of_no_values_any_is_one():
    """Nothing named: whatever is not null."""
    assert is_one_of(False, ())
    assert not is_one_of(None, ())
    assert not is_one_of("x", ["y"])
