"""Streams: relayed byte for byte as they come, renamed where an alias was asked for, ended honestly."""

import gzip
import itertools
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any

import brotli
import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Models, plain_aliases
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse
from router.mock_engine.response import Piece
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient, chunked, post_head
from tests.router.rawengine import RawEngine, ok, read_request
from tests.router.serving import RunningRouter, running_router
from tests.router.wire.chat import CHAT, chat

pytestmark = pytest.mark.any_server

STREAM = chat(stream=True)
DONE = b"data: [DONE]\n\n"
EVENT = b'data: {"id":"1","model":"served","choices":[]}\n\n'
CUT_AT = 10
ALIASES = Models(aliases=plain_aliases("latest"))


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router that enforces nothing and soon loses patience with a silent engine."""
    return router_of(ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS="0.5", ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS="0.5")


@pytest.fixture(scope="module")
def renaming(router_of: RouterOf) -> RunningRouter:
    """A router whose answers carry the alias that was asked for."""
    return router_of(Contract(models=ALIASES))


def _send(client: RawClient, body: bytes = STREAM) -> dict[str, str]:
    """Ask for a stream and return the headers of its answer, which is a 200."""
    client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
    status, headers = client.head()
    assert status == 200
    return {name.lower(): value for name, value in headers}


def _models(stream: bytes) -> list[Any]:
    events = [line.removeprefix(b"data: ") for line in stream.splitlines() if line.startswith(b"data: ")]
    return [json.loads(event).get("model") for event in events if event != b"[DONE]"]


@pytest.mark.any_server
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b": ping\n\n", EVENT, b":\n", b": keep\r\n\r\n", DONE], id="comments"),
        pytest.param([b'data: {"t":"\xe2', b"\x9c", b'\x85"}\n\n', DONE], id="split UTF-8"),
        pytest.param([b'data: {"t":"data: [DONE]\\n\\n"}\n\n', b"data: [DO", b"NE]\n\n"], id="DONE in text"),
        pytest.param([b"data: {}\r\n", b"\r\ndata: [DONE]\r\n\r\n"], id="CRLF"),
        pytest.param([b"data: {}\r\rdata: [DONE]\r\r"], id="CR"),
        pytest.param([b"event: a\nid: 7\nretry: 1\ndata: {\ndata: }\n\n", DONE, b"data: behind\n\n"], id="all fields"),
        pytest.param([bytes([byte]) for byte in EVENT + DONE], id="bytes"),
        pytest.param([b"data: " + b"x" * 300_000 + b"\n\n", DONE], id="large event"),
        pytest.param([b'data: {"t":"\xff\xfe"}\n\n', b"\x00", b"\n\n"], id="garbage"),
    ],
)
def test_a_stream_is_relayed_byte_for_byte(router: RunningRouter, engine: MockEngine, pieces: list[bytes]) -> None:
    """Every byte of a stream reaches the client as the engine sent it, and none is added."""
    engine.answer_next(MockResponse.sse(*pieces))
    with RawClient(router.port) as client:
        _send(client)
        assert b"".join(iter(client.chunk, b"")) == b"".join(pieces)
        assert client.post(CHAT, chat()).status == 200


@pytest.mark.any_server
@pytest.mark.parametrize("served_by", ["router", "renaming"])
def test_each_piece_arrives_before_the_next_is_sent(
    request: pytest.FixtureRequest, engine: MockEngine, served_by: str
) -> None:
    """Nothing is held back: the engine sends each event only once the client has read the one before."""
    router: RunningRouter = request.getfixturevalue(served_by)
    pieces = [b": waiting\n\n", *[b'data: {"n":%d}\n\n' % number for number in range(5)], DONE]
    gates = [Event() for _ in pieces]
    script: list[Piece] = [each for pair in zip(pieces, gates, strict=True) for each in pair]
    engine.answer_next(MockResponse.sse(*script))
    with RawClient(router.port) as client:
        _send(client)
        for piece, gate in zip(pieces, gates, strict=True):
            assert client.chunk() == piece
            gate.set()
        assert client.chunk() == b""


def test_a_stream_tells_proxies_not_to_hold_it_back(router: RunningRouter) -> None:
    """A stream is chunked, not to be buffered and not to be cached; a plain answer says nothing of the kind."""
    with RawClient(router.port) as client:
        headers = _send(client)
        assert headers["x-accel-buffering"] == "no"
        assert headers["cache-control"] == "no-cache"
        assert headers["transfer-encoding"] == "chunked"
        assert headers["content-type"].startswith("text/event-stream")
        assert b"".join(iter(client.chunk, b"")).endswith(DONE)
        assert client.post(CHAT, chat()).header("X-Accel-Buffering") is None


def test_the_engines_own_cache_control_stays(router: RunningRouter, engine: MockEngine) -> None:
    """A Cache-Control of the engine's own is passed on alone."""
    engine.answer_next(MockResponse.sse(DONE, headers=[("Cache-Control", "private")]))
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(len(STREAM))}) + STREAM)
        assert client.answer().header("Cache-Control") == "private"


