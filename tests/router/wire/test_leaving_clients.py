"""Clients that leave: the engine is let go of at once, nothing leaks; and clients that only finished sending."""

import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from threading import Event

import pytest

from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import JSON, ScriptedResponse
from tests.router.conftest import RouterOf
from tests.router.process import descriptors, resident_bytes, threads, worker_of
from tests.router.rawclient import RawClient, post_head
from tests.router.rawengine import RawEngine
from tests.router.serving import RunningRouter, running_router, wait_until
from tests.router.wire.chat import CHAT, chat, chat_of_length

pytestmark = [
    pytest.mark.any_server,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a client that left in silence"),
]

EVENT = b'data: {"n":1}\n\n'
DONE = b"data: [DONE]\n\n"
UPLOAD_BYTES = 30_000_000
IN_FLIGHT = 16
ABORTED = 1000
THREADS_AT_MOST = 4 * IN_FLIGHT
"""A worker has a bounded number of threads, some for what is not in flight; one lost each time would show."""
MORE_BYTES = 24 * 1024 * 1024
"""How much a thousand aborted requests may leave in the memory of a process: what allocators keep, no more."""


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router with all the patience there is."""
    return router_of()


def _send(client: RawClient, body: bytes = chat()) -> None:
    client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)


def _counted(body: bytes, *pieces: bytes | Event) -> MockResponse:
    return MockResponse(headers=[*JSON, ("Content-Length", str(len(body) + 2))], body=[body, *pieces])


SILENCES: dict[str, Callable[[], ScriptedResponse]] = {
    "before the head": lambda: MockResponse(hold=Event()),
    "before the first event": lambda: MockResponse.sse(Event()),
    "in a stream": lambda: MockResponse.sse(EVENT, Event()),
    "within a body": lambda: _counted(b"{}", Event()),
    "before a body": lambda: _counted(b"", Event()),
    "behind an interim answer": lambda: MockResponse(status=102, framing="none", hold=None, body=[Event()]),
}


@pytest.mark.parametrize("silence", SILENCES)
def test_an_engine_is_let_go_of_when_its_client_leaves(router: RunningRouter, engine: MockEngine, silence: str) -> None:
    """Whatever the engine is silent about, its connection closes when the client's does, and carries nothing more."""
    engine.answer_next(SILENCES[silence]())
    with RawClient(router.port) as client:
        _send(client)
        (received,) = engine.wait_for(1)
        if silence == "in a stream":
            assert client.head()[0] == 200
            assert client.chunk() == EVENT
    engine.wait_closed(received.connection)
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat()).status == 200
    assert engine.received[-1].connection != received.connection
    assert "Traceback" not in router.log()


def test_a_running_stream_ends_when_its_client_leaves(router: RunningRouter, engine: MockEngine) -> None:
    """A stream that flows without a pause stops at the engine too."""

    def endless() -> Iterator[bytes]:
        while True:
            yield EVENT

    engine.answer_next(MockResponse(headers=EVENT_STREAM, body=endless(), framing="chunked"))
    with RawClient(router.port) as client:
        _send(client)
        assert client.head()[0] == 200
        assert client.chunk()
    engine.wait_closed(engine.received[0].connection)
    assert "Traceback" not in router.log()


def test_an_upload_ends_when_its_client_leaves() -> None:
    """A long body that an engine is slow to take is not brought to its end for a client that left."""
    begun, gone = Event(), Event()
    taken: SimpleQueue[int] = SimpleQueue()

    def serve(connection: socket.socket) -> None:
        length = len(connection.recv(1000))
        begun.set()
        assert gone.wait(20)
        with suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                length += len(piece)
        taken.put(length)

    with RawEngine(serve) as engine, running_router(None, [engine.url]) as router:
        with RawClient(router.port) as client:
            _send(client, chat_of_length(UPLOAD_BYTES))
            assert begun.wait(20)
        gone.set()
        assert taken.get(timeout=20) < UPLOAD_BYTES
        assert "Traceback" not in router.log()


def _finish_sending(client: RawClient) -> None:
    client.socket.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_only_finished_sending_gets_its_answer(
    router: RunningRouter, engine: MockEngine, *, stream: bool
) -> None:
    """An HTTP/1.1 client that closes its sending half is asked by a 100 Continue, and answered in full."""
    gate = Event()
    engine.answer_next(
        MockResponse.sse(gate, EVENT, DONE) if stream else MockResponse(headers=JSON, body=b"{}", hold=gate)
    )
    with RawClient(router.port) as client:
        _send(client)
        _finish_sending(client)
        assert client.head() == (100, [])
        gate.set()
        answer = client.answer()
        assert (answer.status, answer.body) == (200, EVENT + DONE if stream else b"{}")
        assert client.at_end()


