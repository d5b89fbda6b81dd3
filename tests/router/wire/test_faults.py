"""Faults of engines, injected one by one: silence, cuts, wrong framing, drips, floods, time that runs out.

Whole answers that are malformed stand in test_engine_answers.py, streams that break off in test_streams.py, refused
connections and ends of kept ones in test_retries.py.
"""

import gzip
import itertools
import json
import re
import socket
import sys
from collections.abc import Callable, Iterator
from threading import Event

import openai
import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Models, plain_aliases
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse, RawResponse
from router.mock_engine.response import JSON, Piece, ScriptedResponse
from tests.router.conftest import RouterOf
from tests.router.process import forget_peak, resident_bytes, worker_of
from tests.router.rawclient import RawAnswer, RawClient, post_head
from tests.router.rawengine import RawEngine
from tests.router.serving import RunningRouter, running_router
from tests.router.wire.chat import CHAT, assert_error, chat, chat_of_length

OK = b"HTTP/1.1 200 OK\r\n"
COUNTED = OK + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
STREAM_HEAD = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"1","model":"served","choices":[]}\n\n'
DONE = b"data: [DONE]\n\n"
COMMENT = b":\n"
STREAM = chat(stream=True)
NEVER = Event()
FLOOD_BYTES = 1 << 30
FLAT_BYTES = 64 << 20
"""How much memory an answer of any length may take beside what a router takes anyway."""


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router that enforces nothing and soon loses patience with a silent engine."""
    return router_of(ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS="0.5", ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS="0.5")


@pytest.fixture(scope="module")
def hurried(router_of: RouterOf) -> RunningRouter:
    """A router that gives an engine half a second in all."""
    return router_of(ROUTER_UPSTREAM_TOTAL_TIMEOUT_SECONDS="0.5")


@pytest.fixture(scope="module")
def commenting(router_of: RouterOf) -> RunningRouter:
    """A router that tells its clients soon that it is still there, and renames."""
    contract = Contract(models=Models(aliases=plain_aliases("latest")))
    return router_of(contract, ROUTER_SSE_KEEPALIVE_INTERVAL_SECONDS="0.02", ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS="0.3")


def _ask(router: RunningRouter, body: bytes = chat()) -> RawAnswer:
    with RawClient(router.port) as client:
        answer = client.post(CHAT, body)
        # Whatever happened, the connection has to be in step.
        assert client.get("/healthz").status == 200
    return answer


def _begin(client: RawClient, body: bytes = STREAM) -> None:
    """Ask for a stream, and read the head of its answer."""
    client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
    assert client.head()[0] == 200


def _code_at_end(stream: bytes) -> object:
    """Return the code of the error event that ends a stream."""
    return json.loads(stream.removesuffix(b"\n\n").rpartition(b"\n\ndata: ")[2])["error"]["code"]


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        pytest.param(RawResponse([OK, Event()]), 504, "upstream_timeout", id="silence within the head"),
        pytest.param(RawResponse([COUNTED[:-2], Event()]), 504, "upstream_timeout", id="silence behind the head"),
        pytest.param(RawResponse([COUNTED[:-1], Event()]), 504, "upstream_timeout", id="silence within a body"),
        pytest.param(RawResponse([STREAM_HEAD, Event()]), 504, "upstream_timeout", id="silence before the first event"),
        pytest.param(
            RawResponse([CHUNKED + b"5\r\n{}", Event()]), 504, "upstream_timeout", id="silence within a chunk"
        ),
        pytest.param(
            RawResponse([CHUNKED + b"2\r\n{}\r\n", Event()]), 504, "upstream_timeout", id="silence before the end"
        ),
        pytest.param(RawResponse(COUNTED[:-2], "reset"), 502, "upstream_incomplete", id="reset behind the head"),
        pytest.param(RawResponse(STREAM_HEAD, "reset"), 502, "upstream_incomplete", id="reset before the first event"),
        pytest.param(RawResponse(STREAM_HEAD), 502, "upstream_incomplete", id="closed before the first event"),
        pytest.param(RawResponse(CHUNKED + b"5\r\n{}"), 502, "upstream_incomplete", id="cut within a chunk"),
        pytest.param(RawResponse(CHUNKED + b"2\r\n{}"), 502, "upstream_incomplete", id="cut behind a chunk"),
        pytest.param(RawResponse(CHUNKED + b"2"), 502, "upstream_incomplete", id="cut within a chunk size"),
        pytest.param(RawResponse(CHUNKED + b"zz\r\n{}\r\n", "keep"), 502, "upstream_incomplete", id="no chunk size"),
        pytest.param(
            RawResponse(CHUNKED + b"-2\r\n{}\r\n", "keep"), 502, "upstream_incomplete", id="negative chunk size"
        ),
        pytest.param(
            RawResponse(CHUNKED + b"1\r\n{}\r\n", "keep"), 502, "upstream_incomplete", id="chunk size too small"
        ),
        pytest.param(
            RawResponse(CHUNKED + b"f" * 17 + b"\r\n", "keep"), 502, "upstream_incomplete", id="huge chunk size"
        ),
        pytest.param(
            RawResponse(CHUNKED + b"2\r\n{}\r\n0\r\nX: " + b"x" * 300_000),
            502,
            "upstream_incomplete",
            id="endless trailer",
        ),
        pytest.param(RawResponse(CHUNKED + b"2;" + b"x" * 300_000), 502, "upstream_incomplete", id="endless extension"),
    ],
)
def test_a_fault_is_an_error_that_is_not_to_be_repeated(
    router: RunningRouter, engine: MockEngine, reply: ScriptedResponse, status: int, code: str
) -> None:
    """An engine that fails before an answer was begun has its fault reported once, with a status of its own."""
    engine.answer_next(reply)
    answer = _ask(router)
    assert_error(answer, status, code)
    assert answer.header("x-should-retry") == "false"
    assert len(engine.received) == 1
    assert "Traceback" not in router.log()


def test_an_engine_that_reads_nothing_is_given_up() -> None:
    """An engine whose system takes connections, and which does nothing, is a 504."""
    given_up = Event()

    def ignore(_: socket.socket) -> None:
        given_up.wait(20)

    settings = {"ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS": "0.3", "ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS": "0.3"}
    with RawEngine(ignore) as engine, running_router(None, [engine.url], settings) as router:
        assert_error(_ask(router), 504, "upstream_timeout")
        assert_error(_ask(router, chat_of_length(20_000_000)), 504, "upstream_timeout")
        given_up.set()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"x", id="a byte"),
        pytest.param(b"\r\n", id="a line end"),
        pytest.param(COUNTED.replace(b"{}", b"[]"), id="an answer nobody asked for"),
        pytest.param(COUNTED[:40], id="half an answer"),
        pytest.param(b"x" * 200_000, id="more than is read at once"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["counted", "chunked stream"])
def test_more_than_was_promised_does_not_reach_the_next_request(
    router_of: RouterOf, engine: MockEngine, more: bytes, *, stream: bool
) -> None:
    """What an engine sends behind the end of an answer is nobody's: the next request has its own answer."""
    router = router_of(ROUTER_RETRIES="1")  # its own: the engine's connections are not reused for a minute
    whole = STREAM_HEAD + b"%x\r\n%s\r\n0\r\n\r\n" % (len(DONE), DONE) if stream else COUNTED
    engine.answer_next(RawResponse(whole + more, "keep"), MockResponse.json({"own": 1}))
    assert _ask(router).body == (DONE if stream else b"{}")
    assert _ask(router).json() == {"own": 1}


