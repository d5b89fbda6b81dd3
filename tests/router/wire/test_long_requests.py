"""Long requests on their way to engines that answer before they have read all, or never read."""

import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from router.mock_engine import MockEngine, MockResponse
from tests.router.rawclient import RawAnswer, RawClient, chunked, post_head
from tests.router.rawengine import MODELS, RawEngine, ok, read_request
from tests.router.serving import RunningRouter, running_router
from tests.router.wire.chat import CHAT, assert_error, chat_of_length
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
