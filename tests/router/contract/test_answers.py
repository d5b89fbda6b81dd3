"""Edits of answers: the model name that an alias asked for, and the `type` of a 400."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract import answers
from router.contract.answers import ModelRenamer, rename_model, retype_bad_request
from router.contract.members import find_members
from tests.router.contract.tables import CASES
from tests.router.contract.test_members import written_objects

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
    ('{"content":"\\ud83d","model":"served"}', '{"content":"\\ud83d","model":"alias"}'),
    ('{"seed":' + "9" * 5000 + ',"x":NaN,"model":"s"}', '{"seed":' + "9" * 5000 + ',"x":NaN,"model":"alias"}'),
]
NOT_RENAMED = [
    *("", "[DONE]", "null", "7", '"model"', "[]", "{}", '[{"model":"served"}]', "model", '{"model":"served"'),
    *(
        '{"model":null}',
        '{"model":7}',
        '{"model":["served"]}',
        '{"model":{"model":"served"}}',
        '{"model":"b","model":null}',
    ),
    *('{"Model":"served"}', '{"response":{"model":"served"}}', '{"model":"served"}{}', '\ufeff{"model":"served"}'),
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


@pytest.mark.parametrize("name", ["moonshotai/kimi", 'quo"te', "back\\slash", "é\U0001f600", "line\n", ""])
def test_any_name_can_be_written(name):
    """The name that the client used comes back as it was, whatever characters it has."""
    assert json.loads(rename_model(b'{"model":"served","a":1}', name)) == {"model": name, "a": 1}
    event = b'data: {"model":"served","a":1}\n\n'
    assert json.loads(_fed([event], name).removeprefix(b"data: ")) == {"model": name, "a": 1}


def test_half_a_character_does_not_stop_an_edit():
    """An engine that cuts a text inside of a character still gets its model renamed and its type replaced."""
    assert rename_model(b'{"a":"\xe2\x9c","model":"s"}', "alias") == b'{"a":"\xe2\x9c","model":"alias"}'
    assert retype_bad_request(b'{"error":{"message":"\xff"}}', "t") == b'{"error":{"message":"\xff","type":"t"}}'


@pytest.mark.parametrize("case", RETYPED, ids=lambda case: case["id"])
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
    assert _fed([b"data: ", body, b"\n\n"]) in {
        b"data: " + edited + b"\n\n" for edited in (body, body.replace(b'"s"', b'"alias"'))
    }


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


def _fed(pieces, name="alias"):
    renamer = ModelRenamer(name)
    return b"".join([*[renamer.feed(piece) for piece in pieces], renamer.flush()])


def _pairs_of_streams(ends):
    served = [
        *[
            (f"data: {before}{end}{end}", f"data: {after}{end}{end}")
            for before, after in RENAMED
            if "\n" not in before
            for end in ends
        ],
        *[(f"data:{body}{end}{end}",) * 2 for body in NOT_RENAMED for end in ends],
        *[(f': ping {{"model":"served"}}{end}',) * 2 for end in ends],
        *[(f"{end}",) * 2 for end in ends],
        *[(f"event: x{end}id: 1{end}data{end}{end}",) * 2 for end in ends],
        *[(f'event: {{"model":"served"}}{end}{end}',) * 2 for end in ends],
        *[
            (
                f'data: {{"model":{end}data:"served",{end}:c{end}data:  "a":1}}{end}{end}',
                f'data: {{"model":{end}data:"alias",{end}:c{end}data:  "a":1}}{end}{end}',
            )
            for end in ends
        ],
        *[
            (
                f'event: m{end}data: {{"model": "served"}}{end}retry: 1{end}{end}',
                f'event: m{end}data: {{"model": "alias"}}{end}retry: 1{end}{end}',
            )
            for end in ends
        ],
        *[(f'data: {{"model":"served"}}{end}data: {{"model":"served"}}{end}{end}',) * 2 for end in ends],
        *[(f' data: {{"model":"served"}}{end}DATA: {{"model":"served"}}{end}{end}',) * 2 for end in ends],
        *[
            (
                f'data: {{"model":"served","c":"[DONE] data: \\n\\n✅ \u2028\x85"}}{end}{end}',
                f'data: {{"model":"alias","c":"[DONE] data: \\n\\n✅ \u2028\x85"}}{end}{end}',
            )
            for end in ends
        ],
        *[(f"data: [DONE]{end}{end}",) * 2 for end in ends],
    ]
    return st.lists(st.sampled_from(served), max_size=5)


LAST = [
    ("", ""),
    ('data: {"model":"served"}', 'data: {"model":"alias"}'),
    ('data: {"model":"served"}\n', 'data: {"model":"alias"}\n'),
    ('data: {"model":"served"}\r', 'data: {"model":"alias"}\r'),
    ('data: {"model":"served"', 'data: {"model":"served"'),
    ('data: {"model":\ndata:', 'data: {"model":\ndata:'),
    ("data: [DO", "data: [DO"),
    (": pi", ": pi"),
    ("dat", "dat"),
]


@given(_pairs_of_streams(["\n", "\r\n", "\r"]), st.sampled_from(LAST), st.data())
def test_a_stream_is_edited_the_same_however_it_is_cut(events, last, data):
    """Cut at any places, a stream leaves with its models renamed and every other byte as it came."""
    stream = "".join([came for came, _ in [*events, last]]).encode()
    expected = "".join([left for _, left in [*events, last]]).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert _fed(pieces) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_stream_cut_at_every_byte_is_edited(end):
    """Byte by byte, and cut in two at every place, a stream of all kinds of lines leaves edited alike."""
    lines = [
        ": ping",
        "",
        "event: m",
        'data: {"mod',
        "",
        'data: {"model": "served",',
        'data: "c":"✅"}',
        "",
        "data: [DONE]",
        "",
    ]
    stream = end.join([*lines, ""]).encode()
    expected = stream.replace(b'"served"', b'"alias"')
    assert _fed([stream[at : at + 1] for at in range(len(stream))]) == expected
    assert {_fed([stream[:at], stream[at:]]) for at in range(len(stream) + 1)} == {expected}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_event_leaves_when_it_is_complete(end):
    """Not before its blank line, and no later."""
    renamer = ModelRenamer("alias")
    assert renamer.feed(b'data: {"model":"served"}' + end) == b""
    assert renamer.feed(end + b"data: [DONE]") == b'data: {"model":"alias"}' + end * 2
    assert renamer.feed(end + end) == b"data: [DONE]" + end * 2
    assert renamer.flush() == b""


@pytest.mark.parametrize("ping", [b"\n", b": ping\n", b": ping\n\n", b"\r\n", b":\r\n\r\n"])
def test_comments_and_blank_lines_leave_at_once(ping):
    """A sign of life between events is not held back."""
    renamer = ModelRenamer("alias")
    assert renamer.feed(ping) == ping
    assert renamer.feed(b"data: 1\n\n" + ping) == b"data: 1\n\n" + ping


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_too_long_to_hold_passes(monkeypatch, size, end):
    """An oversize event leaves as it came, at once what cannot be held; events around it are edited all the same."""
    monkeypatch.setattr(answers, "MAX_EVENT_BYTES", 100)
    event = b'data: {"model":"served"}' + end * 2
    at_limit = event[: -2 * len(end)].ljust(100 - 2 * len(end)) + end * 2
    long = b'data: {"model":"served","c":"' + b"x" * 300 + b'"}' + end * 2
    stream = event + long + event + at_limit + at_limit.replace(b'"s', b' "s') + long + long + event
    renamed = b'"alias"'
    expected = b"".join(
        [
            *[event.replace(b'"served"', renamed), long, event.replace(b'"served"', renamed)],
            *[at_limit.replace(b'"served"', renamed), at_limit.replace(b'"s', b' "s'), long, long],
            event.replace(b'"served"', renamed),
        ]
    )
    assert _fed([stream[at : at + size] for at in range(0, len(stream), size)]) == expected
    renamer = ModelRenamer("alias")
    assert renamer.feed(b"data: " + b"x" * 200)[:100] == b"data: " + b"x" * 94


def test_millions_of_tiny_pieces_are_no_burden():
    """A large event that comes byte by byte is not copied anew for each byte."""
    renamer = ModelRenamer("alias")
    event = b'data: {"c":"' + b"x" * 300_000 + b'","model":"served"}\n\n'
    left = b"".join(renamer.feed(event[at : at + 1]) for at in range(len(event)))
    assert left == event.replace(b"served", b"alias")
