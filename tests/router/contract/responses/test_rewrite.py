"""Edits of answers: the model name that an alias asked for, and the `type` of a 400."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.jsonbytes.members import find_members
from router.contract.jsonbytes.parsing import MAX_VALUES
from router.contract.responses import rewrite
from router.contract.responses.raw_levels import MAX_MEMBERS
from router.contract.responses.rewrite import rename_model, retype_bad_request
from tests.batches import batched
from tests.router.contract.jsonbytes.test_members import written_objects
from tests.router.contract.tables import CASES

RETYPED = [json.loads(line) for line in (CASES / "retyped.jsonl").read_text(encoding="utf-8").splitlines()]

RENAMED = [
    ('{"id":"1","model":"served","choices":[]}', '{"id":"1","model":"alias","choices":[]}'),
    (' { "model" : "s\\u0065rved" , "x":1e2,"y":-0 } \n', ' { "model" : "alias" , "x":1e2,"y":-0 } \n'),
    ('{"m\\u006fdel":"served"}', '{"m\\u006fdel":"alias"}'),
    ('{"model":""}', '{"model":"alias"}'),
    ('{"model":"a","model":"b"}', '{"model":"alias","model":"alias"}'),
    ('{"model":null,"model":"b"}', '{"model":null,"model":"alias"}'),
    ('{"a":{"model":"served"},"model":"served"}', '{"a":{"model":"served"},"model":"alias"}'),
    ('{"model":"served","logprob":-Infinity,"x":NaN}', '{"model":"alias","logprob":-Infinity,"x":NaN}'),
    ('{"t":"a\\"model","model":"served"}', '{"t":"a\\"model","model":"alias"}'),
    ('{"object":"model","model":"served"}', '{"object":"model","model":"alias"}'),
    ('{"a":{"model":"x"},"m\\u006Fdel":"served"}', '{"a":{"model":"x"},"m\\u006Fdel":"alias"}'),
    ('{"a":[{"model" :1}],"model"\t:\t"served"}', '{"a":[{"model" :1}],"model"\t:\t"alias"}'),
    ('{"content":"\\ud83d","model":"served"}', '{"content":"\\ud83d","model":"alias"}'),
    ('{"seed":' + "9" * 5000 + ',"x":NaN,"model":"s"}', '{"seed":' + "9" * 5000 + ',"x":NaN,"model":"alias"}'),
]
NOT_RENAMED = [
    *("", "[DONE]", "null", "7", '"model"', "[]", "{}", '[{"model":"served"}]', "model", '{"model":"served"'),
    *(
        '{"model":null}',
        '{"model":7}',
        '{"model":7,"x":NaN}',
        '{"model":' + "9" * 5000 + ',"x":-Infinity}',
        '{"model":["served"]}',
        '{"model":{"model":"served"}}',
        '{"model":"b","model":null}',
    ),
    *('{"Model":"served"}', '{"response":{"model":"served"}}', '{"model":"served"}{}'),
    '{"error":{"message":"m","model":"served"}}',
]


@pytest.mark.parametrize(("body", "renamed"), RENAMED)
def test_the_model_of_an_answer_is_renamed(body, renamed):
    """The top-level model string alone is replaced, every other byte stays."""
    assert rename_model(body.encode(), "alias") == renamed.encode()


@pytest.mark.parametrize("body", NOT_RENAMED)
def test_what_has_no_top_level_model_string_stays(body):
    """Whatever is no JSON object with a model string passes as the same object."""
    encoded = body.encode()
    assert rename_model(encoded, "alias") is encoded


def test_an_answer_behind_a_byte_order_mark_is_edited():
    """The mark stays, and what stands behind it is edited as without it; what needs no edit is the same object."""
    mark = "\ufeff".encode()
    assert rename_model(mark + b'{"model":"served"}', "alias") == mark + b'{"model":"alias"}'
    for same in (mark, mark + b"{}", mark * 2 + b'{"model":"served"}'):
        assert rename_model(same, "alias") is same


@pytest.mark.parametrize("name", ["moonshotai/kimi", 'quo"te', "back\\slash", "é\U0001f600", "line\n", ""])
def test_any_name_can_be_written(name):
    """The name that the client used comes back as it was, whatever characters it has."""
    assert json.loads(rename_model(b'{"model":"served","a":1}', name)) == {"model": name, "a": 1}


def test_half_a_character_does_not_stop_an_edit():
    """An engine that cuts a text inside of a character still gets its model renamed and its type replaced."""
    assert rename_model(b'{"a":"\xe2\x9c","model":"s"}', "alias") == b'{"a":"\xe2\x9c","model":"alias"}'
    assert retype_bad_request(b'{"error":{"message":"\xff"}}', "t") == b'{"error":{"message":"\xff","type":"t"}}'


@batched("case", RETYPED, ids=lambda case: case["id"])
def test_the_type_of_a_400_is_replaced(case):
    """Nested and flat error objects get the contract's type, anything else passes as the same object."""
    body = case["body"].encode()
    retyped = retype_bad_request(body, "vendor")
    if case["retyped"] is None:
        assert retyped is body
    else:
        assert retyped == case["retyped"].encode()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize(
    "text", ['{"error":{"message":"é","type":"a"}}', '{"object":"error","message":"é","type":"a"}']
)
def test_other_encodings_do_not_crash_an_edit(encoding, text):
    """A body that is not UTF-8 is passed or edited, never an exception."""
    body = text.encode(encoding)
    assert retype_bad_request(body, "vendor") in {body, body.replace(b'"a"', b'"vendor"')}
    assert rename_model(body, "alias") == body


