"""Request bodies on the wire: framed rightly, wrongly, slowly, or far too large."""

import gzip
import itertools
import json
import socket
from typing import NamedTuple

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Limits
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient, chunked, post_head
from tests.router.serving import RunningRouter
from tests.router.wire.chat import CHAT, MESSAGES, assert_error, chat, chat_of_length

MIB = 1024 * 1024
LIMIT = MIB
TWENTY_MB = 20 * MIB
CHUNKED = {"Transfer-Encoding": "chunked"}


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router with a body limit of 1 MiB."""
    return router_of(Contract(limits=Limits(max_body_bytes=LIMIT)))


def _pieces_of(body: bytes, size: int = 64 * 1024) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def _framed(body: bytes, framing: str, path: str = CHAT, **headers: str) -> bytes:
    if framing == "chunked":
        return post_head(path, {**CHUNKED, **headers}) + chunked(*_pieces_of(body))
    return post_head(path, {"Content-Length": str(len(body)), **headers}) + body


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/generate"])
@pytest.mark.parametrize("framing", ["chunked", "counted"])
def test_a_body_at_the_limit_passes_whole(router: RunningRouter, engine: MockEngine, framing: str, path: str) -> None:
    """A body of exactly the limit reaches the engine, byte for byte, however it is framed."""
    body = chat_of_length(LIMIT)
    with RawClient(router.port) as client:
        assert client.send(_framed(body, framing, path)).answer().status == 200
    assert [received.body for received in engine.received] == [body]


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/generate"])
@pytest.mark.parametrize("framing", ["chunked", "counted"])
def test_a_body_one_byte_over_the_limit_is_refused(
    router: RunningRouter, engine: MockEngine, framing: str, path: str
) -> None:
    """A body of one byte more than the limit is a 413 on every inference route, and no engine hears of it."""
    with RawClient(router.port) as client:
        answer = client.send(_framed(chat_of_length(LIMIT + 1), framing, path)).answer()
    assert str(LIMIT) in assert_error(answer, 413, "request_too_large")["message"]
    assert engine.received == []


def test_an_endless_upload_is_refused_at_the_limit(router: RunningRouter) -> None:
    """A chunked upload over the limit is refused while it is still coming."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, CHUNKED) + b"%x\r\n" % TWENTY_MB + bytes(2 * LIMIT))
        assert_error(client.answer(), 413, "request_too_large")


class Refused(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    status: int
    code: str


@pytest.mark.parametrize("framing", ["chunked", "counted"])
@pytest.mark.parametrize(
    "refused",
    [
        Refused("POST", CHAT, {}, 413, "request_too_large"),
        Refused("POST", "/nowhere", {}, 404, "not_found"),
        Refused("PUT", CHAT, {}, 405, "method_not_allowed"),
        Refused("POST", CHAT, {"Content-Encoding": "gzip"}, 415, "unsupported_media_type"),
    ],
    ids=lambda refused: str(refused.status),
)
def test_a_refused_upload_of_20_mb_reads_its_answer(
    router: RunningRouter, engine: MockEngine, framing: str, refused: Refused
) -> None:
    """A client that sends all of its 20 MB before it reads anything gets the refusal, not a reset."""
    request = _framed(bytes(TWENTY_MB), framing, refused.path, **refused.headers)
    with RawClient(router.port) as client:
        client.send(refused.method.encode() + request.removeprefix(b"POST"))
        assert_error(client.answer(), refused.status, refused.code)
    assert engine.received == []


def test_the_refusal_comes_before_the_body_is_sent(router: RunningRouter) -> None:
    """A client that announces too much reads its 413 without having sent a byte of the body."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(TWENTY_MB)}))
        assert_error(client.answer(), 413, "request_too_large")


def test_an_upload_without_end_is_cut_off(router: RunningRouter) -> None:
    """After a refusal a client that never stops sending is not read for ever."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(100 * TWENTY_MB)}))
        with pytest.raises(ConnectionError):
            client.send(bytes(10 * TWENTY_MB))


@pytest.mark.parametrize("refused", [_framed(bytes(2 * LIMIT), "counted"), _framed(bytes(2 * LIMIT), "chunked")])
def test_a_connection_is_good_after_a_refusal(router: RunningRouter, engine: MockEngine, refused: bytes) -> None:
    """After a 413 whose body was sent whole, the next request on the same connection is answered."""
    with RawClient(router.port) as client:
        assert client.send(refused).answer().status == 413
        assert client.post(CHAT, chat()).status == 200
    assert len(engine.received) == 1


def test_pipelined_requests_are_answered_in_their_order(router: RunningRouter, engine: MockEngine) -> None:
    """Requests sent in one go, refused and accepted ones mixed, are each answered, in turn."""
    requests = [
        _framed(chat(max_tokens=1), "counted"),
        _framed(b"{", "chunked"),
        _framed(chat(model="nope"), "counted"),
        _framed(chat(max_tokens=2), "chunked"),
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    with RawClient(router.port) as client:
        client.send(b"".join(requests))
        assert [client.answer().status for _ in requests] == [200, 400, 404, 200, 200]
    assert [received.json()["max_tokens"] for received in engine.received] == [1, 2]


def test_a_body_shorter_than_promised_is_refused(router: RunningRouter, engine: MockEngine) -> None:
    """A body that ends before its Content-Length, though whole JSON, is a 400 and reaches no engine."""
    body = chat()
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(len(body) + 1)}) + body)
        client.socket.shutdown(socket.SHUT_WR)
        assert_error(client.answer(), 400, "bad_request")
    assert engine.received == []


