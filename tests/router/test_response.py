"""An answer brought to the client: what its bytes tell of the engine on the way."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import router.contract.responses.rewrite
import router.response
import router.upstream.response
from router.contract.errors import ApiError
from router.contract.protocols import CHAT
from router.contract.responses import stream_rewrite
from router.contract.responses.rewrite_plan import ResponseRewrite
from router.contract.responses.sse import SseEventBuffer
from router.contract.responses.stream_rewrite import StreamRewriter
from router.contract.schema.sections import Errors
from router.request.context import RequestContext
from router.request.outcome import Outcome
from router.response import ResponseAbortedError, ResponseForwarding, forward_response
from router.server.disconnect import DownstreamClient
from router.upstream.chunks import content_of
from tests.router.upstream.fakes import make_response


class Writer:
    """Keeps what is written; `passes`: whether chunks may be sent as the engine framed them."""

    def __init__(self, *, passes: bool = False) -> None:
        self.left: list[bytes] = []
        self.passed = 0
        self._passes = passes

    def write(self, piece: bytes) -> None:
        self.left.append(piece)

    def chunk_sender(self) -> Any:
        return self._send if self._passes else None

    def _send(self, framed: bytes) -> None:
        content = content_of(framed)
        assert content is not None
        self.left.append(content)
        self.passed += 1


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("alias", [None, "latest"], ids=["relayed", "renamed"])
@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        pytest.param([b'data: {"error": {"code": 500}}\n\n', DONE], Outcome.FAILED, id="first"),
        pytest.param([b'data: {}\n\ndata: {"error":{}}\n\n', DONE], Outcome.FAILED, id="second"),
        pytest.param([b'data: {}\r\rdata:{"error":{}}\r\r', DONE], Outcome.FAILED, id="old line ends"),
        pytest.param([b'data: {}\n\ndata: {"er', b'ror": {}}\n\n', DONE], Outcome.FAILED, id="in two pieces"),
        pytest.param([b"data", b": {", b'"error"', b":{}}\n\n", DONE], Outcome.FAILED, id="in many pieces"),
        pytest.param([b"data: {}\n\n", b'data: {"error":{}}\n'], Outcome.FAILED, id="without its blank line"),
        pytest.param([b'data: {"t":"data: {\\"error\\""}\n\n', DONE], Outcome.SUCCEEDED, id="in a text"),
        pytest.param([b'data: {"x":{"error":1}}\n\n', DONE], Outcome.SUCCEEDED, id="further in"),
        pytest.param([b"data: {}\n\n"], Outcome.SUCCEEDED, id="without DONE"),
    ],
)
def test_an_error_in_a_stream_is_noted_of_the_engine(pieces: list[bytes], outcome: Outcome, alias: str | None) -> None:
    """A 200 may tell that its engine died, as of vLLM: the client gets every byte, and the engine counts as failed."""
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    answer, told, _ = make_response(HEAD, *chunks, b"0\r\n\r\n")
    answer.read_headers()
    body: Any = forward_response(
        ResponseForwarding(answer, ResponseRewrite(alias), DownstreamClient(), RequestContext(request_id="1"))
    ).body
    writer = Writer()
    body(writer)
    assert b"".join(writer.left) == b"".join(pieces)
    assert told == [outcome]


CONTENT = b'data: {"choices":[{"delta":{},"finish_reason":null}]}\n\n'
END_FRAME = b'data: {"choices":[{"finish_reason":"stop"}]}\n\n'
WITH_USAGE = b'data: {"choices":[{"finish_reason":"stop","usage":{"n":1}}]}\n\n'
TAIL_FRAME = b'data: {"choices":[],"usage":{"n":1}}\n\n'
DIED = b'data: {"error":{"message":"dead"}}\n\n'
BROKEN = b'\n\ndata: {"error":'


def _streamed(
    edits: ResponseRewrite, *pieces: bytes | Exception, ends: bool = True
) -> tuple[list[bytes], RequestContext, list[Outcome]]:
    """Return what leaves of a stream whose pieces are chunks, what is noted of it, and what is told of the engine."""
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) if isinstance(piece, bytes) else piece for piece in pieces]
    answer, told, _ = make_response(HEAD, *chunks, *[b"0\r\n\r\n"] * ends)
    answer.read_headers()
    context = RequestContext(request_id="1")
    body: Any = forward_response(ResponseForwarding(answer, edits, DownstreamClient(), context, 0.01)).body
    writer = Writer()
    body(writer)
    assert context.bytes_out == sum(map(len, writer.left))
    return writer.left, context, told


@pytest.mark.parametrize(("usage", "tail"), [("move", []), ("copy", [TAIL_FRAME])])
def test_the_usage_of_a_stream_is_brought_to_its_end_frame(usage: Any, tail: list[bytes]) -> None:
    """Content leaves at once, the end frame with its usage, and the end is seen though the tail frame is dropped."""
    edits = ResponseRewrite(usage=usage)
    assert edits.is_needed()
    left, context, told = _streamed(edits, CONTENT, END_FRAME, TAIL_FRAME, DONE)
    assert [piece for piece in left if piece] == [CONTENT, b"".join([WITH_USAGE, *tail]), DONE]
    assert (context.stream_end, context.code, told) == ("done", None, [Outcome.SUCCEEDED])


def test_a_comment_overtakes_an_end_frame_that_is_held() -> None:
    """In silence behind an end frame the client gets comments, its own and the engine's."""
    silence = TimeoutError()
    left, _, _ = _streamed(
        ResponseRewrite(usage="move"), CONTENT, END_FRAME, silence, b": engine\n\n", TAIL_FRAME + DONE
    )
    assert [piece for piece in left if piece] == [CONTENT, b":\n", b": engine\n\n", WITH_USAGE + DONE]