def test_an_alias_is_what_its_stream_and_its_answer_say(renaming: RunningRouter, engine: MockEngine) -> None:
    """A request to an alias gets the alias back in every chunk and in the body, and the engine gets the served id."""
    with RawClient(renaming.port) as client:
        _send(client, chat(model="latest", stream=True))
        models = _models(b"".join(iter(client.chunk, b"")))
        whole = client.post(CHAT, chat(model="latest"))
    assert len(models) > 10
    assert set(models) == {"latest"}
    assert whole.json()["model"] == "latest"
    assert [received.json()["model"] for received in engine.received] == ["served", "served"]
    assert [received.values("Accept-Encoding") for received in engine.received] == [["identity"], ["identity"]]


def test_only_the_name_is_changed_in_a_renamed_stream(renaming: RunningRouter, engine: MockEngine) -> None:
    """Comments, line ends, texts and nested members named `model` keep their bytes, however the stream is cut."""
    stream = (
        b': "model":"served"\r\n\r\n'
        b'data: { "model" : "served", "x":{"model":"served"}, '
        b'"t":"\\"model\\":\\"served\\" \xe2\x9c\x85", "n":1e2}\r\n\r\n'
        b'event: e\ndata:{"t":"[DONE]",\ndata: "model":"served"}\n\n'
        b'data: not json "model":"served"\n\n' + DONE
    )
    renamed = stream.replace(b'{ "model" : "served"', b'{ "model" : "latest"')
    renamed = renamed.replace(b'data: "model":"served"', b'data: "model":"latest"')
    pieces = [stream[at : at + 7] for at in range(0, len(stream), 7)]
    engine.answer_next(MockResponse.sse(*pieces))
    with RawClient(renaming.port) as client:
        _send(client, chat(model="latest", stream=True))
        assert b"".join(iter(client.chunk, b"")) == renamed


def test_the_served_id_is_not_renamed(renaming: RunningRouter, engine: MockEngine) -> None:
    """Who asks for the served id gets the engine's own bytes."""
    engine.answer_next(MockResponse.sse(EVENT.replace(b"served", b"engine's own"), DONE))
    with RawClient(renaming.port) as client:
        _send(client)
        assert _models(b"".join(iter(client.chunk, b""))) == ["engine's own"]


def test_answers_may_keep_the_served_name(router_of: RouterOf, engine: MockEngine) -> None:
    """Under `respond_as: served` an alias is routed, and the answer keeps the engine's name."""
    router = router_of(Contract(models=Models(aliases=plain_aliases("latest"), respond_as="served")))
    with RawClient(router.port) as client:
        _send(client, chat(model="latest", stream=True))
        assert set(_models(b"".join(iter(client.chunk, b"")))) == {"served"}
        assert client.post(CHAT, chat(model="latest")).json()["model"] == "served"
    assert engine.received[0].json()["model"] == "served"


def _cut(gate: Event) -> MockResponse:
    size = b"%x\r\n" % len(EVENT)
    return replace(MockResponse.sse(EVENT, EVENT), cut_after=len(size + EVENT + b"\r\n" + size) + CUT_AT)


def _without_last_chunk(gate: Event) -> MockResponse:
    return replace(MockResponse.sse(EVENT), last_chunk=False, then="close")


def _by_bare_end(gate: Event) -> MockResponse:
    return MockResponse(headers=EVENT_STREAM, body=[EVENT], framing="close")


def _shorter_than_promised(gate: Event) -> MockResponse:
    return MockResponse(headers=[*EVENT_STREAM, ("Content-Length", "999")], body=EVENT, then="close")


def _by_reset(gate: Event) -> MockResponse:
    return replace(MockResponse.sse(EVENT, gate), last_chunk=False, then="reset")


