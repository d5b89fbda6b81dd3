"""Edits of streams: the model name that an alias asked for, and the usage brought to the end frame."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.contract.responses import rewrite, stream_rewrite
from router.contract.responses.raw_levels import MAX_MEMBERS, NotCompactError
from router.contract.responses.stream_rewrite import StreamRewriter
from tests.batches import batched
from tests.router.contract.responses.test_rewrite import NOT_RENAMED, RENAMED
from tests.router.contract.tables import CASES

USAGE = [json.loads(line) for line in (CASES / "usage.jsonl").read_text(encoding="utf-8").splitlines()]
WHOLE = [case for case in USAGE if case["came"][-1].endswith(("}\n\n", "]\n\n"))]
SIMPLE = [event for case in USAGE for event in case["came"] if event.startswith("data") and event.count("\n") == 2]

END_FRAME = b'data: {"choices":[{"finish_reason":"stop"}]}\n\n'
WITH_USAGE = b'data: {"choices":[{"finish_reason":"stop","usage":{}}]}\n\n'
TAIL_FRAME = b'data: {"choices":[],"usage":{}}\n\n'
CONTENT = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n'
DONE = b"data: [DONE]\n\n"


def _edited(case, usage, end):
    """Return the stream of a case as it comes and as it leaves, with that line end."""
    came = case["came"]
    moved = case.get("moved", came)
    left = {"move": moved, "copy": case.get("copied", moved)}[usage]
    return tuple("".join(events).replace("\n", end).encode() for events in (came, left))


def _cut(stream, cuts):
    return [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def _fed(pieces, name="alias", usage=None):
    editor = StreamRewriter(name, usage)
    return b"".join([*[editor.feed(piece) for piece in pieces], editor.flush()])


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
    assert _fed(_cut(stream, cuts)) == expected


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
    editor = StreamRewriter("alias", None)
    assert editor.feed(b'data: {"model":"served"}' + end) == b""
    assert editor.feed(end + b"data: [DONE]") == b'data: {"model":"alias"}' + end * 2
    assert editor.feed(end + end) == b"data: [DONE]" + end * 2
    assert editor.flush() == b""


@pytest.mark.parametrize("ping", [b"\n", b": ping\n", b": ping\n\n", b"\r\n", b":\r\n\r\n"])
def test_comments_and_blank_lines_leave_at_once(ping):
    """A sign of life between events is not held back."""
    editor = StreamRewriter("alias", None)
    assert editor.feed(ping) == ping
    assert editor.feed(b"data: 1\n\n" + ping) == b"data: 1\n\n" + ping


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_too_long_to_hold_passes(monkeypatch, size, end):
    """An oversize event leaves as it came, at once what cannot be held; events around it are edited all the same."""
    monkeypatch.setattr("router.contract.responses.sse.MAX_EVENT_BYTES", 100)
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
    editor = StreamRewriter("alias", None)
    assert editor.feed(b"data: " + b"x" * 200)[:100] == b"data: " + b"x" * 94


HELD = [
    ('{"message":{"id":"1","model":"served","usage":{"model":"served"}}}', '{"id":"1","model":"alias","usage":'),
    ('{"model":"served","message":{"a":[],"m\\u006fdel" : "served"}}', '"m\\u006fdel" : "alias"}}'),
    ('{"message":{"model":"a"},"message":{"model":"b","model":"c"}}', '{"model":"alias","model":"alias"}}'),
    *(
        (same, None)
        for same in ('{"message":{"model":7}}', '{"message":"model","model":"served"}', '{"model":"served"}')
    ),
    *((same, None) for same in ('{"message":{"model":"a"},"message":null}', '{"other":{"model":"served"}}', '"model"')),
]


@pytest.mark.parametrize(("data", "renamed"), HELD)
def test_a_model_that_a_member_holds_is_renamed(data, renamed):
    """Messages and Responses name the model in an object of the event: there alone it is renamed."""
    came = f"event: x\ndata: {data}\n\n".encode()
    editor = StreamRewriter("alias", None, "message")
    left = editor.feed(came) + editor.flush()
    assert left.replace(b'"alias"', b'"served"') == came.replace(b'"b","model":"c"', b'"served","model":"served"')
    assert renamed.encode() in left if renamed else left == came


def test_a_byte_order_mark_hides_nothing_of_the_first_event():
    """A mark at the stream's start leaves as it came, however the stream is cut, and the first event is edited."""
    mark = "\ufeff".encode()
    came = mark + b'data: {"model":"served"}\n\n' + mark + b'data: {"model":"served"}\n\n'
    left = came.replace(b"served", b"alias", 1)
    assert {_fed(_cut(came, [at])) for at in range(len(came) + 1)} == {left}
    assert _fed(_cut(came, range(1, len(came)))) == left
    assert _fed([mark + END_FRAME, TAIL_FRAME], None, "move") == mark + WITH_USAGE
    for unmarked in (b"\xef", mark[:2] + b"\n\n", b"\n" + came):
        assert _fed(_cut(unmarked, range(1, len(unmarked)))) == unmarked


