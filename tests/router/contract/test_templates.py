"""Templates: texts and bodies with placeholders, and what of a client's value is put into them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.templates import MAX_SHOWN, PLACEHOLDERS, display, filled, filled_body, problem_of, raw_value

DETAILS = {"value": [1, "x"], "param": None, "max": 1.5, "count": 0, "message": "m{value}", "code": True, "model": "é"}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("{message}", "m{value}"),
        ("{value} of {max}", '[1, "x"] of 1.5'),
        ("<{param}><{null}><{index}>", "<><><>"),
        ("{count}{code}", "0true"),
        ("{{value}} {{{model}}}", "{value} {é}"),
        ("}}{{", "}{"),
        ("{ value } {Value}", "{ value } {Value}"),
    ],
)
def test_placeholders_of_a_text_are_filled(template, text):
    """Each is replaced once, unknown values by nothing, doubled braces by single ones."""
    assert filled(template, DETAILS) == text


@pytest.mark.parametrize(
    ("template", "body", "without_null"),
    [
        ({"a": "{value}", "b": "{param}", "c": "{null}"}, {"a": [1, "x"], "b": None, "c": None}, {"a": [1, "x"]}),
        ({"a": ["{param}", {"b": "{param}"}]}, {"a": [None, {"b": None}]}, {"a": [None, {}]}),
        ({"a": "{count} {param}", "b": 7, "c": False}, *[{"a": "0 ", "b": 7, "c": False}] * 2),
        ({"{message}": "{{param}}", "a": "{max}"}, *[{"{message}": "{param}", "a": 1.5}] * 2),
        (["{code}", ("{count}",)], *[[True, [0]]] * 2),
    ],
)
def test_a_body_has_bare_values(template, body, without_null):
    """A text that is one placeholder becomes the value itself; null members may be left out; keys stay."""
    assert filled_body(template, DETAILS) == body
    assert filled_body(template, DETAILS, omit_null=True) == without_null


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{message} {{x}} {null}", None),
        ("{massage}", "massage"),
        ("{", "{"),
        ("a}", "}"),
        ("{{}", "}"),
        ("{Message}", "{"),
        ("{a b}", "{"),
    ],
)
def test_what_is_no_placeholder_is_found(template, problem):
    """A name that there is not and a brace that stands alone are problems of a template."""
    assert problem_of(template) == problem


def test_every_placeholder_is_known():
    """All placeholders of the language may stand in a text."""
    assert [problem_of(f"{{{name}}}") for name in PLACEHOLDERS] == [None] * len(PLACEHOLDERS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_a_value_is_shown_in_few_characters(value):
    """Texts are bounded, short values are whole, and what goes into a body is the value or a bounded text."""
    text = display(value)
    whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    assert text == (whole if len(whole) <= MAX_SHOWN else whole[:MAX_SHOWN] + "…")
    assert raw_value(value) == (value if len(whole) <= MAX_SHOWN else text)


def test_deep_and_long_values_are_shown_at_once():
    """Neither a thousand levels nor a million items are looked at for a text of two hundred characters."""
    deep = json.loads("[" * 900 + "]" * 900)
    assert display(deep) == "[" * MAX_SHOWN + "…"
    assert display([0] * 1_000_000).startswith("[0, 0")