@pytest.mark.parametrize("depth", [900, 1100, 100_000])
def test_deep_answers_pass(depth):
    """An answer nested too deep to be read passes, one that can be read is edited."""
    deep = b"[" * depth + b"]" * depth
    body = b'{"error":{"type":"a","x":' + deep + b'},"model":"s"}'
    assert retype_bad_request(body, "vendor") in {body, body.replace(b'"a"', b'"vendor"')}
    assert rename_model(body, "alias") in {body, body.replace(b'"s"', b'"alias"')}


@given(written_objects(), st.sampled_from(["nested", "flat"]), st.text(max_size=5))
def test_only_the_bytes_of_the_type_change(written_object, shape, new_type):
    """Whatever stands in an error object, all members but `type` keep their bytes, and `type` says the new one."""
    inner, _ = written_object
    separator = b"," if find_members(inner) else b""
    brace = inner.index(b"{") + 1
    if shape == "nested":
        body = b'{"a":1, "error":' + inner + b' ,"b":-0}'
        start, end = len(b'{"a":1, "error":'), len(b'{"a":1, "error":') + len(inner)
    else:
        body = inner[:brace] + b'"object":"error","message":"m"' + separator + inner[brace:]
        start, end = 0, len(body)
    retyped = retype_bad_request(body, new_type)
    grown = len(retyped) - len(body)
    before = [(member.key, member.raw(body)) for member in find_members(body, start, end)]
    after = [(member.key, member.raw(retyped)) for member in find_members(retyped, start, end + grown)]
    assert (retyped[:start], retyped[end + grown :]) == (body[:start], body[end:])
    assert [member for member in after if member[0] != "type"] == [member for member in before if member[0] != "type"]
    assert {json.loads(value) for key, value in after if key == "type"} == {new_type}


@pytest.mark.parametrize("key", ["k%d", "model"])
@pytest.mark.parametrize("edit", [rename_model, retype_bad_request])
def test_an_object_of_very_many_members_stays_as_it_is(edit, key):
    """What no engine writes is not looked through for long: up to the bound it is edited, beyond it nothing is."""
    for count, is_edited in ((MAX_MEMBERS - 3, True), (MAX_MEMBERS + 1, False)):
        more = ",".join(f'"{key.replace("%d", str(place))}":[]' for place in range(count))
        body = f'{{{more},"object":"error","message":"m","m\\u006fdel":"served"}}'.encode()
        assert (edit(body, "new") is not body) == is_edited


@pytest.mark.parametrize("edit", [rename_model, retype_bad_request])
def test_an_answer_of_very_many_values_costs_no_memory_for_each(edit, monkeypatch):
    """Values that no edit is about are not made: a name is found among them, an error of so many is none."""
    monkeypatch.setattr(rewrite.orjson, "loads", lambda _: pytest.fail("all of it was read"))
    body = b'{"error":{"type":"x"},"x":[' + b"{}," * MAX_VALUES + b'{}],"model":"served"}'
    assert (edit(body, "new") is not body) == (edit is rename_model)