def test_millions_of_tiny_pieces_are_no_burden():
    """A large event that comes byte by byte is not copied anew for each byte."""
    editor = StreamRewriter("alias", None)
    event = b'data: {"c":"' + b"x" * 300_000 + b'","model":"served"}\n\n'
    left = b"".join(editor.feed(event[at : at + 1]) for at in range(len(event)))
    assert left == event.replace(b"served", b"alias")


@pytest.mark.parametrize("name", ["moonshotai/kimi", 'quo"te', "back\\slash", "é\U0001f600", "line\n", ""])
def test_any_name_can_be_written(name):
    """The name that the client used comes back as it was, whatever characters it has."""
    event = b'data: {"model":"served","a":1}\n\n'
    assert json.loads(_fed([event], name).removeprefix(b"data: ")) == {"model": name, "a": 1}


@pytest.mark.parametrize("depth", [900, 1100, 100_000])
def test_deep_events_pass(depth):
    """An event nested too deep to be read passes, one that can be read is edited."""
    end_frame = b'data: {"x":%b,"model":"s","choices":[{"finish_reason":"stop"}]}\n\n' % (b"[" * depth + b"]" * depth)
    tail_frame = b'data: {"choices":[],"usage":{}}\n\n'
    edited = end_frame.replace(b'"s"', b'"alias"').replace(b'"stop"', b'"stop","usage":{}')
    assert _fed([end_frame, tail_frame], "alias", "move") in {end_frame + tail_frame, edited}


