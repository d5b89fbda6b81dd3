"""Requests whose end two readers might see in two places: read in one way only, or refused with their connection.

Behind each stands a second, whole request: served in its turn where the first one's end is sure, and never otherwise.
"""

import pytest

from router.mock_engine import MockEngine
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient, chunked
from tests.router.serving import RunningRouter
from tests.router.wire.chat import CHAT, assert_error, chat

BODY = chat()
HIDDEN = chat(max_tokens=7)
SECOND = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(HIDDEN), HIDDEN)
SIZE = b"%x" % len(BODY)
COUNT = b"%d" % len(BODY)


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router that enforces nothing."""
    return router_of()


def _head(*lines: bytes, version: bytes = b"1.1") -> bytes:
    fields = b"".join(line + b"\r\n" for line in (b"Host: x", *lines))
    return b"POST %s HTTP/%s\r\n%s\r\n" % (CHAT.encode(), version, fields)


def _counted(*lines: bytes) -> bytes:
    return _head(*lines) + BODY


def _chunked(*lines: bytes) -> bytes:
    return _head(*lines) + chunked(BODY)


def _chunks(wire: bytes) -> bytes:
    """Return a chunked request whose body is spelt out, with SIZE and BODY filled in."""
    return _head(b"Transfer-Encoding: chunked") + wire.replace(b"SIZE", SIZE).replace(b"BODY", BODY)


LENGTH = b"Content-Length: " + COUNT
TE = b"Transfer-Encoding: chunked"

REFUSED = {
    "length, then chunked": _chunked(LENGTH, TE),
    "chunked, then length": _chunked(TE, LENGTH),
    "length 0, then chunked": _chunked(b"Content-Length: 0", TE),
    "chunked with a length of its own size": _chunked(TE, b"Content-Length: %d" % len(chunked(BODY))),
    "two equal lengths": _counted(LENGTH, LENGTH),
    "two different lengths": _counted(LENGTH, b"Content-Length: 0"),
    "two lengths in other case": _counted(LENGTH, LENGTH.lower()),
    "list of equal lengths": _counted(b"Content-Length: %s,%s" % (COUNT, COUNT)),
    "list of equal lengths, spaced": _counted(b"Content-Length: %s, %s" % (COUNT, COUNT)),
    "length +": _counted(b"Content-Length: +" + COUNT),
    "length -": _counted(b"Content-Length: -" + COUNT),
    "length -0": _counted(b"Content-Length: -0"),
    "length 0x": _counted(b"Content-Length: 0x%x" % len(BODY)),
    "length in hex": _counted(b"Content-Length: %xh" % len(BODY)),
    "length with a point": _counted(b"Content-Length: %s.0" % COUNT),
    "length with an exponent": _counted(b"Content-Length: 1e2"),
    "length with an underscore": _counted(b"Content-Length: 1_0"),
    "length with a space inside": _counted(b"Content-Length: 1 0"),
    "length in quotes": _counted(b'Content-Length: "%s"' % COUNT),
    "length with a vertical tab": _counted(b"Content-Length: \x0b" + COUNT),
    "length with a no-break space": _counted(b"Content-Length: \xa0" + COUNT),
    "length with a NUL": _counted(b"Content-Length: %s\x00" % COUNT),
    "length in superscript": _counted(b"Content-Length: \xb2"),
    "empty length": _counted(b"Content-Length:"),
    "length of a thousand digits": _counted(b"Content-Length: " + b"9" * 5000),
    "space before the length's colon": _counted(b"Content-Length : " + COUNT),
    "tab before the length's colon": _counted(b"Content-Length\t: " + COUNT),
    "folded length": _counted(b"Content-Length:\r\n " + COUNT),
    "underscore in the length's name": _counted(b"Content_Length: " + COUNT),
    "NUL in the length's name": _counted(b"Content-Length\x00: " + COUNT),
    "line that begins with a space": _counted(b" Content-Length: " + COUNT),
    "coding xchunked": _chunked(b"Transfer-Encoding: xchunked"),
    "coding chunked, identity": _chunked(b"Transfer-Encoding: chunked, identity"),
    "coding identity": _chunked(b"Transfer-Encoding: identity"),
    "coding identity and a length": _counted(b"Transfer-Encoding: identity", LENGTH),
    "coding gzip": _chunked(b"Transfer-Encoding: gzip"),
    "coding chunked twice in a list": _chunked(b"Transfer-Encoding: chunked, chunked"),
    "coding chunked twice": _chunked(TE, TE),
    "coding chunked and then another": _chunked(TE, b"Transfer-Encoding: identity"),
    "coding with a parameter": _chunked(b"Transfer-Encoding: chunked;q=1"),
    "coding in quotes": _chunked(b'Transfer-Encoding: "chunked"'),
    "coding with a vertical tab": _chunked(b"Transfer-Encoding: \x0bchunked"),
    "coding with a no-break space": _chunked(b"Transfer-Encoding: chunked\xa0"),
    "coding with a NUL": _chunked(b"Transfer-Encoding: chunked\x00"),
    "empty coding": _chunked(b"Transfer-Encoding:"),
    "empty coding and a length": _counted(b"Transfer-Encoding:", LENGTH),
    "space before the coding's colon": _chunked(b"Transfer-Encoding : chunked"),
    "tab before the coding's colon": _chunked(b"Transfer-Encoding\t: chunked"),
    "folded coding": _chunked(b"Transfer-Encoding:\r\n chunked"),
    "underscore in the coding's name": _chunked(b"Transfer_Encoding: chunked"),
    "coding hidden behind a bare CR": _chunked(b"X: a\rTransfer-Encoding: chunked"),
    "coding hidden behind a bare LF": _chunked(b"X: a\nTransfer-Encoding: chunked"),
    "line without a colon": _counted(LENGTH, b"Transfer-Encoding"),
    "chunked in HTTP/1.0": _head(TE, version=b"1.0") + chunked(BODY),
    "bare LF after the request line": _counted(LENGTH).replace(b"\r\n", b"\n", 1),
    "bare LF after a header": _counted(LENGTH).replace(b"Host: x\r\n", b"Host: x\n"),
    "bare LFs at the end of the head": _head(LENGTH).replace(b"\r\n\r\n", b"\n\n") + BODY,
    "bare LF at the end of the head": _head(LENGTH).replace(b"\r\n\r\n", b"\r\n\n") + BODY,
    "bare CR at the end of the head": _head(LENGTH).replace(b"\r\n\r\n", b"\r\n\r") + BODY,
    "bare CR after the request line": _counted(LENGTH).replace(b"\r\n", b"\r", 1),
    "bare CR in a header": _counted(LENGTH, b"X: a\rb"),
    "bare CR at the end of a header": _counted(b"X: a\r", LENGTH),
}
"""Requests that are refused by their head."""

REFUSED_CHUNKS = {
    "bare LF after the size": b"SIZE\nBODY\r\n0\r\n\r\n",
    "bare CR after the size": b"SIZE\rBODY\r\n0\r\n\r\n",
    "bare LF after the data": b"SIZE\r\nBODY\n0\r\n\r\n",
    "bare CR after the data": b"SIZE\r\nBODY\r0\r\n\r\n",
    "nothing after the data": b"SIZE\r\nBODY0\r\n\r\n",
    "too much data": b"SIZE\r\nBODYx\r\n0\r\n\r\n",
    "bare LF after the last size": b"SIZE\r\nBODY\r\n0\n\r\n",
    "bare LFs at the end": b"SIZE\r\nBODY\r\n0\n\n",
    "bare LF after a trailer": b"SIZE\r\nBODY\r\n0\r\nX: a\n\r\n",
    "bare CR in a trailer": b"SIZE\r\nBODY\r\n0\r\nX: a\rb\r\n\r\n",
    "NUL in a trailer": b"SIZE\r\nBODY\r\n0\r\nX: a\x00\r\n\r\n",
    "trailer that is no header": b"SIZE\r\nBODY\r\n0\r\nX\r\n\r\n",
    "folded trailer": b"SIZE\r\nBODY\r\n0\r\nX: a\r\n b\r\n\r\n",
    "trailer with a length": b"SIZE\r\nBODY\r\n0\r\nContent-Length: 5\r\n\r\n",
    "trailer with a coding": b"SIZE\r\nBODY\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "trailer with a host": b"SIZE\r\nBODY\r\n0\r\nHost: y\r\n\r\n",
    "trailer with a key": b"SIZE\r\nBODY\r\n0\r\nAuthorization: Bearer y\r\n\r\n",
    "size 0x": b"0xSIZE\r\nBODY\r\n0\r\n\r\n",
    "size -": b"-SIZE\r\nBODY\r\n0\r\n\r\n",
    "size +": b"+SIZE\r\nBODY\r\n0\r\n\r\n",
    "size with an underscore": b"0_SIZE\r\nBODY\r\n0\r\n\r\n",
    "size after a space": b" SIZE\r\nBODY\r\n0\r\n\r\n",
    "size before a space": b"SIZE \r\nBODY\r\n0\r\n\r\n",
    "size with a NUL": b"SIZE\x00\r\nBODY\r\n0\r\n\r\n",
    "size in quotes": b'"SIZE"\r\nBODY\r\n0\r\n\r\n',
    "size with an h": b"SIZEh\r\nBODY\r\n0\r\n\r\n",
    "no size": b"\r\nBODY\r\n0\r\n\r\n",
    "extension with a control character": b"SIZE;a=\x01\r\nBODY\r\n0\r\n\r\n",
    "extension with a bare LF": b"SIZE;a\nb\r\nBODY\r\n0\r\n\r\n",
    "extension with a bare CR": b"SIZE;a\rb\r\nBODY\r\n0\r\n\r\n",
    "extension without a name": b"SIZE;\r\nBODY\r\n0\r\n\r\n",
    "extension of the last chunk with a NUL": b"SIZE\r\nBODY\r\n0;\x00\r\n\r\n",
    "last size negative": b"SIZE\r\nBODY\r\n-0\r\n\r\n",
}
"""Chunked bodies that are refused, however far they were read."""


ACCEPTED = {
    "length": _counted(LENGTH),
    "length in lower case": _counted(LENGTH.lower()),
    "length without a space": _counted(b"Content-Length:" + COUNT),
    "length after a tab": _counted(b"Content-Length:\t" + COUNT),
    "length after spaces": _counted(b"Content-Length:    %s  " % COUNT),
    "length with zeros": _counted(b"Content-Length: 000" + COUNT),
    "chunked": _chunked(TE),
    "chunked in mixed case": _chunked(b"tRANSFER-eNCODING: ChUnKeD"),
    "chunked after a tab": _chunked(b"Transfer-Encoding:\tchunked"),
    "chunks": _chunks(b"1\r\n" + BODY[:1] + b"\r\n%x\r\n" % (len(BODY) - 1) + BODY[1:] + b"\r\n0\r\n\r\n"),
    "chunk size in capitals": _chunks(SIZE.upper() + b"\r\nBODY\r\n0\r\n\r\n"),
    "chunk size with zeros": _chunks(b"0000SIZE\r\nBODY\r\n000\r\n\r\n"),
    "chunk size with many zeros": _chunks(b"0" * 40 + b"SIZE\r\nBODY\r\n0\r\n\r\n"),
    "chunk extension": _chunks(b"SIZE;a=b\r\nBODY\r\n0\r\n\r\n"),
    "chunk extension in quotes": _chunks(b'SIZE;a="b;c"\r\nBODY\r\n0;d\r\n\r\n'),
    "chunk extension after a space": _chunks(b"SIZE ; a\r\nBODY\r\n0\r\n\r\n"),
    "trailers": _chunks(b"SIZE\r\nBODY\r\n0\r\nX-After: 1\r\n\r\n"),
    "data that looks like an end": _head(TE) + chunked(BODY[:-1] + b', "x": "0\r\n\r\n"}'.replace(b"\r\n", b"\\r\\n")),
    "request that looks like two": _head(LENGTH, b"X: POST /generate HTTP/1.1") + BODY,
    "empty line before": b"\r\n" + _counted(LENGTH),
}
"""Requests whose end is beyond doubt."""


def _assert_refused_alone(router: RunningRouter, engine: MockEngine, wire: bytes) -> None:
    with RawClient(router.port) as client:
        client.send(wire + SECOND)
        answer = client.answer()
        assert_error(answer, 400, "bad_request")
        assert client.at_end()
    assert engine.received == []


@pytest.mark.parametrize("wire", REFUSED.values(), ids=REFUSED)
def test_a_doubtful_head_is_refused(router: RunningRouter, engine: MockEngine, wire: bytes) -> None:
    """A head that leaves in doubt where its request ends is a 400, the connection ends, and no engine hears of it."""
    _assert_refused_alone(router, engine, wire)


@pytest.mark.parametrize("chunks", REFUSED_CHUNKS.values(), ids=REFUSED_CHUNKS)
def test_a_doubtful_chunk_is_refused(router: RunningRouter, engine: MockEngine, chunks: bytes) -> None:
    """A chunked body that is not spelt as it has to be is a 400, the connection ends, and no engine hears of it."""
    _assert_refused_alone(router, engine, _chunks(chunks))


@pytest.mark.parametrize("codings", [b"gzip, chunked", b"identity, chunked", b"deflate , chunked"])
def test_a_coding_below_the_chunks_is_not_taken(router: RunningRouter, engine: MockEngine, codings: bytes) -> None:
    """Chunks that carry a further coding have a sure end, but their content is not what engines would read: 415."""
    with RawClient(router.port) as client:
        client.send(_chunked(b"Transfer-Encoding: " + codings))
        assert_error(client.answer(), 415, "unsupported_media_type")
    assert engine.received == []


@pytest.mark.parametrize("size", [b"f" * 8, b"f" * 16, b"f" * 17, b"f" * 400, b"8" + b"0" * 15])
def test_a_huge_chunk_is_never_whole(router: RunningRouter, engine: MockEngine, size: bytes) -> None:
    """A chunk of a size that overflows many a reader is no end of anything: the request is refused."""
    with RawClient(router.port) as client:
        client.send(_chunks(size + b"\r\nBODY\r\n0\r\n\r\n") + SECOND)
        client.socket.shutdown(1)
        assert_error(client.answer(), 400, "bad_request")
        assert client.at_end()
    assert engine.received == []


@pytest.mark.parametrize("wire", ACCEPTED.values(), ids=ACCEPTED)
def test_a_request_beyond_doubt_is_served_once(router: RunningRouter, engine: MockEngine, wire: bytes) -> None:
    """A request whose end is sure reaches the engine once, and the one behind it does in its turn."""
    with RawClient(router.port) as client:
        client.send(wire + SECOND)
        assert [client.answer().status for _ in range(2)] == [200, 200]
    first, second = engine.received
    assert first.json()["model"] == "served"
    assert first.body.startswith(BODY[:-1])
    assert second.body == HIDDEN


@pytest.mark.parametrize("wire", ACCEPTED.values(), ids=ACCEPTED)
def test_the_engine_gets_a_framing_of_the_routers_own(router: RunningRouter, engine: MockEngine, wire: bytes) -> None:
    """However a client framed its body, the engine gets one Content-Length and no coding."""
    with RawClient(router.port) as client:
        assert client.send(wire).answer().status == 200
    (received,) = engine.received
    assert received.values("Content-Length") == [str(len(received.body))]
    assert received.values("Transfer-Encoding") == []


def test_pipelined_requests_get_their_own_answers(router: RunningRouter, engine: MockEngine) -> None:
    """Many requests in one go, framed in turn by length and chunks, are answered in order, each with its own."""
    bodies = [chat(max_tokens=number + 1) for number in range(20)]
    heads = (lambda body: _head(b"Content-Length: %d" % len(body)) + body, lambda body: _head(TE) + chunked(body))
    with RawClient(router.port) as client:
        client.send(b"".join(heads[number % 2](body) for number, body in enumerate(bodies)))
        answers = [client.answer() for _ in bodies]
    assert [answer.status for answer in answers] == [200] * len(bodies)
    assert [received.body for received in engine.received] == bodies
    assert len({answer.header("x-request-id") for answer in answers}) == len(bodies)


def test_a_refused_request_leaves_a_sure_end(router: RunningRouter, engine: MockEngine) -> None:
    """A request that is refused for what it says, not for its framing, does not take the next one with it."""
    with RawClient(router.port) as client:
        refused = chat(model="unknown")
        client.send(_head(b"Content-Length: %d" % len(refused)) + refused + SECOND)
        assert [client.answer().status for _ in range(2)] == [404, 200]
    assert [received.body for received in engine.received] == [HIDDEN]