def _drip(data: bytes) -> list[Piece]:
    return [bytes([byte]) for byte in data]


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        pytest.param(COUNTED, b"{}", id="counted"),
        pytest.param(CHUNKED + b"2;a=b\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n", b"{}", id="chunked"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + COUNTED, b"{}", id="behind an interim answer"),
        pytest.param(STREAM_HEAD + b"%x\r\n%s\r\n0\r\n\r\n" % (len(DONE), DONE), DONE, id="streamed"),
    ],
)
def test_an_answer_in_drips_is_whole(router: RunningRouter, engine: MockEngine, wire: bytes, body: bytes) -> None:
    """An answer that comes a byte at a time is the same answer, and keeps its connection unless it is a stream."""
    engine.answer_next(RawResponse(_drip(wire), "keep"))
    assert [_ask(router).body, _ask(router).status] == [body, 200]
    assert len({received.connection for received in engine.received}) == (2 if body == DONE else 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is read from /proc")
def test_an_answer_of_a_gigabyte_takes_no_memory(engine: MockEngine) -> None:
    """An answer of any length is relayed as it comes, however fast the engine and slow the client."""
    piece = bytes(1 << 20)
    engine.answer_next(MockResponse(body=itertools.repeat(piece, FLOOD_BYTES // len(piece)), framing="chunked"))
    with running_router(None, [engine.url]) as router, RawClient(router.port) as client:
        worker = worker_of(router)
        forget_peak(worker)
        before = resident_bytes(worker, peak=True)
        _begin(client)
        assert sum(map(len, iter(client.chunk, b""))) == FLOOD_BYTES
        assert resident_bytes(worker, peak=True) - before < FLAT_BYTES


def _for_ever(piece: bytes) -> Iterator[Piece]:
    """Send a piece again and again, with a pause so short that no idle time is exceeded, for as long as it is read."""
    while True:
        yield piece
        NEVER.wait(0.01)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(lambda: RawResponse(_for_ever(b"X: 1\r\n")), id="headers"),
        pytest.param(lambda: RawResponse(_for_ever(b"x")), id="no answer"),
        pytest.param(lambda: MockResponse(body=_for_ever(b"x"), framing="chunked"), id="chunks"),
        pytest.param(
            lambda: MockResponse(headers=[("Content-Length", "9999")], body=_for_ever(b"x")), id="a counted body"
        ),
        pytest.param(lambda: RawResponse(itertools.chain([CHUNKED, b"2;"], _for_ever(b"x"))), id="a chunk's size"),
    ],
)
def test_an_answer_that_drips_for_ever_is_ended(
    hurried: RunningRouter, engine: MockEngine, reply: Callable[[], ScriptedResponse]
) -> None:
    """An engine that always sends a little more is given up after ROUTER_UPSTREAM_TOTAL_TIMEOUT_SECONDS."""
    engine.answer_next(reply())
    answer = _ask(hurried)
    assert answer.status in (502, 504)
    assert answer.header("x-should-retry") == "false"


@pytest.mark.parametrize("pause", [False, True], ids=["without a pause", "in drips"])
def test_a_stream_that_flows_for_ever_is_ended(hurried: RunningRouter, engine: MockEngine, *, pause: bool) -> None:
    """A stream that never ends ends with an error after ROUTER_UPSTREAM_TOTAL_TIMEOUT_SECONDS, at any speed."""
    body = _for_ever(EVENT) if pause else itertools.repeat(EVENT * 100)
    engine.answer_next(MockResponse(headers=EVENT_STREAM, body=body, framing="chunked"))
    with RawClient(hurried.port) as client:
        _begin(client)
        stream = b"".join(iter(client.chunk, b""))
    assert _code_at_end(stream) == "upstream_timeout"
    engine.wait_closed(engine.received[0].connection)


def test_a_long_answer_that_flows_for_ever_is_cut(hurried: RunningRouter, engine: MockEngine) -> None:
    """A long answer that never ends is cut for its client after ROUTER_UPSTREAM_TOTAL_TIMEOUT_SECONDS."""
    engine.answer_next(MockResponse(headers=JSON, body=itertools.repeat(bytes(1 << 20)), framing="chunked"))
    with RawClient(hurried.port) as client:
        _begin(client)
        with pytest.raises((EOFError, ConnectionError)):
            for _ in iter(client.chunk, b""):
                pass


@pytest.mark.parametrize("alias", [False, True], ids=["relayed", "renamed"])
def test_a_silent_stream_gets_comments(commenting: RunningRouter, engine: MockEngine, *, alias: bool) -> None:
    """In silence a client gets comment lines, between lines alone, and without them the stream is the engine's."""
    name = b"latest" if alias else b"served"
    pieces = [
        b"",
        EVENT,
        b": own\r\n",
        EVENT.replace(b"\n", b"\r\n"),
        b'event: e\ndata: {"a":\n',
        b"data: 1}\n\n",
        DONE,
    ]
    gates = [Event() for _ in pieces]
    engine.answer_next(MockResponse.sse(*[each for pair in zip(pieces, gates, strict=True) for each in pair]))
    seen = []
    with RawClient(commenting.port) as client:
        _begin(client, chat(stream=True, model=name.decode()))
        for gate in gates:
            while (piece := client.chunk()) != COMMENT:
                seen.append(piece)
            gate.set()
        seen += iter(client.chunk, b"")
    assert b"".join(each for each in seen if each != COMMENT) == b"".join(pieces).replace(b"served", name)


def test_comments_end_with_the_patience_for_the_engine(commenting: RunningRouter, engine: MockEngine) -> None:
    """Comments do not keep a silent engine: after ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS its stream ends in an error."""
    engine.answer_next(MockResponse.sse(EVENT, Event()))
    with RawClient(commenting.port) as client:
        _begin(client)
        stream = b"".join(iter(client.chunk, b""))
    assert re.match(re.escape(EVENT) + rb"(:\n)+\n\ndata: ", stream)
    assert _code_at_end(stream) == "upstream_timeout"


def test_no_comment_comes_within_a_line(commenting: RunningRouter, engine: MockEngine) -> None:
    """While an engine is silent within a line, comments come before it, and of the half line nothing."""
    engine.answer_next(MockResponse.sse(EVENT + EVENT[:10], Event()))
    with RawClient(commenting.port) as client:
        _begin(client)
        stream = b"".join(iter(client.chunk, b""))
    assert re.match(re.escape(EVENT) + rb"(:\n)+\n\ndata: ", stream)


def test_no_comment_comes_within_a_compressed_stream(commenting: RunningRouter, engine: MockEngine) -> None:
    """Compressed bytes stay the engine's alone."""
    body = gzip.compress(EVENT)
    engine.answer_next(MockResponse.sse(body, Event(), headers=[("Content-Encoding", "gzip")]))
    got = []
    with RawClient(commenting.port) as client:
        _begin(client)
        with pytest.raises(EOFError):
            got += iter(client.chunk, b"")
    assert got in ([], [body])


def test_openai_python_reads_a_stream_with_comments(commenting: RunningRouter, engine: MockEngine) -> None:
    """The client library passes over the comments, of which one comes in each silence."""
    gates = [Event() for _ in range(5)]
    engine.answer_next(MockResponse.sse(*[each for gate in gates for each in (EVENT, gate)], DONE))
    with openai.OpenAI(base_url=f"{commenting.url}/v1", api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(
            model="served", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        silences = iter(gates)
        wire = stream.response.iter_bytes

        def listen() -> Iterator[bytes]:
            """Let the engine go on once a comment has come."""
            for piece in wire():
                yield piece
                if b"\n" + COMMENT in b"\n" + piece:
                    next(silences, Event()).set()

        stream.response.iter_bytes = listen
        assert [chunk.id for chunk in stream] == ["1"] * 5
    assert all(gate.is_set() for gate in gates)


LONG_AND_CUT = {
    "long answer": CHUNKED + b"900000\r\n" + bytes(0x900000) + b"\r\n5\r\nab",
    "compressed stream": STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n") + b"2\r\n\x1f\x8b\r\n",
}


@pytest.mark.parametrize("cut", LONG_AND_CUT.values(), ids=LONG_AND_CUT)
@pytest.mark.parametrize("protocol", [b"1.0", b"1.1"])
def test_a_cut_answer_never_looks_whole(router: RunningRouter, engine: MockEngine, cut: bytes, protocol: bytes) -> None:
    """Who is sent no chunks gets a reset where an answer without a length breaks off, and who is gets no last one."""
    engine.answer_next(RawResponse([cut]))
    with RawClient(router.port) as client:
        client.send(b"POST %s HTTP/%s\r\nHost: x\r\n" % (CHAT.encode(), protocol))
        client.send(b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM)
        with pytest.raises(ConnectionResetError if protocol == b"1.0" else EOFError):
            client.answer()