def test_a_client_that_finished_sending_within_a_stream_gets_the_rest(
    router: RunningRouter, engine: MockEngine
) -> None:
    """Within a stream the question is one SSE comment, and every event comes."""
    gate = Event()
    engine.answer_next(MockResponse.sse(EVENT, gate, EVENT, DONE))
    with RawClient(router.port) as client:
        _send(client)
        assert client.head()[0] == 200
        assert client.chunk() == EVENT
        _finish_sending(client)
        assert client.chunk() == b":\n"
        gate.set()
        assert b"".join(iter(client.chunk, b"")) == EVENT + DONE


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_a_client_that_finished_sending_and_leaves_later_is_found_out(
    router: RunningRouter, engine: MockEngine, protocol: str
) -> None:
    """Where no byte may be written to ask, TCP itself asks, and a client that left answers with a reset."""
    engine.answer_next(MockResponse(hold=Event()))
    with RawClient(router.port) as client:
        # Else Linux says for a minute that the client is there.
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 1)
        client.send(b"POST %s %s\r\nHost: x\r\n" % (CHAT.encode(), protocol.encode()))
        client.send(b"Content-Length: %d\r\n\r\n%s" % (len(chat()), chat()))
        _finish_sending(client)
        if protocol == "HTTP/1.1":
            assert client.head() == (100, [])
        (received,) = engine.wait_for(1)
    engine.wait_closed(received.connection, 30)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_old_client_that_only_finished_sending_gets_its_answer(
    router: RunningRouter, engine: MockEngine, *, stream: bool
) -> None:
    """HTTP/1.0 knows no interim answers: such a client gets its answer alone."""
    gate = Event()
    engine.answer_next(
        MockResponse.sse(gate, EVENT, DONE) if stream else MockResponse(headers=JSON, body=b"{}", hold=gate)
    )
    with RawClient(router.port) as client:
        client.send(b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(chat()), chat()))
        _finish_sending(client)
        engine.wait_for(1)
        gate.set()
        answer = client.answer()
    assert (answer.status, answer.body) == (200, EVENT + DONE if stream else b"{}")


def _silent(received: ReceivedRequest) -> ScriptedResponse | None:
    return SILENCES[received.json()["silence"]]() if received.method == "POST" else None


def _leave(port: int, number: int) -> None:
    """Send a request and leave: in the middle of its body, at once, when the engine has it, or within its answer."""
    silence = list(SILENCES)[number % len(SILENCES)]
    body = chat(silence=silence)
    with suppress(ConnectionError, EOFError), RawClient(port) as client:
        if number % 7 == 0:
            client.send(post_head(CHAT, {"Content-Length": "1000"}) + body)
            return
        _send(client, body)
        if number % 5 == 0:
            _finish_sending(client)
        elif silence == "in a stream" and number % 2:
            client.head()
            client.chunk()


def test_a_thousand_clients_that_leave_leave_nothing_behind() -> None:
    """After a thousand aborted requests of all kinds there is no more socket, thread or memory than before."""
    with MockEngine() as engine, ThreadPoolExecutor(8) as pool:
        engine.recording = False
        settings = {"ROUTER_MAX_IN_FLIGHT": str(IN_FLIGHT), "ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "600"}
        with running_router(None, [engine.url], settings) as router:
            worker = worker_of(router)
            engine.script(_silent)
            idle = descriptors(worker), engine.open_connections

            def is_idle() -> bool:
                return descriptors(worker) <= idle[0] and engine.open_connections <= idle[1]

            def leave(count: int) -> None:
                list(pool.map(lambda number: _leave(router.port, number), range(count)))
                wait_until(
                    is_idle,
                    lambda: f"{descriptors(worker)} descriptors, {engine.open_connections} at the engine, not {idle}",
                )

            leave(ABORTED // 5)
            warm = resident_bytes(worker)
            leave(ABORTED)
            assert threads(worker) <= THREADS_AT_MOST
            assert resident_bytes(worker) < warm + MORE_BYTES
            engine.script(None)
            with RawClient(router.port) as client:
                assert client.post(CHAT, chat()).status == 200
            assert "Traceback" not in router.log()