def test_a_body_longer_than_promised_is_cut_where_it_promised_to_end(router: RunningRouter, engine: MockEngine) -> None:
    """What follows the promised length is no part of the body, and no request either."""
    body = chat()
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(len(body) - 1)}) + body + b"\r\n\r\n")
        assert_error(client.answer(), 400, "bad_request")
        assert client.answer().status == 400
        assert client.at_end()
    assert engine.received == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"%x\r\n%s\r\n", id="no last chunk"),
        pytest.param(b"%x\r\n%s\r\n0\r\n", id="no end of trailers"),
        pytest.param(b"ff%x\r\n%s\r\n", id="cut chunk"),
    ],
)
def test_a_chunked_body_that_is_cut_is_refused(router: RunningRouter, engine: MockEngine, body: bytes) -> None:
    """A chunked body whose end never came is a 400 and reaches no engine."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, CHUNKED) + body % (len(chat()), chat()))
        client.socket.shutdown(socket.SHUT_WR)
        assert_error(client.answer(), 400, "bad_request")
    assert engine.received == []


@pytest.mark.parametrize("size", [b"xyz", b"-1", b"0x10", b"", b"1 2", b"1;a=\x01"])
def test_a_bad_chunk_size_is_the_clients_error(router: RunningRouter, engine: MockEngine, size: bytes) -> None:
    """A chunk size that is none is a 400 of ours, not a 500, and the connection ends."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, CHUNKED) + size + b"\r\n" + chat() + b"\r\n0\r\n\r\n")
        assert_error(client.answer(), 400, "bad_request")
        assert client.at_end()
    assert engine.received == []


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param({"Content-Length": "5", **CHUNKED}, 400, id="length and chunked"),
        pytest.param({"Content-Length": "5, 5"}, 400, id="two lengths"),
        pytest.param({"Content-Length": "+5"}, 400, id="signed length"),
        pytest.param({"Transfer-Encoding": "identity"}, 400, id="not chunked"),
        pytest.param({"Transfer-Encoding": "chunked, chunked"}, 400, id="chunked twice"),
        pytest.param({"Transfer-Encoding": "chunked, gzip"}, 400, id="chunked not last"),
    ],
)
def test_ambiguous_framing_is_refused(
    router: RunningRouter, engine: MockEngine, head: dict[str, str], status: int
) -> None:
    """A body whose end two readers might see in two places ends the connection with a 400."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, head) + b"0\r\n\r\n" + post_head("/generate", {"Content-Length": "0"}))
        assert client.answer().status == status
        assert client.at_end()
    assert engine.received == []


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param({"Content-Encoding": "gzip"}, gzip.compress(chat()), id="gzip"),
        pytest.param({"Content-Encoding": "zstd"}, chat(), id="zstd"),
        pytest.param({"Content-Encoding": "identity, br"}, chat(), id="list"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
def test_compressed_bodies_are_refused(
    router: RunningRouter, engine: MockEngine, path: str, headers: dict[str, str], body: bytes
) -> None:
    """A body with a content coding is a 415 on every inference route."""
    with RawClient(router.port) as client:
        assert_error(client.post(path, body, headers), 415, "unsupported_media_type")
        assert client.post(CHAT, chat()).status == 200
    assert len(engine.received) == 1


def test_a_transfer_coding_besides_chunked_is_refused(router: RunningRouter, engine: MockEngine) -> None:
    """A chunked body that is compressed below its chunks, which gunicorn hands over undecoded, is a 415."""
    body = gzip.compress(chat())
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Transfer-Encoding": "gzip, chunked"}) + chunked(body))
        assert_error(client.answer(), 415, "unsupported_media_type")
    assert engine.received == []


def test_the_identity_coding_is_no_coding(router: RunningRouter) -> None:
    """A body that says `Content-Encoding: identity` is taken."""
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(), {"Content-Encoding": "identity"}).status == 200


def test_a_client_that_waits_is_told_to_go_on(router: RunningRouter, engine: MockEngine) -> None:
    """`Expect: 100-continue` is answered before the body is sent, and the engine sees no Expect."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(len(chat())), "Expect": "100-continue"}))
        assert client.head() == (100, [])
        assert client.send(chat()).answer().status == 200
    assert engine.received[0].values("Expect") == []


