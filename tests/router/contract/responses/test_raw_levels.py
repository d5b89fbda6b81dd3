"""Edits of JSON objects as raw members, level by level."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.responses.raw_levels import MAX_MEMBERS, Level, NotCompactError, edit_object, raw_members
from tests.router.contract.jsonbytes.test_members import written_objects

FRAME = (
    b'{"id":"1","n":1e2,"big":12345678901234567890123,"choices":[{"index":0,"delta":{"content":"\\u00e9\xc3\xa9"}},'
    b'{"index":1,"delta":{"content":""}},null],"usage":null}'
)


def _put(name, value):
    def put(members):
        members[name] = msgspec.Raw(value)
        return True

    return put


def _untouched(_members):
    return False


def test_levels_are_edited_and_all_other_values_keep_their_bytes():
    """Objects in members and in arrays are edited, inner levels first; values that no edit is about stay as written."""
    delta = Level(_put("role", b'"a"'))
    choice = Level(_put("usage", b"1.0"), objects={"delta": delta, "logprobs": delta})
    edited = edit_object(FRAME, Level(_put("id", b'"2"'), arrays={"choices": choice, "missing": choice}))
    assert edited == (
        b'{"id":"2","n":1e2,"big":12345678901234567890123,"choices":[{"index":0,"delta":{"content":"\\u00e9\xc3\xa9",'
        b'"role":"a"},"usage":1.0},{"index":1,"delta":{"content":"","role":"a"},"usage":1.0},null],"usage":null}'
    )
    first = Level(arrays={"choices": Level(_put("usage", b"{}"), first_item_only=True)})
    assert edit_object(FRAME, first) == FRAME.replace(b'"}},{', b'"},"usage":{}},{')
    for same in (Level(), Level(_untouched), Level(objects={"id": first, "usage": first}, arrays={"usage": choice})):
        assert edit_object(FRAME, same) is FRAME


@pytest.mark.parametrize(
    "body",
    [
        *(b'{"a": 1}', b'{"a":1 }', b' {"a":1}', b'{"a":1}\n', b'{"a":1,"a":2}', b'{"\\u0061":1}', b'{"\\/":1}'),
        *(b"[]", b"1", b"", b'{"a":1', b'{"a":NaN}', b'{"\xff":1}', b"[" * 5000, b'{"a":[1, {}]}'),
        b"{" + b",".join(b'"%d":1' % number for number in range(MAX_MEMBERS + 1)) + b"}",
    ],
)
def test_what_would_change_more_than_the_edit_is_not_edited(body):
    """Spaces, repeated keys, unusual escapes, invalid JSON and too many members are left to the splices."""
    with pytest.raises(NotCompactError):
        edit_object(body, Level(_put("a", b"0"), arrays={"a": Level(_untouched)}))


@given(written_objects(), st.text(max_size=3))
def test_an_edit_changes_one_member_alone(written_object, name):
    """Written compactly, any object keeps the bytes of all members but the edited one, and their order."""
    _, written = written_object
    members = {
        key: b"".join(json.dumps(json.loads(value), separators=(",", ":")).encode().split(b"\n"))
        for key, value in written
    }
    body = (
        b"{"
        + b",".join(json.dumps(key, ensure_ascii=False).encode() + b":" + value for key, value in members.items())
        + b"}"
    )
    try:
        assert {key: bytes(value) for key, value in raw_members(body).items()} == members
    except NotCompactError:
        return  # an escape that msgspec writes otherwise
    edited = edit_object(body, Level(_put(name, b"[1]")))
    assert {key: bytes(value) for key, value in raw_members(edited).items()} == {**members, name: b"[1]"}
