"""Where members stand in the bytes of an object."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.jsonbytes import members
from router.contract.jsonbytes.members import TooManyMembersError, find_members, start_of_next

SPACE = st.text(" \t\r\n", max_size=2)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6)
)
VALUES = st.recursive(
    SCALARS | st.sampled_from(['"', "\\", "]}", "[{", "\\\\", '\\"', "\u0000", "é", "\U0001f600"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(["a", "b", "model", 'q"', "back\\slash", "{", "é", "\U0001f600", ""]) | st.text(max_size=4)


@st.composite
def written_objects(draw):
    """Return an object's bytes and its members as (key, value as written), repetitions and odd spacing included."""
    written = []
    parts = []
    for key, value in draw(st.lists(st.tuples(KEYS, VALUES), max_size=6)):
        ascii_only = draw(st.booleans())
        name = json.dumps(key, ensure_ascii=ascii_only)
        text = json.dumps(value, ensure_ascii=ascii_only, indent=draw(st.sampled_from([None, 1])))
        written.append((key, text.encode()))
        parts.append(f"{draw(SPACE)}{name}{draw(SPACE)}:{draw(SPACE)}{text}{draw(SPACE)}")
    return f"{draw(SPACE)}{{{','.join(parts) or draw(SPACE)}}}{draw(SPACE)}".encode(), written


@pytest.fixture(params=["with msgspec's help", "without"])
def _help(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr(members, "_last_values", lambda _text: {})
        monkeypatch.setattr(members, "_all_values", lambda _text, _most: [])


@pytest.mark.usefixtures("_help")
class TestMembers:
    """What is found is the same whether or not msgspec helps to find it."""

    @given(written_objects())
    def test_every_member_is_found_where_it_stands(self, written_object):
        """Keys are unescaped, values are spans of their own bytes, order and repetitions are kept."""
        body, written = written_object
        found = find_members(body)
        assert [(member.key, member.raw(body)) for member in found] == written
        assert all(body.startswith(b'"', member.key_start) for member in found)

    @given(written_objects(), st.binary(max_size=5), st.binary(max_size=5))
    def test_an_object_is_found_inside_of_other_bytes(self, written_object, before, behind):
        """Members of an object amid other bytes are found at their places there."""
        body, written = written_object
        around = before + body + behind
        found = find_members(around, len(before), len(before) + len(body))
        assert [(member.key, member.raw(around)) for member in found] == written

    @given(written_objects(), st.integers(0, 7))
    def test_no_more_members_than_wanted_are_looked_at(self, written_object, most):
        """An object of more members than that raises, repetitions included."""
        body, written = written_object
        if len(written) <= most:
            assert len(find_members(body, most=most)) == len(written)
        else:
            with pytest.raises(TooManyMembersError):
                find_members(body, most=most)

    @pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6, 100, 999, 1000, 1023])
    @pytest.mark.parametrize("opening", ["[", '{"a":', '[1,{"b":[]},{"c":['])
    def test_depth_does_not_matter(self, depth, opening):
        """A container of any depth ends at its own bracket."""
        closing = "".join(
            {"[": "]", "{": "}"}[mark]
            for mark in reversed(opening.replace("[]", "").replace('{"b":}', ""))
            if mark in "[{"
        )
        body = f'{{"x":{opening * depth}1{closing * depth} ,"y":2}}'.encode()
        assert [(member.key, member.end) for member in find_members(body)] == [
            ("x", body.rindex(b" ,")),
            ("y", len(body) - 1),
        ]


@pytest.mark.parametrize("value", [b'["\\"a"]', b'{"a":{"b":[1]}}', b"[[[]]]", b'[{"":"]"}]'])
def test_values_of_repeated_keys_are_not_scanned(monkeypatch, value):
    """Where each value ends is msgspec's to say, also where a key stands there again: Python's scan takes ten times."""
    monkeypatch.setattr(members, "_end_of_container", lambda *_: pytest.fail("scanned"))
    body = b'{"a":' + value + b',"b":1,"\\u0061":' + value[:-1] + b" " + value[-1:] + b',"a":[2]}'
    assert [member.key for member in find_members(body)] == ["a", "b", "a", "a"]
    assert [json.loads(member.raw(body)) for member in find_members(body)] == [
        json.loads(value),
        1,
        json.loads(value),
        [2],
    ]


def test_what_engines_write_against_the_rules_is_scanned_all_the_same():
    """NaN, lone surrogates, huge integers and broken UTF-8 do not hide where members stand."""
    body = b'{"a":NaN,"b":-Infinity,"\\ud800":"\\udc00","c":"\xff","\xff":[],"d":' + b"9" * 5000 + b"}"
    found = find_members(body)
    assert [member.key for member in found] == ["a", "b", "\ud800", "c", "\ufffd", "d"]
    assert [member.raw(body)[:9] for member in found] == [
        b"NaN",
        b"-Infinity",
        b'"\\udc00"',
        b'"\xff"',
        b"[]",
        b"9" * 9,
    ]


@pytest.mark.parametrize(("body", "following"), [(b'{"a":1 , "b":2}', b'"b":2}'), (b'{"a":1\n}', b"}")])
def test_the_next_member_starts_behind_comma_and_space(body, following):
    """Behind a value come space, a comma, space and then the next member or the closing brace."""
    assert body[start_of_next(body, find_members(body)[0].end) :] == following
