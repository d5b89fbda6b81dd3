"""An engine's answer off a connection: the same however its bytes are cut, and what becomes of the connection."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.request.outcome import Outcome
from router.server.disconnect import ClientDisconnectedError
from router.upstream.errors import EngineError
from router.upstream.parser_callbacks import MAX_HEADERS
from router.upstream.response import MAX_NON_BODY_BYTES
from tests.router.upstream.fakes import make_response

MOST = 1_000_000
OK = b"HTTP/1.1 200 OK\r\n"
COUNTED = OK + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("wire", "status", "body", "is_kept"),
    [
        pytest.param(COUNTED, 200, b"hello", True, id="counted"),
        pytest.param(CHUNKED + b"2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX: 1\r\n\r\n", 200, b"hello", True, id="chunked"),
        pytest.param(
            OK + b"Content-Type: Text/Event-Stream; charset=utf-8\r\nKeep-Alive: timeout=5, max=100\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            200,
            b"hello",
            False,
            id="a stream, behind which llama.cpp closes whatever it promised",
        ),
        pytest.param(OK + b"\r\nhello", 200, b"hello", False, id="to the end of the connection"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, id="without a body"),
        pytest.param(b"HTTP/1.1 102 A\r\nB: 1\r\n\r\n" + COUNTED, 200, b"hello", True, id="behind an interim answer"),
        pytest.param(COUNTED.replace(b"Content", b"Connection: close\r\nContent"), 200, b"hello", False, id="close"),
        pytest.param(COUNTED.replace(b"HTTP/1.1", b"HTTP/1.0"), 200, b"hello", False, id="HTTP/1.0"),
    ],
)
@given(data=st.data())
def test_an_answer_is_the_same_however_it_is_cut(
    data: st.DataObject, wire: bytes, status: int, body: bytes, *, is_kept: bool
) -> None:
    """Any split of an answer's bytes gives the same status, body and verdict on the connection, also after a peek."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(wire) - 1), max_size=12)))
    chunks = [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    response, told, kept = make_response(*chunks)
    response.read_headers()
    assert response.status == status
    assert "B" not in dict(response.headers)
    seen = response.peek(data.draw(st.integers(0, 2 * len(body))))
    assert body.startswith(seen)
    assert response.read(MOST) == body
    assert (told, bool(kept)) == ([], is_kept)
    assert response.read_chunk() == b""


@pytest.mark.parametrize("wire", [COUNTED, CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"], ids=["counted", "chunked"])
@given(data=st.data())
def test_a_framed_answer_that_ends_early_is_broken_wherever_that_is(data: st.DataObject, wire: bytes) -> None:
    """A beginning of a framed answer is never taken for a whole one."""
    response, told, kept = make_response(wire[: data.draw(st.integers(0, len(wire) - 1))])
    with pytest.raises(EngineError) as raised:
        _read(response)
    assert raised.value.may_have_run
    assert (told, kept) == ([Outcome.BROKEN], [])


def _read(response) -> bytes:
    response.read_headers()
    return response.read(MOST)


@given(more=st.binary(min_size=1).filter(lambda more: more.strip(b"\r\n")))
def test_a_connection_that_carries_more_is_not_kept(more: bytes) -> None:
    """Whatever comes after a response, the response is complete, and its connection is closed."""
    response, told, kept = make_response(COUNTED + more)
    assert _read(response) == b"hello"
    assert (told, kept) == ([], [])


def test_an_answer_before_its_request_was_read_does_not_keep_the_connection() -> None:
    """The rest of a request that was not sent would be taken for the next one."""
    response, _, kept = make_response(COUNTED, is_sent_whole=False)
    assert _read(response) == b"hello"
    assert kept == []


@pytest.mark.parametrize("is_stale", [False, True])
@pytest.mark.parametrize("end", [b"", ConnectionResetError()], ids=["ended", "reset"])
def test_the_connection_tells_whether_a_request_was_read(end: bytes | Exception, *, is_stale: bool) -> None:
    """Where nothing of an answer came, it is for the connection to say whether the request may have run."""
    response, _, _ = make_response(end, is_stale=is_stale)
    with pytest.raises(EngineError) as raised:
        response.read_headers()
    assert (raised.value.is_stale_connection, raised.value.may_have_run) == (is_stale, not is_stale)
    assert raised.value.code == "upstream_unreachable"


def test_an_answer_that_began_is_never_unread() -> None:
    """One byte of an answer shows that the engine had the request."""
    response, _, _ = make_response(b"H", is_stale=True)
    with pytest.raises(EngineError) as raised:
        response.read_headers()
    assert (raised.value.is_stale_connection, raised.value.code) == (False, "upstream_incomplete")


def test_the_deadline_holds_while_bytes_come() -> None:
    """An answer of which more is always there ends with its time."""
    response, told, _ = make_response(COUNTED, deadline=0)
    with pytest.raises(EngineError) as raised:
        response.read_headers()
    assert raised.value.code == "upstream_timeout"
    assert told == [Outcome.TIMED_OUT]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([OK + b"X: 1\r\n" * (MAX_HEADERS + 2)], id="headers"),
        pytest.param([OK, b"X: ", *[b"x" * 1000] * (MAX_NON_BODY_BYTES // 1000 + 2)], id="a header"),
        pytest.param(
            [CHUNKED + b"1\r\nx\r\n0\r\nX: ", *[b"x" * 1000] * (MAX_NON_BODY_BYTES // 1000 + 2)], id="a trailer"
        ),
        pytest.param([CHUNKED + b"1;", *[b"x" * 1000] * (MAX_NON_BODY_BYTES // 1000 + 2)], id="an extension"),
    ],
)
def test_what_is_not_the_body_is_bounded(chunks: list[bytes]) -> None:
    """Heads, trailers and chunk extensions without end are given up, not collected."""
    response, told, _ = make_response(*chunks, AssertionError("read on"))
    with pytest.raises(EngineError):
        _read(response)
    assert told == [Outcome.BROKEN]


def test_a_closed_answer_tells_nothing_of_its_engine() -> None:
    """A client that leaves says nothing about the engine, and the connection is closed."""
    response, told, kept = make_response(CHUNKED, b"1\r\nx\r\n")
    response.read_headers()
    assert response.read_chunk() == b"x"
    response.close()
    response.close()
    assert (told, kept) == ([], [])
    with pytest.raises(EngineError):
        response.read_chunk()


@pytest.mark.parametrize(
    ("chunks", "reads"),
    [
        pytest.param([COUNTED], True, id="whole"),
        pytest.param([CHUNKED + b"2\r\nhe\r\n"], True, id="cut off"),
        pytest.param([COUNTED[:-1], ConnectionResetError()], True, id="reset"),
        pytest.param([OK + b"X"], True, id="no head"),
        pytest.param([CHUNKED + b"zz\r\n"], True, id="malformed"),
        pytest.param([COUNTED[:-1], TimeoutError()], True, id="too slow"),
        pytest.param([COUNTED[:-1], ClientDisconnectedError()], True, id="client gone"),
        pytest.param([OK + b"Content-Length: 0\r\nTransfer-Encoding: gzip\r\n\r\n"], True, id="unknown coding"),
        pytest.param([COUNTED], False, id="never read"),
    ],
)
def test_an_answer_says_once_that_it_is_over(chunks: list[bytes | Exception], *, reads: bool) -> None:
    """However an answer ends, and however often it is closed after that, `on_close` is called exactly once."""
    closed: list[bool] = []
    response, _, _ = make_response(*chunks, on_close=lambda: closed.append(True))
    if reads:
        with suppress(EngineError, ClientDisconnectedError):
            _read(response)
    response.close()
    response.close()
    assert closed == [True]