class TestUsage:
    """The cases of usage, in streams that come whole or in pieces."""

    @batched("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
    @batched("usage", ["move", "copy"])
    @batched("case", USAGE, ids=lambda case: case["id"])
    def test_the_usage_is_brought_to_the_end_frame(self, case, usage, end):
        """The end frame gets the usage, the tail frame stays or goes, and every other byte is as it came."""
        came, left = _edited(case, usage, end)
        assert _fed([came], None, usage) == left

    @batched("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
    @batched("usage", ["move", "copy"])
    @batched("case", USAGE, ids=lambda case: case["id"])
    def test_every_cut_makes_the_same_stream(self, case, usage, end):
        """Event by event, byte by byte, and cut in two at every place, what leaves is the same."""
        came, left = _edited(case, usage, end)
        events = [event.replace("\n", end).encode() for event in case["came"]]
        assert _fed(events, None, usage) == left
        assert _fed(_cut(came, range(1, len(came))), None, usage) == left
        assert {_fed(_cut(came, [at]), None, usage) for at in range(len(came) + 1)} == {left}

    @batched("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
    @batched("usage", ["move", "copy"])
    @batched("case", USAGE, ids=lambda case: case["id"])
    def test_the_model_is_renamed_on_the_way(self, case, usage, end):
        """An event is renamed whether or not it is held and gets usage, and the same as without."""
        came, left = (stream.replace(b'"choices"', b'"model":"s","choices"') for stream in _edited(case, usage, end))
        renamed = _fed([came], "alias")
        assert _fed([left], "alias") == _fed([came], "alias", usage) == _fed([renamed], None, usage)


@given(st.lists(st.sampled_from(WHOLE), max_size=4), st.sampled_from(["move", "copy"]), st.data())
def test_the_usage_finds_its_place_however_the_stream_is_cut(cases, usage, data):
    """Any answers one behind the other, cut at any places, leave as each of them does that comes whole."""
    pairs = [_edited(case, usage, "\n") for case in cases]
    came, left = (b"".join(pair[side] + DONE for pair in pairs) for side in (0, 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(came)), max_size=8)))
    assert _fed(_cut(came, cuts), None, usage) == left


PAYLOADS = [
    '{"model":"s","choices":[{"index":0,"delta":{"content":"é\\n"},"finish_reason":null}]}',
    '{"model":"s","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    '{"model":"s","choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"total":7}}',
    '{"model":"s","choices":[],"usage":{"total":12345678901234567890123}}',
    '{"model":"s","choices":[], "usage" : {"a": 1.0}}',
    '{"model": "s", "choices": [{"finish_reason": "stop"}]}',
    *('{"model":"a","model":"s"}', '{"m\\u006fdel":"s"}', '{"model":7}', '{"model":NaN}', '{"x":NaN,"model":"s"}'),
    *('{"message":{"model":"s","usage":{"model":"x"}}}', '{"message":{"model":"s"},"message":null}', '{"message":[]}'),
    *("[DONE]", "[]", "", '{"error":{"message":"m"}}', '{"a":{"model":"s"}}', '{"model":"s"', '{"model":"\\ud800"}'),
]
FORMS = [
    "data: %s\n\n",
    "event: x\ndata: %s\n\n",
    "data:%s\n\n",
    "data: %s\r\n\r\n",
    "id: 1\ndata: %s\n\n",
    "data: %s\nid: 1\n\n",
]


def _always_general(patch):
    """Let all events be edited by splices, as if no event were plain."""

    def raise_not_compact(*_):
        raise NotCompactError

    patch.setattr(stream_rewrite, "plain_events", lambda _: None)
    patch.setattr(rewrite, "edit_object", raise_not_compact)


@st.composite
def pieces_of_streams(draw):
    """Return a stream of any events, which ends anywhere, in pieces: whole events most of the time."""
    events = draw(st.lists(st.tuples(st.sampled_from(FORMS), st.sampled_from(PAYLOADS)), max_size=8))
    parts = [(form % payload).encode() for form, payload in events]
    parts = [draw(st.sampled_from([b"", b"", b"", "\ufeff".encode(), b": c\n", b"\n", b"\r"])) + part for part in parts]
    stream = b"".join(parts)[: draw(st.none() | st.integers(0, 400))]
    ends = [sum(map(len, parts[: count + 1])) for count in range(len(parts))]
    cuts = draw(st.lists(st.sampled_from([*ends, 0]) | st.integers(0, len(stream)), max_size=10))
    return _cut(stream, sorted(min(cut, len(stream)) for cut in cuts))


def _check_both_ways(pieces, name, usage, holder):
    def edited():
        editor = StreamRewriter(name, usage, holder)
        return [*map(editor.feed, pieces), editor.held_bytes(), editor.flush()]

    fast = edited()
    with pytest.MonkeyPatch.context() as patch:
        _always_general(patch)
        assert edited() == fast


EDITS = (pieces_of_streams(), st.sampled_from([None, "alias"]), st.sampled_from([None, "move", "copy"]))
HOLDERS = st.sampled_from([None, "message"])


@given(*EDITS, HOLDERS)
def test_plain_events_are_edited_as_all_others(pieces, name, usage, holder):
    """Whatever leaves after each piece is the same whether plain events are edited by members or by splices."""
    _check_both_ways(pieces, name, usage, holder)


@pytest.mark.exhaustive
@settings(max_examples=5_000)
@given(*EDITS, HOLDERS)
def test_plain_events_are_edited_as_all_others_in_many_streams(pieces, name, usage, holder):
    """The same for thousands of streams."""
    _check_both_ways(pieces, name, usage, holder)


@given(
    st.lists(st.sampled_from([*SIMPLE, "\n", "\r", "\r\n", ": c\n", ": d\r", "x", "data: x"]), max_size=12),
    st.sampled_from([None, "alias"]),
    st.data(),
)
def test_nothing_is_lost(events, name, data):
    """Lines of any kind leave in their order, save comments; usage alone is added, tail frames alone are dropped."""
    came = "".join(events).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(came)), max_size=8)))
    copied, moved = (_fed([came], name, usage) for usage in ("copy", "move"))
    assert [_fed(_cut(came, cuts), name, usage) for usage in ("copy", "move")] == [copied, moved]
    lines, comments = _lines(_fed([came], name) if name else came)
    assert _lines(copied) == (lines, comments)
    left, left_comments = _lines(moved)
    assert left_comments == comments
    for line in lines:
        if left and line == left[0]:
            del left[0]
        else:
            assert re.search("""['"]usage['"] ?: ?{""", line)
    assert left == []