@pytest.mark.parametrize("model", [None, "latest"])
@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        pytest.param([CONTENT, END_FRAME], CONTENT + END_FRAME, id="behind the end frame"),
        pytest.param([CONTENT, END_FRAME, TAIL_FRAME[:-4]], CONTENT + END_FRAME, id="in the tail frame"),
        pytest.param([CONTENT, END_FRAME, TAIL_FRAME[:-1]], CONTENT + WITH_USAGE, id="in the blank line behind it"),
        pytest.param([END_FRAME, TAIL_FRAME], WITH_USAGE, id="behind the tail frame"),
        pytest.param([END_FRAME, TAIL_FRAME, DONE[:-4]], WITH_USAGE, id="in DONE"),
        pytest.param([CONTENT, END_FRAME[:-1]], CONTENT, id="in the end frame"),
    ],
)
def test_what_is_held_leaves_before_the_error_of_a_cut_stream(
    pieces: list[bytes], whole: bytes, model: str | None
) -> None:
    """Of a stream that breaks off every whole event reaches the client, and then the error."""
    left, context, told = _streamed(ResponseRewrite(model, usage="move"), *pieces, ends=False)
    assert b"".join(left).startswith(whole + BROKEN)
    assert (context.stream_end, context.code, told) == ("broken", "upstream_incomplete", [Outcome.BROKEN])


@pytest.mark.parametrize(
    "begun", [b'data: {"a":\n', b"data: {}\n", b"event: x\n", b'data: {"a":\r\ndata: 1', b"data: {}\r"]
)
@pytest.mark.parametrize(
    "edits", [ResponseRewrite(), ResponseRewrite("latest"), ResponseRewrite(usage="move")], ids=str
)
def test_half_an_event_is_not_made_a_whole_one(begun: bytes, edits: ResponseRewrite) -> None:
    """Lines of an event that was cut stay behind: what the router says next would end it."""
    for pieces in ([CONTENT, begun], [CONTENT + begun], [CONTENT, b": engine\n\n", begun]):
        left, _, _ = _streamed(edits, *pieces, ends=False)
        comment = b": engine\n\n" if len(pieces) > 2 else b""
        assert b"".join(left).startswith(CONTENT + comment + BROKEN)


LONG = b'{"model":"served","text":"' + b'[{\\",' * 100 + b'","more":[{}, {"a":"}"}]}'