def test_a_body_that_drips_in_whole_is_taken(router: RunningRouter, engine: MockEngine) -> None:
    """A body that comes byte by byte is forwarded like any other."""
    with RawClient(router.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in _framed(chat(), "counted"):
            client.send(bytes([byte]))
        assert client.answer().status == 200
    assert [received.body for received in engine.received] == [chat()]


@pytest.mark.parametrize(
    "request_begun",
    [
        pytest.param(_framed(chat(), "counted")[:-10], id="counted"),
        pytest.param(_framed(chat(), "chunked")[:-10], id="chunked"),
        pytest.param(post_head(CHAT, CHUNKED), id="before the first chunk"),
    ],
)
def test_a_body_that_stalls_is_given_up(router_of: RouterOf, engine: MockEngine, request_begun: bytes) -> None:
    """A body that stops coming for longer than ROUTER_CLIENT_BODY_TIMEOUT_SECONDS is a 400, and the connection ends."""
    router = router_of(ROUTER_CLIENT_BODY_TIMEOUT_SECONDS="0.2")
    with RawClient(router.port) as client:
        client.send(request_begun)
        assert "0.2 s" in assert_error(client.answer(), 400, "bad_request")["message"]
        assert client.at_end()
    assert engine.received == []


def test_a_client_that_never_reads_keeps_nobody_else_waiting(router_of: RouterOf, engine: MockEngine) -> None:
    """A stream nobody reads holds its own thread alone, and ends at the engine when its client leaves."""
    router = router_of(ROUTER_MAX_IN_FLIGHT="2")
    flood = b"data: " + bytes(64 * 1024) + b"\n\n"
    engine.answer_next(MockResponse(headers=EVENT_STREAM, body=itertools.repeat(flood), framing="chunked"))
    with RawClient(router.port) as deaf:
        deaf.send(_framed(chat(stream=True), "counted"))
        (stream,) = engine.wait_for(1)
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat()).status == 200
    engine.wait_closed(stream.connection)


def test_a_request_without_a_body_is_refused(router: RunningRouter, engine: MockEngine) -> None:
    """A POST that promises no body at all is a 400 at once, not a wait for the end of the connection."""
    with RawClient(router.port) as client:
        assert_error(client.send(post_head(CHAT, {})).answer(), 400, "bad_request")
        assert client.post(CHAT, chat()).status == 200


def test_a_client_of_http_1_0_is_served(router: RunningRouter, engine: MockEngine) -> None:
    """An HTTP/1.0 client needs no Host, gets no chunks, and its connection ends with the answer."""
    body = chat(stream=True)
    with RawClient(router.port) as client:
        client.send(b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body)
        answer = client.answer()
    assert answer.status == 200
    assert answer.header("Transfer-Encoding") is None
    assert answer.body.endswith(b"data: [DONE]\n\n")


def test_a_chunked_body_from_http_1_0_is_refused(router: RunningRouter, engine: MockEngine) -> None:
    """HTTP/1.0 knows no chunks: who sends them is not understood (RFC 9112, section 6.1)."""
    with RawClient(router.port) as client:
        client.send(b"POST %s HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT.encode() + chunked(chat()))
        assert client.answer().status == 400
    assert engine.received == []


def test_a_large_body_arrives_byte_for_byte(router_of: RouterOf, engine: MockEngine) -> None:
    """A body of many megabytes under the default limit leaves as it came."""
    body = json.dumps({"model": "served", "messages": MESSAGES, "image": "A" * (15 * MIB)}).encode()
    with RawClient(router_of().port) as client:
        assert client.send(_framed(body, "chunked")).answer().status == 200
    assert engine.received[0].body == body
