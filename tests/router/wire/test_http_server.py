"""What the server owes its clients in HTTP: the end of connections, `100 Continue`, and an error for what it cuts."""

import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Limits
from router.mock_engine import MockEngine, MockResponse
from router.server.body_reader import DRAIN_BYTES
from tests.exhaustive import exhaustive_but
from tests.router.conftest import RouterOf
from tests.router.process import children_of, threads, worker_of
from tests.router.rawclient import RawClient, chunked, head_of, post_head
from tests.router.serving import RunningRouter, launch, running_router, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat, chat_of_length
from tests.router.wire.tls import make_certificate

LIMIT = 1000
EXPECTING = {"Expect": "100-continue"}
COUNTED = {"Content-Length": str(len(chat()))}
REQUEST = post_head(CHAT, COUNTED) + chat()
EVENT = b'data: {"choices":[]}\n\n'
CONF = ("-c", "python:router.gunicorn_conf")


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router with a short body limit, and a type of its own for 400s."""
    return router_of(Contract(limits=Limits(max_body_bytes=LIMIT), errors=Errors(bad_request_type="vendor_error")))


@pytest.mark.parametrize(
    ("times", "framing"),
    exhaustive_but([(1.5, "counted")], [(times, each) for times in (1.5, 3, 10) for each in ("counted", "chunked")]),
)
def test_an_upload_far_over_the_limit_ends_for_a_client_that_does_not_read(
    router: RunningRouter, engine: MockEngine, times: float, framing: str
) -> None:
    """However much it sends before it reads, it sees its 413 or a reset, and never waits for ever."""
    length = int(times * DRAIN_BYTES)
    sizes = {"Content-Length": str(length)} if framing == "counted" else {"Transfer-Encoding": "chunked"}
    piece = bytes(1024 * 1024) if framing == "counted" else chunked(bytes(1024 * 1024))[:-5]
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, sizes))
        with suppress(ConnectionError):
            for _ in range(length // (1024 * 1024)):
                client.send(piece)
        with suppress(ConnectionError, EOFError):
            assert client.answer().status == 413
    assert engine.received == []


CONDEMNED = {
    "no such route": (head_of("POST", "/nowhere", COUNTED | EXPECTING), 404),
    "another method": (head_of("PUT", CHAT, COUNTED | EXPECTING), 405),
    "too large": (post_head(CHAT, {"Content-Length": str(LIMIT + 1)} | EXPECTING), 413),
    "compressed": (post_head(CHAT, COUNTED | EXPECTING | {"Content-Encoding": "gzip"}), 415),
    "another expectation": (post_head(CHAT, COUNTED | {"Expect": "x"}), 417),
}


@pytest.mark.parametrize(("headers", "status"), CONDEMNED.values(), ids=CONDEMNED)
def test_what_its_headers_condemn_is_not_asked_for_its_body(router: RunningRouter, headers: bytes, status: int) -> None:
    """The rejection comes instead of `100 Continue`, and ends the connection: its body may follow or not."""
    with RawClient(router.port) as client:
        answer = client.send(headers).answer()
        assert (answer.status, answer.header("Connection")) == (status, "close")
        assert client.at_end()


def test_a_client_that_will_send_nothing_is_not_asked_for_a_body(router: RunningRouter) -> None:
    """A half-closed client that expects `100 Continue` gets its 400 at once."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, COUNTED | EXPECTING))
        client.socket.shutdown(socket.SHUT_WR)
        status = client.head()[0]
        assert status in {100, 400}
        if status == 100:  # the end of the client's half came later than its headers
            status = client.answer().status
        assert status == 400


def test_a_body_that_is_there_is_not_asked_for(router: RunningRouter) -> None:
    """A client that did not wait after all gets its response alone, and its connection is kept."""
    with RawClient(router.port) as client:
        assert client.send(post_head(CHAT, COUNTED | EXPECTING) + chat()).answer().status == 200
        assert client.send(REQUEST).answer().status == 200


def test_bytes_behind_the_last_request_do_not_cost_its_response(router: RunningRouter, engine: MockEngine) -> None:
    """A request that says `Connection: close` is served whole, and what comes behind it is not."""
    with RawClient(router.port) as client:
        answer = client.send(post_head(CHAT, COUNTED | {"Connection": "close"}) + chat() + REQUEST).answer()
        assert (answer.status, answer.header("Connection")) == (200, "close")
        assert client.at_end()
    assert len(engine.received) == 1