@pytest.mark.parametrize("length", [len(LONG), len(LONG) - 1, len(LONG) - 3, len(LONG) - 20, 400, 401, 402, 403])
@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_a_long_answer_that_is_cut_ends_in_no_end(length: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of JSON that ends with its connection, too long to be held, only what can be all of it is presented as whole."""
    monkeypatch.setattr(router.response, "MAX_BUFFERED_BYTES", 100)
    pieces = [LONG[start : min(length, start + 37)] for start in range(0, length, 37)]
    answer, told, _ = make_response(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode(), *pieces, b"")
    answer.read_headers()
    context = RequestContext(request_id="1")
    body: Any = forward_response(ResponseForwarding(answer, ResponseRewrite(), DownstreamClient(), context)).body
    writer = Writer()
    if kind == "text/plain" or length == len(LONG):
        body(writer)
        assert (context.code, told) == (None, [Outcome.SUCCEEDED])
    else:
        with pytest.raises(ResponseAbortedError):
            body(writer)
        assert (context.code, told) == ("upstream_incomplete", [Outcome.BROKEN])
    assert b"".join(writer.left) == LONG[:length]


def test_a_stream_cut_behind_done_is_whole() -> None:
    """Once DONE came, though not its blank line, all that was held leaves and no error."""
    left, context, _ = _streamed(ResponseRewrite(usage="move"), END_FRAME, DONE[:-1], ends=False)
    assert b"".join(left) == END_FRAME + DONE[:-1]
    assert context.stream_end == "done"


def test_an_error_event_behind_an_end_frame_is_noted() -> None:
    """An engine that dies behind its end frame counts as failed, and the client gets every byte in order."""
    left, context, told = _streamed(ResponseRewrite(usage="move"), CONTENT, END_FRAME, DIED, DONE)
    assert b"".join(left) == CONTENT + END_FRAME + DIED + DONE
    assert (context.stream_end, told) == ("done", [Outcome.FAILED])


def test_usage_changes_no_other_answer() -> None:
    """Only streams are edited for usage: other bodies stay, and streams without an edit need no editor."""
    assert ResponseRewrite(usage="move").body_edit(200) is None
    assert isinstance(ResponseRewrite(errors=Errors("t")).stream_rewriter(CHAT), SseEventBuffer)
    assert not ResponseRewrite().is_needed()


@pytest.mark.parametrize(
    ("body", "is_whole"),
    [
        (LONG, True),
        (LONG[:-1], False),
        (b'{"a":NaN}', True),
        (b"[NaN", False),
        # Deeper than any parser reads, and the brackets tell.
        (b'{"a":' * 3000 + b'"]"' + b"}" * 3000, True),
        (b'{"a":' * 3000 + b'"]"' + b"}" * 2999, False),
    ],
)
def test_an_answer_that_ends_with_its_connection_is_whole_json_or_broken(
    body: bytes, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON is skimmed, and only what is none of the strict kind is read: its values may be millions."""
    if body == LONG:
        read = router.contract.responses.rewrite.json
        monkeypatch.setattr(read, "loads", lambda _: pytest.fail("all of it was read"))
    answer, _, _ = make_response(b"HTTP/1.1 500 No\r\nContent-Type: application/problem+json\r\n\r\n", body, b"")
    answer.read_headers()
    going = ResponseForwarding(answer, ResponseRewrite(), DownstreamClient(), RequestContext(request_id="1"))
    if is_whole:
        assert forward_response(going).body == body
    else:
        with pytest.raises(ApiError, match="cut off"):
            forward_response(going)


@pytest.mark.parametrize(
    ("head", "pieces"),
    [
        pytest.param(HEAD, [b"0\r\n\r\n"], id="no event"),
        pytest.param(HEAD, [b"9\r\ndata: {\n\n\r\n", b"5\r\ndata:\r\n", b"0\r\n\r\n"], id="half an event"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", [], id="no content"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", [b"{", b""], id="half of JSON"),
    ],
)
def test_an_answer_that_is_not_all_there_counts_against_its_engine(head: bytes, pieces: list[bytes]) -> None:
    """However properly its connection ended: an engine that says nothing does not work."""
    answer, told, _ = make_response(head, *pieces)
    answer.read_headers()
    going = ResponseForwarding(answer, ResponseRewrite(), DownstreamClient(), RequestContext(request_id="1"))
    with suppress(ApiError):
        body: Any = forward_response(going).body
        body(Writer())
    assert told == [Outcome.BROKEN]


PARTS = [
    CONTENT,
    END_FRAME,
    TAIL_FRAME,
    DONE,
    DIED,
    b": engine\n\n",
    b"\n",
    b"event: x\r\ndata: 1\r\n\r\n",
    b"data: {}\r\r",
]


def _places(likely: list[int], length: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.sampled_from(likely) | st.integers(0, length), max_size=8)


@st.composite
def streams(draw: Any) -> tuple[list[bytes | Exception], bool]:
    """Return what arrives of a stream: chunks of whole events mostly, cut anywhere, with silences; and if it ends."""
    parts = draw(st.lists(st.sampled_from(PARTS), max_size=7))
    events = b"".join(parts)
    length = draw(st.just(len(events)) | st.integers(0, len(events)))
    starts = [*accumulate(map(len, parts), initial=0)]
    likely = [at for at in starts if at <= length]
    cuts = sorted({0, length, *draw(st.just(likely) | _places(likely, length))})
    chunks = [b"%x\r\n%b\r\n" % (end - start, events[start:end]) for start, end in pairwise(cuts)]
    chunks += [b"0\r\n\r\n"] * draw(st.booleans())
    wire = b"".join(chunks)
    marks = [*accumulate(map(len, chunks), initial=0)]
    places = sorted({0, len(wire), *draw(st.just(marks) | _places(marks, len(wire)))})
    pieces: list[bytes | Exception] = [wire[start:end] for start, end in pairwise(places)]
    for place in draw(st.lists(st.integers(0, len(pieces)), max_size=2)):
        pieces.insert(place, TimeoutError())
    return pieces, draw(st.booleans())


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


Outcomes = tuple[list[bytes], Any, list[Outcome], str | None, str | None, int]


@contextmanager
def _polling(answer: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router.upstream.response, "poll_fds_until", answer._connection and answer._connection.poll)
        yield


def _forwarded(pieces: list[bytes | Exception], edits: ResponseRewrite, *, is_cut: bool, passes: bool) -> Outcomes:
    """Return what is written, the error if it is one, what is reported of the engine, and what the context says."""
    answer, told, _ = make_response(HEAD, *pieces, *[ConnectionResetError()] * is_cut, is_plain=passes)
    answer.read_headers()
    context = RequestContext(request_id="1")
    writer = Writer(passes=passes)
    error: Any = None
    try:
        body: Any = forward_response(ResponseForwarding(answer, edits, DownstreamClient(), context, 0.01)).body
        with _polling(answer):
            body(writer)
    except (ApiError, ResponseAbortedError) as failure:
        error = repr(failure)
    return writer.left, error, told, context.stream_end, context.code, context.bytes_out


def _check_fast_way(stream: tuple[list[bytes | Exception], bool], edits: ResponseRewrite) -> None:
    pieces, is_cut = stream
    fast = _forwarded(pieces, edits, is_cut=is_cut, passes=True)
    with pytest.MonkeyPatch.context() as patch:
        for kind in (SseEventBuffer, StreamRewriter):
            patch.setattr(kind, "passes", lambda *_: False)
        patch.setattr(stream_rewrite, "plain_events", lambda _: None)
        assert _forwarded(pieces, edits, is_cut=is_cut, passes=False) == fast


def test_chunks_of_whole_events_are_sent_as_they_came() -> None:
    """All but the first piece, split events and the end are sent with the engine's framing, several chunks too."""
    chunk = b"%X\r\n%b\r\n" % (len(CONTENT), CONTENT)
    split = [chunk[:9], chunk[9:]]
    answer, told, _ = make_response(
        HEAD,
        chunk,
        chunk,
        chunk * 3,
        *split,
        chunk,
        chunk.replace(b"\r", b";x\r", 1),
        chunk,
        b"0\r\n\r\n",
        is_plain=True,
    )
    answer.read_headers()
    context = RequestContext(request_id="1")
    body: Any = forward_response(ResponseForwarding(answer, ResponseRewrite(), DownstreamClient(), context)).body
    writer = Writer(passes=True)
    with _polling(answer):
        body(writer)
    assert writer.left == [CONTENT, CONTENT, CONTENT * 3, *[CONTENT] * 4]
    assert (writer.passed, context.bytes_out, told) == (4, len(CONTENT) * 9, [Outcome.SUCCEEDED])


REWRITES = st.sampled_from([ResponseRewrite(), ResponseRewrite("latest"), ResponseRewrite("latest", usage="move")])


@example(([*map(_chunk, [CONTENT, CONTENT, DONE]), b"0\r\n\r\n"], False), ResponseRewrite())
@example(([*map(_chunk, [CONTENT, CONTENT, DIED]), b"0\r\n\r\n"], False), ResponseRewrite())
@example(([*map(_chunk, [CONTENT, CONTENT, DONE])], True), ResponseRewrite(usage="move"))
@example(([_chunk(CONTENT), _chunk(CONTENT), TimeoutError(), _chunk(CONTENT)], True), ResponseRewrite())
@given(streams(), REWRITES)
def test_whole_events_pass_as_they_would_in_the_general_way(
    stream: tuple[list[bytes | Exception], bool], edits: ResponseRewrite
) -> None:
    """However a stream is cut, silent or broken, all writes, end, error and the outcome are the same."""
    _check_fast_way(stream, edits)


@pytest.mark.exhaustive
@settings(max_examples=5_000)
@given(streams(), REWRITES)
def test_whole_events_pass_as_in_the_general_way_in_many_streams(
    stream: tuple[list[bytes | Exception], bool], edits: ResponseRewrite
) -> None:
    """The same for thousands of streams."""
    _check_fast_way(stream, edits)