def _with_a_bad_chunk(gate: Event) -> MockResponse:
    body = b"%x\r\n%s\r\nnonsense\r\n" % (len(EVENT), EVENT)
    return MockResponse(headers=[*EVENT_STREAM, ("Transfer-Encoding", "chunked")], body=body, framing="none")


def _in_silence(gate: Event) -> MockResponse:
    return MockResponse.sse(EVENT, Event())


@pytest.mark.any_server
@pytest.mark.parametrize("alias", [False, True], ids=["relayed", "renamed"])
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (_cut, "upstream_incomplete"),
        (_without_last_chunk, "upstream_incomplete"),
        (_by_bare_end, "upstream_incomplete"),
        (_shorter_than_promised, "upstream_incomplete"),
        (_by_reset, "upstream_incomplete"),
        (_with_a_bad_chunk, "upstream_incomplete"),
        (_in_silence, "upstream_timeout"),
    ],
    ids=lambda value: value.__name__.removeprefix("_") if callable(value) else value,
)
def test_a_stream_that_breaks_off_says_so(
    router_of: RouterOf, engine: MockEngine, ending: Callable[[Event], MockResponse], code: str, *, alias: bool
) -> None:
    """A broken stream ends with one error event behind a blank line, and without [DONE]."""
    contract, name = (Contract(models=ALIASES), "latest") if alias else (None, "served")
    router = router_of(
        contract, ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS="0.5", ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS="0.5"
    )
    gate = Event()
    engine.answer_next(ending(gate))
    event = EVENT.replace(b"served", name.encode())
    with RawClient(router.port) as client:
        _send(client, chat(model=name, stream=True))
        begun = client.chunk()
        gate.set()
        stream = begun + b"".join(iter(client.chunk, b""))
        assert client.get("/healthz").status == 200
    assert stream.startswith(event)
    before, _, last = stream.removesuffix(b"\n\n").rpartition(b"\n\ndata: ")
    assert before + b"\n\n" in (event, event + b"\n\n")
    error = json.loads(last)["error"]
    assert (error["type"], error["code"], error["param"]) == ("server_error", code, None)
    assert b"[DONE]" not in stream


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(MockResponse.sse(EVENT), id="chunked to its end, without DONE"),
        pytest.param(
            MockResponse.sse(b'data: {"error":{"message":"m","code":500}}\n\n', DONE), id="an error of the engine's"
        ),
        pytest.param(
            MockResponse(headers=EVENT_STREAM, body=[EVENT, DONE], framing="close"), id="bare end behind DONE"
        ),
        pytest.param(replace(MockResponse.sse(EVENT, DONE), last_chunk=False, then="close"), id="cut behind DONE"),
        *(
            pytest.param(
                MockResponse(headers=EVENT_STREAM, body=[EVENT, *last], framing="close"), id=f"bare end: {number}"
            )
            for number, last in enumerate(
                (
                    [DONE, b": bye\n\n"],
                    [DONE, b"\n" * 80],
                    [b"event: x\ndata: [DONE]\nid: 7\n\n"],
                    [
                        DONE[:9],
                        DONE[9:],
                        b": a comment that comes later and is longer than what is remembered of a stream\n\n",
                    ],
                    [b"data: [DONE]"],
                    [b"data:[DONE]\r\r", b"event: late\r", b"data: {}\r\r"],
                )
            )
        ),
        pytest.param(MockResponse(headers=EVENT_STREAM, body=EVENT + DONE), id="counted"),
    ],
)
def test_a_stream_that_is_whole_gets_no_error(router: RunningRouter, engine: MockEngine, answer: MockResponse) -> None:
    """Nothing is added to a stream that ended as streams do, whatever the engine said in it."""
    engine.answer_next(answer)
    assert not isinstance(answer.body, bytes) or answer.framing == "length"
    pieces = [answer.body] if isinstance(answer.body, bytes) else list(answer.body)
    with RawClient(router.port) as client:
        _send(client)
        assert b"".join(iter(client.chunk, b"")) == b"".join(piece for piece in pieces if isinstance(piece, bytes))