@pytest.mark.parametrize("framing", ["counted", "chunked"])
@pytest.mark.parametrize("length", [len(chat()), 100_000])
def test_the_body_of_an_upgrade_is_its_body(router_of: RouterOf, engine: MockEngine, length: int, framing: str) -> None:
    """Java's HttpClient asks for h2c with its first request: the body is not taken for the next request."""
    body = chat(user="x" * (length - len(chat())))
    fields = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABk"}
    sizes = {"Content-Length": str(len(body))} if framing == "counted" else {"Transfer-Encoding": "chunked"}
    with RawClient(router_of().port) as client:
        client.send(post_head(CHAT, fields | sizes) + (body if framing == "counted" else chunked(body)) + REQUEST)
        assert [client.answer().status for _ in range(2)] == [200, 200]
    assert [received.body for received in engine.received] == [body, chat()]


def test_what_is_no_request_is_a_line_of_the_access_log(router: RunningRouter) -> None:
    """A request that is rejected before the app has its line, with its route where that is known, and its own id."""
    with RawClient(router.port) as client:
        answer = client.send(head_of("POST", f"{CHAT}?a=b", {"X_Y": "1"})).answer()
    assert assert_error(answer, 400, "bad_request")["type"] == "vendor_error"
    (line,) = router.access_lines_with(f'"{answer.header("x-request-id")}"')
    assert f'"route":"{CHAT}"' in line
    assert '"status":400,"code":"bad_request"' in line


FORMS = {
    "plain": (REQUEST, True),
    "query": (post_head(f"{CHAT}?a=b", COUNTED) + chat(), True),
    "two proxies": (post_head(CHAT, COUNTED | {"X-Forwarded-For": "a", "x-forwarded-for": "b"}) + chat(), True),
    "chunked": (post_head(CHAT, {"Transfer-Encoding": "chunked"}) + chunked(chat()[:9], chat()[9:]), True),
    "expecting": (post_head(CHAT, COUNTED | EXPECTING) + chat(), True),
    "nginx": (post_head(CHAT, COUNTED | {"Connection": "close"}).replace(b"HTTP/1.1", b"HTTP/1.0") + chat(), False),
    "HTTP/1.0, kept": (
        post_head(CHAT, COUNTED | {"Connection": "keep-alive"}).replace(b"HTTP/1.1", b"HTTP/1.0") + chat(),
        True,
    ),
    "long": (post_head(CHAT, {"Content-Length": "200000"}) + chat_of_length(200_000), True),
    "long, chunked": (post_head(CHAT, {"Transfer-Encoding": "chunked"}) + chunked(chat_of_length(200_000)), True),
}
TRANSPORTS = ("TCP", "TLS", "Unix")


@pytest.fixture(scope="module", params=TRANSPORTS)
def transport(
    request: pytest.FixtureRequest, engine: MockEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningRouter, Callable[[], RawClient]]]:
    """A router that listens in each of the ways, and what connects to it."""
    folder = tmp_path_factory.mktemp("transport")
    certificate, key = make_certificate(folder)
    path = str(folder / "socket")
    options = {
        "TCP": (),
        "TLS": ("--certfile", str(certificate), "--keyfile", str(key)),
        "Unix": ("-b", f"unix:{path}"),
    }
    # A health check would be a thread of its own.
    settings = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "600"}
    with running_router(None, [engine.url], settings, (*CONF, *options[request.param]), until_ready=False) as router:

        def connect() -> RawClient:
            client = RawClient(path if request.param == "Unix" else router.port)
            if request.param == "TLS":
                client.wrap(ssl.create_default_context(cafile=certificate))
            return client

        with connect() as client:
            wait_until(lambda: client.get("/readyz").status == 200, router.log)
        yield router, connect


def test_every_form_of_a_request_is_served_in_the_loop(
    transport: tuple[RunningRouter, Callable[[], RawClient]], engine: MockEngine
) -> None:
    """Its body arrives, its connection is kept where it may, and no thread starts, over each transport."""
    router, connect = transport
    with connect() as client:
        assert client.send(REQUEST).answer().status == 200
    before = threads(worker_of(router))
    for name, (wire, is_kept) in FORMS.items():
        engine.clear()
        with connect() as client:
            answer = client.send(wire).answer()
            assert (answer.status, answer.header("Connection")) == (200, "keep-alive" if is_kept else "close"), name
            assert client.get("/healthz").status == 200 if is_kept else client.at_end()
        (received,) = engine.received
        assert received.body == (chat_of_length(200_000) if "long" in name else chat())
    with connect() as client:
        client.send(b"".join(wire for wire, is_kept in FORMS.values() if is_kept))
        assert {client.answer().status for _, is_kept in FORMS.values() if is_kept} == {200}
    # The CPU executor's thread starts when long bodies come quickly one after the other.
    assert threads(worker_of(router)) <= before + 1


