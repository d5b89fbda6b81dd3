"""Long requests on their way to engines that answer before they have read all, or never read."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Limits
from router.mock_engine import MockEngine, MockResponse
from tests.router.rawclient import RawAnswer, RawClient, chunked, post_head
from tests.router.rawengine import MODELS, RawEngine, ok, read_request
from tests.router.serving import RunningRouter, artifact_file, running_router, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat, chat_of_length
from tests.router.wire.tls import make_certificate


def _ask(router: RunningRouter, body: bytes) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.post(CHAT, body)


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n"])
def test_an_interim_answer_does_not_end_an_upload(interim: bytes) -> None:
    """An engine that announces its answer while it reads gets the rest of the body."""

    def serve(connection: socket.socket) -> None:
        connection.recv(1, socket.MSG_PEEK)
        connection.sendall(interim)
        request = read_request(connection)
        connection.sendall(ok(b"%d" % len(request[1] if request else b"")))

    with RawEngine(serve) as engine, running_router(None, [engine.url]) as router:
        assert _ask(router, chat_of_length(20_000_000)).body == b"20000000"


@pytest.mark.parametrize("pieces", [1, 7], ids=["at once", "in drips"])
def test_a_refusal_behind_an_interim_answer_ends_an_upload(pieces: int) -> None:
    """An engine that says 100 and then refuses without reading on is heard, however its bytes come."""
    early = b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}"

    def serve(connection: socket.socket) -> None:
        connection.recv(1, socket.MSG_PEEK)
        for start in range(0, len(early), len(early) // pieces):
            connection.sendall(early[start : start + len(early) // pieces])
        over.wait()

    over = threading.Event()
    with RawEngine(serve) as engine, running_router(None, [engine.url]) as router:
        assert _ask(router, chat_of_length(20_000_000)).status == 413
        over.set()


def test_an_engine_behind_tls_that_reads_nothing_is_given_up(tmp_path: Path) -> None:
    """Session tickets that wait to be read do not keep a request from ending in time."""
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection = context.wrap_socket(listener.accept()[0], server_side=True)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: ssl.SSLSocket) -> None:
        with connection, suppress(OSError):
            if connection.recv(3) == b"GET":
                connection.sendall(ok(MODELS).replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            else:
                over.wait()

    settings = {
        "ROUTER_ENGINE_CA": str(certificate),
        "ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS": "0.5",
        "ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS": "19",
        "ROUTER_UPSTREAM_TOTAL_TIMEOUT_SECONDS": "19",
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with running_router(None, [url], settings) as router:
            assert_error(_ask(router, chat_of_length(20_000_000)), 504, "upstream_timeout")
        over.set()
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("framing", ["counted", "chunked"])
def test_a_long_request_that_is_read_holds_up_no_other(engine: MockEngine, framing: str) -> None:
    """While some wait for their answers the next one is read, up to the bound of requests in flight."""
    body = chat_of_length(200_000)
    fields = {"Content-Length": str(len(body))} if framing == "counted" else {"Transfer-Encoding": "chunked"}
    request = post_head(CHAT, fields) + (body if framing == "counted" else chunked(body))
    gate = threading.Event()
    engine.answer_next(*[MockResponse(body=b"{}", hold=gate)] * 4)
    with running_router(None, [engine.url], {"ROUTER_MAX_IN_FLIGHT": "4"}) as router, ExitStack() as opened:
        clients = []
        for number in range(1, 5):
            clients.append(opened.enter_context(RawClient(router.port)).send(request))
            engine.wait_for(number)
        gate.set()
        assert [client.answer().status for client in clients] == [200] * 4


LONG = chat_of_length(300_000)
COUNTED = {"Content-Length": str(len(LONG))}
CHUNKED = {"Transfer-Encoding": "chunked"}
WAYS = {
    "counted": post_head(CHAT, COUNTED) + LONG,
    "chunked": post_head(CHAT, CHUNKED) + chunked(LONG[:200_000], LONG[200_000:]),
}


@pytest.fixture(scope="module")
def narrow(engine: MockEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """A router with room for one long body, which waits for a second."""
    artifact = artifact_file(tmp_path_factory.mktemp("artifact"), Contract(limits=Limits(max_body_bytes=400_000)))
    settings = {"ROUTER_MAX_BUFFERED_BYTES": "400KiB", "ROUTER_CLIENT_BODY_TIMEOUT_SECONDS": "1"}
    with running_router(artifact, [engine.url], settings) as router:
        yield router


@pytest.mark.parametrize("way", WAYS)
def test_a_long_body_waits_for_room(narrow: RunningRouter, engine: MockEngine, way: str) -> None:
    """Its client is read on when the one before has its response; short requests pass both."""
    gate = threading.Event()
    engine.answer_next(MockResponse(body=b"{}", hold=gate))
    with ExitStack() as opened:
        first, second, short = [opened.enter_context(RawClient(narrow.port)) for _ in range(3)]
        first.send(WAYS[way])
        engine.wait_for(1)
        second.send(WAYS[way])
        assert [short.post(CHAT, chat()).status for _ in range(3)] == [200] * 3
        assert len(engine.received) == 4
        gate.set()
        assert [first.answer().status, second.answer().status] == [200, 200]
    assert [len(received.body) for received in engine.received].count(len(LONG)) == 2


def test_a_long_body_without_room_is_overloaded(narrow: RunningRouter, engine: MockEngine) -> None:
    """After the time that a body may take it is a 503, is not asked for, and has left no room taken."""
    gate = threading.Event()
    for _ in range(2):
        engine.clear()
        gate.clear()
        engine.answer_next(MockResponse(body=b"{}", hold=gate))
        with RawClient(narrow.port) as first, RawClient(narrow.port) as second:
            first.send(WAYS["counted"])
            engine.wait_for(1)
            assert_error(second.send(post_head(CHAT, COUNTED | {"Expect": "100-continue"})).answer(), 503, "overloaded")
            gate.set()
            assert first.answer().status == 200


def test_a_stalled_long_body_gives_its_room_back(narrow: RunningRouter, engine: MockEngine) -> None:
    """A client that stalls, or leaves, within its body keeps the next one waiting for no longer than its own time."""
    for leaves in (False, True):
        with RawClient(narrow.port) as stalled, RawClient(narrow.port) as client:
            stalled.send(post_head(CHAT, COUNTED) + LONG[:1000])
            if leaves or stalled.answer().status == 400:
                stalled.close()
            wait_until(lambda client=client: client.send(WAYS["counted"]).answer().status == 200)  # type: ignore[misc]
    assert engine.received