def _lines(stream):
    """Return the lines, without the usage of first choices, and the comments among them apart."""
    lines = [line for line in re.split(rb"[\r\n]+", stream) if line]
    comments = [line for line in lines if line.startswith(b":")]
    return [_without_usage(line) for line in lines if not line.startswith(b":")], sorted(comments)


def _without_usage(line):
    try:
        frame = json.loads(line.removeprefix(b"data:"))
        frame["choices"][0].pop("usage", None)
    except (ValueError, LookupError, TypeError, AttributeError):
        return line.decode()
    return repr(frame)


@pytest.mark.parametrize("name", [None, "alias"])
def test_only_the_end_frame_waits(name):
    """Content leaves at once, the end frame with the event that decides, a comment before it, all else behind it."""
    editor = StreamRewriter(name, "move")
    assert editor.feed(CONTENT) == CONTENT
    assert editor.feed(CONTENT + END_FRAME) == CONTENT
    assert editor.feed(b": keep-alive\n\n") == b": keep-alive\n\n"
    assert editor.feed(b":\n") == b":\n"
    assert editor.feed(TAIL_FRAME[:-1]) == b""
    assert editor.feed(TAIL_FRAME[-1:]) == WITH_USAGE
    assert editor.feed(DONE) == DONE
    assert editor.feed(END_FRAME) == b""
    assert editor.feed(CONTENT) == END_FRAME + CONTENT
    assert editor.flush() == b""


def test_of_a_stream_that_breaks_off_whole_events_leave():
    """What is held can be taken without the beginning of an event behind it, of which nothing can be made."""
    editor = StreamRewriter(None, "move")
    assert editor.feed(CONTENT + END_FRAME + b"event: x\n\n" + TAIL_FRAME[:9]) == CONTENT
    assert editor.release() == END_FRAME + b"event: x\n\n"
    assert editor.release() == b""
    editor = StreamRewriter(None, "move")
    assert editor.feed(TAIL_FRAME.replace(b"[]", b'[{"finish_reason":"stop"}]')) == b""
    assert editor.release() == TAIL_FRAME.replace(b"[]", b'[{"finish_reason":"stop","usage":{}}]')
    assert StreamRewriter("alias", None).release() == b""


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_an_event_too_long_to_hold_lets_the_end_frame_go(monkeypatch, size):
    """Behind a long event the end frame is out, so that the tail frame stays; a long end frame passes as it came."""
    monkeypatch.setattr("router.contract.responses.sse.MAX_EVENT_BYTES", 100)
    long = CONTENT[:-4] + b" " * 100 + CONTENT[-4:]
    long_end = END_FRAME[:-4] + b" " * 100 + END_FRAME[-4:]
    stream = END_FRAME + long + TAIL_FRAME + long_end + TAIL_FRAME + END_FRAME + TAIL_FRAME
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert _fed(pieces, None, "move") == stream.removesuffix(END_FRAME + TAIL_FRAME) + WITH_USAGE


def test_no_more_is_held_than_the_bound(monkeypatch):
    """Events without end behind an end frame are not held for ever, and none of them is lost."""
    monkeypatch.setattr("router.contract.responses.stream_rewrite.MAX_EVENT_BYTES", 100)
    other = b'data: {"choices":[]}\n\n'
    editor = StreamRewriter(None, "move")
    assert [editor.feed(event) for event in [END_FRAME, other, other]] == [b"", b"", b""]
    assert editor.feed(other) == END_FRAME + other * 3
    assert editor.feed(TAIL_FRAME) == TAIL_FRAME
    assert editor.feed(END_FRAME + TAIL_FRAME) == WITH_USAGE


@pytest.mark.parametrize("told", ["tail", "end frame", "choice"])
def test_usage_in_an_object_of_very_many_members_stays_where_it_is(told):
    """What no engine writes is not looked through for long: its frames leave as they came."""
    more = ",".join(f'"k{place}":1' for place in range(MAX_MEMBERS)).encode()
    end_frame, tail_frame = {
        "tail": (END_FRAME, TAIL_FRAME.replace(b"{}", b"{}," + more)),
        "end frame": (END_FRAME.replace(b"]}", b"]," + more + b"}"), TAIL_FRAME),
        "choice": (END_FRAME.replace(b'"stop"', b'"stop",' + more), TAIL_FRAME),
    }[told]
    editor = StreamRewriter(None, "copy")
    assert editor.feed(end_frame) + editor.feed(tail_frame) == end_frame + tail_frame