@pytest.mark.parametrize("transport", ["TLS"], indirect=True)
def test_the_end_of_a_tls_connection_is_announced(
    transport: tuple[RunningRouter, Callable[[], RawClient]], engine: MockEngine
) -> None:
    """A close_notify precedes it, also where only the end of the connection ends the body: nothing looks cut off."""
    _, connect = transport
    rejected = head_of("POST", CHAT, {"X_Y": "1"})
    for wire, status in ((FORMS["nginx"][0], 200), (rejected, 400)):
        engine.answer_next(MockResponse(body=[EVENT, EVENT], framing="chunked"))
        with connect() as client:
            client.socket.suppress_ragged_eofs = False  # type: ignore[attr-defined]
            assert client.send(wire).answer().status == status
            assert client.at_end()


@pytest.mark.parametrize("transport", ["TLS"], indirect=True)
def test_a_tls_client_that_leaves_is_no_fault_of_the_router(
    transport: tuple[RunningRouter, Callable[[], RawClient]], engine: MockEngine
) -> None:
    """Sending to it ends like sending to any client that left: no traceback, and the engine is let go of."""
    router, connect = transport
    for framing in ("chunked", "length"):
        engine.clear()
        engine.answer_next(MockResponse(body=[bytes(1 << 20)] * 16, framing=framing))
        with connect() as client:
            assert client.send(REQUEST).head()[0] == 200
        engine.wait_closed(engine.received[0].connection)
    assert "Traceback" not in router.log()


def test_tls_offers_http_1_1_alone(engine: MockEngine, tmp_path: Path) -> None:
    """A client that could speak HTTP/2 gets HTTP/1.1, and one that speaks nothing else gets no protocol."""
    certificate, key = make_certificate(tmp_path)
    options = (*CONF, "--certfile", str(certificate), "--keyfile", str(key))
    with running_router(None, [engine.url], {}, options, until_ready=False) as router:
        for offered, chosen in ((["h2", "http/1.1"], "http/1.1"), (["h2"], None)):
            context = ssl.create_default_context(cafile=certificate)
            context.set_alpn_protocols(offered)
            with RawClient(router.port) as client:
                client.wrap(context)
                assert client.socket.selected_alpn_protocol() == chosen  # type: ignore[attr-defined]


@pytest.fixture
def stopping(engine: MockEngine) -> Iterator[RunningRouter]:
    """A router that is slow to stop."""
    settings = {"ROUTER_DRAIN_SECONDS": "600"}
    with running_router(None, [engine.url], settings) as running:
        yield running


@pytest.mark.parametrize("cause", ["drain", "worker", "HUP"])
def test_from_the_stop_on_responses_close_their_connections(
    stopping: RunningRouter, engine: MockEngine, cause: str
) -> None:
    """Whichever process is stopped, every response whose headers are written later says `Connection: close`."""
    gate = Event()
    engine.answer_next(MockResponse(body=b"{}", hold=gate))
    with RawClient(stopping.port) as waiting, RawClient(stopping.port) as idle:
        assert idle.get("/healthz").header("Connection") == "keep-alive"
        waiting.send(REQUEST)
        engine.wait_for(1)
        if cause == "drain":
            stopping.signal(signal.SIGTERM)
            stopping.wait_for_line("Draining")
            assert idle.get("/readyz").header("Connection") == "close"
        else:
            if cause == "HUP":
                stopping.signal(signal.SIGHUP)
            else:
                os.kill(worker_of(stopping), signal.SIGTERM)
            assert idle.at_end()
        gate.set()
        answer = waiting.answer()
        assert (answer.status, answer.header("Connection")) == (200, "close")
        assert waiting.at_end()


def test_requests_that_outlast_the_stop_get_an_error(engine: MockEngine, tmp_path: Path) -> None:
    """When the time of a stop ends a stream gets an error event, a waiting request a 503, and both have their line."""
    settings = {
        "ROUTER_DRAIN_SECONDS": "0",
        "ROUTER_GRACEFUL_TIMEOUT_SECONDS": "0.5",
        "ROUTER_ENGINES": engine.url,
    }
    with (
        RunningRouter(launch(settings, CONF)) as router,
        RawClient(router.port) as stream,
        RawClient(router.port) as wait,
    ):
        router.wait_until_ready()
        engine.answer_next(MockResponse.sse(EVENT, Event()), MockResponse(hold=Event()))
        stream.send(post_head(CHAT, COUNTED | {"X-Request-Id": "the-stream"}) + chat())
        assert stream.head()[0] == 200
        assert stream.chunk() == EVENT
        wait.send(post_head(CHAT, COUNTED | {"X-Request-Id": "the-waiting"}) + chat())
        engine.wait_for(2)
        router.signal(signal.SIGTERM)
        assert b'"code": "shutting_down"' in b"".join(iter(stream.chunk, b""))
        assert_error(wait.answer(), 503, "shutting_down")
        for name, status in (("the-stream", 200), ("the-waiting", 503)):
            (line,) = router.access_lines_with(f'"{name}"')
            assert f'"status":{status},"code":"shutting_down"' in line
        wait_until(lambda: not children_of(router.process.pid), router.log)