@pytest.mark.parametrize(("coding", "compress"), [("gzip", gzip.compress), ("br", brotli.compress)])
@pytest.mark.parametrize("model", ["served", "latest"])
def test_a_compressed_stream_passes_as_it_is(
    renaming: RunningRouter, engine: MockEngine, model: str, coding: str, compress: Callable[[bytes], bytes]
) -> None:
    """A stream with a content coding keeps its bytes and its label, also when an alias was asked for."""
    body = compress(EVENT + DONE)
    engine.answer_next(MockResponse.sse(body[:20], body[20:], headers=[("Content-Encoding", coding)]))
    with RawClient(renaming.port) as client:
        assert _send(client, chat(model=model, stream=True))["content-encoding"] == coding
        assert b"".join(iter(client.chunk, b"")) == body


@pytest.mark.any_server
def test_a_compressed_stream_that_breaks_off_is_cut(router: RunningRouter, engine: MockEngine) -> None:
    """No event can be written behind compressed bytes: the client's connection is cut instead."""
    answer = MockResponse.sse(gzip.compress(EVENT), headers=[("Content-Encoding", "gzip")])
    engine.answer_next(replace(answer, last_chunk=False, then="close"))
    with RawClient(router.port) as client:
        _send(client)
        with pytest.raises(EOFError):
            list(iter(client.chunk, b""))


@pytest.mark.any_server
def test_a_client_that_leaves_ends_the_stream_at_the_engine(router: RunningRouter, engine: MockEngine) -> None:
    """Once a client is gone, the next write finds out and closes the engine's connection."""
    engine.answer_next(MockResponse(headers=EVENT_STREAM, body=itertools.repeat(EVENT), framing="chunked"))
    with RawClient(router.port) as client:
        _send(client)
        assert client.chunk()
    engine.wait_closed(engine.received[0].connection)


def test_a_connection_that_carried_a_stream_is_not_used_again(router: RunningRouter, engine: MockEngine) -> None:
    """Behind a stream that ended whole the next request has another connection: llama.cpp would close this one."""
    with RawClient(router.port) as client:
        for _ in range(3):
            _send(client)
            assert b"".join(iter(client.chunk, b"")).endswith(DONE)
            assert client.post(CHAT, chat()).status == 200
    streamed = {received.connection for received in engine.received[::2]}
    assert len(streamed) == 3
    # Other answers keep theirs, and a stream may come over it.
    assert engine.received[1].connection == engine.received[2].connection


def test_a_stream_behind_which_the_engine_closes_costs_no_later_request() -> None:
    """llama.cpp promises `Keep-Alive` with each stream and closes behind it, which no later request may meet."""
    promise = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\n"
    head = promise + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    def serve(connection: socket.socket) -> None:
        while (request := read_request(connection)) is not None:
            if b'"stream": true' not in request[1]:
                connection.sendall(ok())
                continue
            connection.sendall(head + chunked(DONE))
            # The next request is here before the end: nothing tells it from one that was read.
            connection.recv(1, socket.MSG_PEEK)
            return

    with RawEngine(serve) as engine, running_router(None, [engine.url]) as router, RawClient(router.port) as client:
        for _ in range(3):
            _send(client)
            assert b"".join(iter(client.chunk, b"")) == DONE
            assert client.post(CHAT, chat()).status == 200


@pytest.mark.any_server
def test_an_error_before_the_stream_is_a_plain_answer(router: RunningRouter, engine: MockEngine) -> None:
    """An engine that refuses a streaming request is passed on with its status, not in an event."""
    engine.answer_next(MockResponse.json({"error": {"message": "m"}}, 422))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, STREAM)
    assert (answer.status, answer.json()) == (422, {"error": {"message": "m"}})


@pytest.mark.parametrize(
    ("route", "last"),
    [
        ("/v1/completions", DONE),
        ("/v1/responses", b'event: response.completed\ndata: {"response":{}}\n\n'),
        ("/v1/messages", b"event: message_stop\ndata: {}\n\n"),
        ("/generate", DONE),
    ],
)
def test_streams_of_other_routes_are_relayed_too(
    router: RunningRouter, engine: MockEngine, route: str, last: bytes
) -> None:
    """Whatever comes as an event stream is relayed as one, on every inference route."""
    gate = Event()
    engine.answer_next(MockResponse.sse(EVENT, gate, last))
    with RawClient(router.port) as client:
        client.send(post_head(route, {"Content-Length": "2"}) + b"{}")
        assert client.head()[0] == 200
        assert client.chunk() == EVENT
        gate.set()
        assert b"".join(iter(client.chunk, b"")) == last
