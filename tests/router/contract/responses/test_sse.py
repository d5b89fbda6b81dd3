"""Events in the bytes of a stream, and their data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.responses import sse
from router.contract.responses.sse import MAX_EVENT_BYTES, EventData, Splice, SseEventBuffer, SseParser

ENDS = ["\n", "\r\n", "\r"]
LINES = st.sampled_from([": c", "", "event: e", "data: a", "data:b", "data", "id: 1", " data: x", "x: data: y"])
VALUES = st.sampled_from([b"", b"v", b'"value"'])


def _parts(pieces):
    splitter = SseParser()
    parts = [part for piece in pieces for part in splitter.feed(piece)]
    left = splitter.flush()
    return parts if left is None else [*parts, left]


def _joined(parts):
    """Return the parts with comments that follow each other as one: a cut may part them."""
    joined = []
    for part in parts:
        if joined and part.kind == joined[-1][0] == "comments":
            joined[-1] = (part.kind, joined[-1][1] + part.data)
        else:
            joined.append(tuple(part))
    return joined


@given(st.lists(st.tuples(LINES, st.sampled_from(ENDS)), max_size=12), st.data())
def test_the_parts_of_a_stream_are_the_same_however_it_is_cut(lines, data):
    """Parts are never empty, are together the stream, and do not depend on the pieces that it came in."""
    stream = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    parts = _parts(pieces)
    assert b"".join(part.data for part in parts) == stream
    assert all(part.data for part in parts)
    assert _joined(parts) == _joined(_parts([stream]))


@pytest.mark.parametrize("end", ENDS, ids=["LF", "CRLF", "CR"])
def test_events_end_with_a_blank_line_and_comments_stand_between(end):
    """A blank line ends an event; comments and blank lines before one are apart, comments inside belong to it."""
    events = [": c{e}{e}", "data: 1{e}: in{e}data: 2{e}{e}", "{e}: d{e}", "event: x{e}{e}", "data: last"]
    events = [event.replace("{e}", end).encode() for event in events]
    kinds = ["comments", "event", "comments", "event", "event"]
    assert _joined(_parts([b"".join(events)])) == list(zip(kinds, events, strict=True))


def test_a_splitter_tells_whether_it_is_between_events():
    """Before, within and behind an event, and while a line end may be half."""
    splitter = SseParser()
    seen = [splitter.is_at_start()]
    for piece in [b"data: 1", b"\n\n", b": c\n", b": c", b"\n", b"x\r\r", b"\n", b"y\r\r", b"z\n\n"]:
        splitter.feed(piece)
        seen.append(splitter.is_at_start())
    assert seen == [True, False, True, True, False, True, False, True, False, True]


@given(st.lists(st.tuples(LINES, st.sampled_from(ENDS)), max_size=12), st.data())
def test_events_leave_whole_and_all_of_them(lines, data):
    """However a stream is cut into pieces, what has left ends between events, and at the end nothing is missing."""
    stream = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    events, seen = SseEventBuffer(), SseParser()
    left = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        left.append(events.feed(stream[start:end]))
        seen.feed(left[-1])
        # What may be the first half of a line end has left as a whole one.
        assert seen.is_at_start() or b"".join(left).endswith(b"\r")
    assert b"".join(left) + events.flush() == stream


@pytest.mark.parametrize("piece", [b"data: 1\n\n", b"data: 1\r\n\r\n", b": c\n\n", b"data: 1\n\ndata: 2\n\n"])
def test_whole_events_pass_as_they_are(piece):
    """A piece of whole events behind whole events is the same object."""
    events = SseEventBuffer()
    assert events.feed(piece) is piece
    assert events.feed(b"data: 0\n") == b""
    assert events.feed(b"\n") == b"data: 0\n\n"
    assert events.feed(piece) is piece


def test_comments_within_an_event_wait_and_between_events_do_not():
    """What keeps a connection alive leaves at once, where no event has begun."""
    events = SseEventBuffer()
    assert [events.feed(piece) for piece in (b": c\n", b"data: 1\n", b": c\n", b"\n", b":\n")] == [
        b": c\n",
        b"",
        b"",
        b"data: 1\n: c\n\n",
        b":\n",
    ]


def test_an_event_without_end_is_not_held_for_ever():
    """An event longer than the bound leaves as it comes."""
    events = SseEventBuffer()
    assert events.feed(bytes(MAX_EVENT_BYTES)) == b""
    assert len(events.feed(b"x")) > MAX_EVENT_BYTES - 4


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        (b"data: a\n\n", b"a"),
        (b"data:a\r\rdata", b"a"),
        (b"data:  a \r\n: data: c\r\nid: data: 1\r\ndata:\r\ndata:b\r\n\r\n", b" a \n\nb"),
        (b" data: a\nDATA: b\nxdata: c\n\n", b""),
        (b"data: a", b"a"),
        (b": data: a\n", b""),
    ],
)
def test_data_is_what_clients_read(event, payload):
    """The `data:` lines, each without one space, joined by line feeds."""
    assert EventData(event).payload == payload


@given(st.lists(st.tuples(LINES, st.sampled_from(ENDS)), max_size=8), st.data())
def test_a_splice_changes_data_alone(lines, data):
    """What is put in place of a part of the payload stands in it, and all that is no data keeps its bytes."""
    event = "".join(line + end for line, end in lines).encode() + b"data: xyz\n\n"
    before = EventData(event)
    start, end, more = sorted(data.draw(st.tuples(*[st.integers(0, len(before.payload))] * 3)))
    values = data.draw(st.tuples(VALUES, VALUES))
    after = EventData(before.spliced([Splice(start, end, values[0]), Splice(more, more, values[1])]))
    removed = before.payload[start:end]
    # Line ends stay, since lines do: in JSON they are space.
    expected = before.payload[:start], values[0] + b"\n" * removed.count(b"\n"), before.payload[end:more]
    assert after.payload == b"".join([*expected, values[1], before.payload[more:]])
    assert _without_data(after.event) == _without_data(event)


def _without_data(event):
    return [b"data" if line.startswith(b"data:") else line for line in event.splitlines(keepends=True)]


class _CountedLines(list):
    """Lines of an event, and how often one of them was looked at."""

    looked_at = 0

    def __getitem__(self, place):
        self.looked_at += 1
        return super().__getitem__(place)

    def __iter__(self):
        for place in range(len(self)):
            yield self[place]


@pytest.mark.parametrize("end", ENDS)
def test_many_splices_look_at_each_line_a_few_times(end):
    """An event of thousands of lines, each with something to change, is edited in one go."""
    count = 3000
    data = EventData((f"data: model{end}" * count + end).encode())
    data._lines = _CountedLines(data._lines)
    spliced = data.spliced([Splice(6 * line, 6 * line + 5, b"x") for line in range(count)])
    assert spliced == (f"data: x{end}" * count + end).encode()
    assert data._lines.looked_at <= 4 * count


class _CountedPattern:
    """A pattern, and how many bytes it was given to look at from their beginning."""

    def __init__(self, pattern):
        self.pattern = pattern
        self.given = 0

    def match(self, text):
        self.given += len(text)
        return self.pattern.match(text)


@pytest.mark.parametrize("end", ENDS)
def test_a_comment_that_comes_in_pieces_is_not_looked_through_for_each(monkeypatch, end):
    """What has come of a long comment is looked at once, and its end is found wherever it is cut."""
    counted = _CountedPattern(sse._COMMENTS)
    monkeypatch.setattr(sse, "_COMMENTS", counted)
    comment = b": " + b"x" * 100_000 + end.encode() * 2
    stream = comment + b"data: 1\n\n"
    parts = _parts([stream[at : at + 50] for at in range(0, len(stream), 50)])
    assert _joined(parts) == [("comments", comment), ("event", b"data: 1\n\n")]
    assert counted.given < 3 * len(stream)
