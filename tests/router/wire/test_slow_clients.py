"""Clients that stall, dribble, never read or never close: they hold nobody up but themselves."""

import os
import re
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Models, plain_aliases
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse, ReceivedRequest
from tests.exhaustive import exhaustive_but
from tests.router.conftest import RouterOf
from tests.router.process import address_space, descriptors, worker_of
from tests.router.rawclient import RawClient, chunked, head_of, post_head
from tests.router.serving import RunningRouter, launch, running_router, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat, chat_of_length
from tests.router.wire.tls import make_certificate

MANY = 64
"""More clients than a router with two requests in flight has threads."""
STANDSTILL = 2.5
"""For how many seconds a worker is not let run."""
FEW_THREADS = 19
"""How many threads such a router has."""
HEAD = head_of("GET", "/healthz", {})
CHUNKED = {"Transfer-Encoding": "chunked"}
COUNTED = {"Content-Length": str(len(chat()))}


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router with few threads, which is patient."""
    return router_of(ROUTER_MAX_IN_FLIGHT="2")


@pytest.fixture(scope="module")
def hasty(router_of: RouterOf) -> RunningRouter:
    """A router with few threads, which is not."""
    return router_of(
        ROUTER_MAX_IN_FLIGHT="2", ROUTER_CLIENT_HEADER_TIMEOUT_SECONDS="1", ROUTER_CLIENT_BODY_TIMEOUT_SECONDS="1"
    )


STALLS = {
    "in silence": b"",
    "in the request line": b"POST /v1/chat",
    "in the head": HEAD[:-2],
    "before the body": post_head(CHAT, COUNTED),
    "in the body": post_head(CHAT, COUNTED) + chat()[:-1],
    "before the first chunk": post_head(CHAT, CHUNKED),
    "in a chunk's size": post_head(CHAT, CHUNKED) + b"3\r\nabc\r\n1",
    "in an odd chunk's size": post_head(CHAT, CHUNKED) + b"zz",
    "in a long chunk's size": post_head(CHAT, CHUNKED) + b"123456789",
    "behind half the end of a chunk's size": post_head(CHAT, CHUNKED) + b"5\rx",
    "in a probe's chunk's size": post_head("/healthz", CHUNKED) + b" 5",
    "in a chunk": post_head(CHAT, CHUNKED) + b"3\r\nab",
    "behind a chunk": post_head(CHAT, CHUNKED) + b"3\r\nabc",
    "in the trailers": post_head(CHAT, CHUNKED) + b"0\r\nX-After: 1\r\n",
    "in the next request": HEAD + HEAD[:20],
    "kept alive": HEAD,
}


@contextmanager
def _stalled(router: RunningRouter, begun: bytes) -> Iterator[list[RawClient]]:
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(router.port)) for _ in range(MANY)]
        for client in clients:
            client.send(begun)
        yield clients


def _assert_serves(router: RunningRouter) -> None:
    with RawClient(router.port) as client:
        assert client.get("/healthz").status == 200
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat()).status == 200


@pytest.mark.parametrize("begun", STALLS.values(), ids=STALLS)
def test_stalled_clients_hold_nobody_up(router: RunningRouter, engine: MockEngine, begun: bytes) -> None:
    """With more clients stalled than there are threads, a probe and a request are answered long before they are."""
    with _stalled(router, begun) as stalled:
        if begun.startswith(HEAD):
            assert {client.answer().status for client in stalled} == {200}
        _assert_serves(router)


def test_dribbling_clients_hold_nobody_up(router: RunningRouter, engine: MockEngine) -> None:
    """Clients that never stop sending one byte after the other take no thread either."""
    over = threading.Event()
    with _stalled(router, b"GET /healthz HTTP/1.1\r\nX: ") as dribbling:

        def dribble() -> None:
            while not over.wait(0.02):
                for client in dribbling:
                    client.send(b"x")

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            _assert_serves(router)
        finally:
            over.set()
            thread.join()
        for client in dribbling:
            client.send(b"\r\nHost: x\r\n\r\n")
        assert {client.answer().status for client in dribbling} == {200}


@pytest.mark.parametrize("stall", ["in the request line", "in the head", "in the next request"])
def test_a_late_head_is_refused(hasty: RunningRouter, stall: str) -> None:
    """A head that is not whole after ROUTER_CLIENT_HEADER_TIMEOUT_SECONDS is a 400, and the connection ends."""
    with RawClient(hasty.port) as client:
        client.send(STALLS[stall])
        if stall == "in the next request":
            assert client.answer().status == 200
        answer = client.answer()
        assert "1 s" in assert_error(answer, 400, "bad_request")["message"]
        assert answer.header("Connection") == "close"
        assert client.at_end()


def test_a_silent_client_is_left_without_a_word(hasty: RunningRouter) -> None:
    """A new connection on which nothing comes is closed, and nothing is sent that could pass for an answer."""
    with RawClient(hasty.port) as client:
        assert client.at_end()


BODY_STALLS = [
    stall for stall in STALLS if STALLS[stall].startswith(b"POST /v1/chat/") and b"\r\n\r\n" in STALLS[stall]
]


@pytest.mark.parametrize("stall", BODY_STALLS)
def test_a_late_body_is_refused(hasty: RunningRouter, engine: MockEngine, stall: str) -> None:
    """A body that is not whole after ROUTER_CLIENT_BODY_TIMEOUT_SECONDS is a 400, and the connection ends."""
    with RawClient(hasty.port) as client:
        client.send(STALLS[stall])
        assert "1 s" in assert_error(client.answer(), 400, "bad_request")["message"]
        assert client.at_end()
    assert engine.received == []


def test_what_came_while_the_worker_stood_still_is_not_late(router_of: RouterOf, engine: MockEngine) -> None:
    """A worker that is not let run for longer than clients and engines may take reads first what came meanwhile."""
    router = router_of(**{f"ROUTER_{each}_SECONDS": "2" for each in ("HEAD", "BODY", "FIRST_BYTE", "IDLE")})
    request = post_head(CHAT, COUNTED) + chat()
    asked, released = threading.Event(), threading.Event()

    def answer_late(received: ReceivedRequest) -> None:
        if b"late" in received.body:
            asked.set()
            assert released.wait(STANDSTILL)

    engine.script(answer_late)
    long = chat_of_length(100_000)
    begun_by = [
        (request, 0),  # in silence
        (request, len(request) // 4),  # within the head
        (request, len(request) - 1),  # within the body, as in all that follow
        (post_head(CHAT, {"Content-Length": str(len(long))}) + long, 70_000),
        (post_head(CHAT, CHUNKED) + chunked(long), 70_000),
    ]
    with ExitStack() as opened:
        clients = [opened.enter_context(RawClient(router.port)).send(whole[:cut]) for whole, cut in begun_by]
        waiting = opened.enter_context(RawClient(router.port))
        late = chat(user="late")
        waiting.send(post_head(CHAT, {"Content-Length": str(len(late))}) + late)
        assert asked.wait(STANDSTILL)
        _assert_serves(router)
        os.kill(worker_of(router), signal.SIGSTOP)
        try:
            released.set()
            for client, (whole, cut) in zip(clients, begun_by, strict=True):
                client.send(whole[cut:])
            time.sleep(STANDSTILL)  # the time itself is what is tried
        finally:
            os.kill(worker_of(router), signal.SIGCONT)
        assert [client.answer().status for client in (*clients, waiting)] == [200] * 6


def test_a_late_body_is_refused_under_the_contract(router_of: RouterOf, engine: MockEngine) -> None:
    """What a client is told of its late body has the type that the contract gives to a 400, and the client's id."""
    contract = Contract(errors=Errors(bad_request_type="vendor_error"))
    router = router_of(contract, ROUTER_CLIENT_BODY_TIMEOUT_SECONDS="0.2")
    with RawClient(router.port) as client:
        answer = client.send(post_head(CHAT, {**COUNTED, "X-Request-Id": "mine"})).answer()
    assert assert_error(answer, 400, "bad_request")["type"] == "vendor_error"
    assert answer.header("x-request-id") == "mine"


DRIBBLES = {
    "head": b"GET /healthz HTTP/1.1\r\nX: ",
    "long head": b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 8000) for n in range(7)) + b"X:",
    "body": post_head(CHAT, {"Content-Length": "1000"}),
    "long body": post_head(CHAT, {"Content-Length": "100000"}) + b"{",
    "chunks": post_head(CHAT, CHUNKED) + b"ff\r\n",
    "long chunk": post_head(CHAT, CHUNKED) + b"fffff\r\n" + bytes(70_000),
    "expected body": post_head(CHAT, {"Content-Length": "1000", "Expect": "100-continue"}),
}


@pytest.mark.parametrize("begun", DRIBBLES.values(), ids=DRIBBLES)
def test_dribbling_gains_no_time(hasty: RunningRouter, engine: MockEngine, begun: bytes) -> None:
    """The time for a head or a body is for all of it: a client that sends byte after byte is refused like any other."""
    with RawClient(hasty.port) as client:
        client.send(begun)
        answered = threading.Event()

        def dribble() -> None:
            while not answered.wait(0.05):
                try:
                    client.send(b"x")
                except ConnectionError:
                    return

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            if b"Expect" in begun:
                assert client.head()[0] == 100
            assert_error(client.answer(), 400, "bad_request")
        finally:
            answered.set()
            thread.join()
    assert engine.received == []


def test_a_request_that_comes_byte_by_byte_is_served(router: RunningRouter, engine: MockEngine) -> None:
    """Requests in any number of pieces are the same requests, pipelined ones and chunked ones too."""
    requests = [post_head(CHAT, COUNTED) + chat(), post_head(CHAT, CHUNKED) + chunked(chat()[:9], chat()[9:]), HEAD]
    with RawClient(router.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"".join(requests):
            client.send(bytes([byte]))
        assert [client.answer().status for _ in requests] == [200, 200, 200]
    assert [received.body for received in engine.received] == [chat(), chat()]


def test_a_client_that_stops_reading_is_dropped(router_of: RouterOf, engine: MockEngine) -> None:
    """An unread stream ends after ROUTER_CLIENT_SEND_TIMEOUT_SECONDS, at the engine too, without noise."""
    router = router_of(ROUTER_CLIENT_SEND_TIMEOUT_SECONDS="0.5")
    flood = b"data: " + bytes(64 * 1024) + b"\n\n"
    engine.answer_next(MockResponse(headers=EVENT_STREAM, body=repeat(flood), framing="chunked"))
    with RawClient(router.port) as deaf:
        deaf.send(post_head(CHAT, {"Content-Length": str(len(chat(stream=True)))}) + chat(stream=True))
        (stream,) = engine.wait_for(1)
        engine.wait_closed(stream.connection, 20)
        _assert_serves(router)
    assert "Traceback" not in router.log()


def test_a_slow_reader_gets_all_of_a_long_answer(router_of: RouterOf, engine: MockEngine) -> None:
    """A client that reads 8 MiB slowly, for longer than ROUTER_CLIENT_SEND_TIMEOUT_SECONDS, gets all of it."""
    router = router_of(ROUTER_CLIENT_SEND_TIMEOUT_SECONDS="2")
    body = os.urandom(8 * 1024 * 1024 - 1000)
    engine.answer_next(MockResponse(headers=[("Content-Type", "application/octet-stream")], body=body))
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        slow.settimeout(20)
        slow.connect(("127.0.0.1", router.port))
        slow.sendall(post_head(CHAT, {**COUNTED, "Connection": "close"}) + chat())
        pause = threading.Event()
        pieces = []
        while piece := slow.recv(64 * 1024, socket.MSG_WAITALL):
            pieces.append(piece)
            pause.wait(0.02)
    assert b"".join(pieces).partition(b"\r\n\r\n")[2] == body


def test_clients_that_do_not_close_hold_nobody_up(router: RunningRouter, engine: MockEngine) -> None:
    """Clients that were answered for the last time and stay connected do not stop the worker while it closes."""
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(router.port)) for _ in range(MANY)]
        for client in clients:
            client.send(head_of("GET", "/healthz", {"Connection": "close"}))
        assert {client.answer().status for client in clients} == {200}
        _assert_serves(router)
        assert all(client.at_end() for client in clients)


def test_clients_that_ask_on_and_never_read_hold_nobody_up(router_of: RouterOf, engine: MockEngine) -> None:
    """Clients that do not read the router's own responses are dropped before ROUTER_CLIENT_SEND_TIMEOUT_SECONDS."""
    long_list = Contract(models=Models(aliases=plain_aliases(*(f"alias-{number:0100}" for number in range(1000)))))
    router = router_of(long_list, ROUTER_MAX_IN_FLIGHT="2", ROUTER_CLIENT_SEND_TIMEOUT_SECONDS="600")
    with ExitStack() as stack:
        _assert_serves(router)
        before = descriptors(worker_of(router))
        for _ in range(2 * FEW_THREADS):
            stack.enter_context(_deaf(router.port)).sendall(head_of("GET", "/v1/models", {}) * 100)
        wait_until(lambda: descriptors(worker_of(router)) > before + FEW_THREADS, router.log)
        wait_until(lambda: descriptors(worker_of(router)) <= before, router.log)
        _assert_serves(router)


@contextmanager
def _deaf(port: int) -> Iterator[socket.socket]:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        client.settimeout(20)
        client.connect(("127.0.0.1", port))
        yield client


def _connect(port: int, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))


def _take_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        pytest.skip(f"{count} descriptors are needed, and {hard} allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


@pytest.mark.parametrize("begun", [b"", b"GET /heal"], ids=["idle", "begun"])
def test_a_full_worker_still_answers(engine: MockEngine, begun: bytes) -> None:
    """With more connections waiting than a worker may have, the longest-waiting ones go and a new one is served."""
    _take_descriptors(2_500)
    with running_router(None, [engine.url]) as router, ExitStack() as stack:
        for _ in range(2_000):
            _connect(router.port, stack).sendall(begun)
        _assert_serves(router)
        assert _open_sockets_of_workers(router) < 1_100


def _workers(router: RunningRouter) -> list[int]:
    return [int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", router.log())]


def _open_sockets_of_workers(router: RunningRouter) -> int:
    return max(len(list(Path(f"/proc/{worker}/fd").iterdir())) for worker in _workers(router))


def test_a_worker_without_descriptors_still_answers(engine: MockEngine) -> None:
    """When the system has no descriptor left, the longest-waiting connection makes room for a new one."""
    with running_router(None, [engine.url]) as router, ExitStack() as stack:
        _assert_serves(router)
        (worker,) = _workers(router)
        few = _open_sockets_of_workers(router) + 20
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (few, few))
        for _ in range(100):
            _connect(router.port, stack)
        for _ in range(3):
            with RawClient(router.port) as client:
                assert client.get("/healthz").status == 200
        assert router.process.poll() is None
        assert _workers(router) == [worker]


def test_waiting_clients_leave_descriptors_for_engines(engine: MockEngine) -> None:
    """With few descriptors and more clients that wait than there are, requests reach a new connection to the engine."""
    few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
    settings = {"ROUTER_ENGINES": engine.url}
    with RunningRouter(launch(settings, before=few)) as router, ExitStack() as stack:
        router.wait_until_ready()
        for _ in range(300):
            _connect(router.port, stack).sendall(b"G")
        gate = threading.Event()
        engine.answer_next(*[MockResponse.sse(gate, b"data: [DONE]\n\n") for _ in range(40)])
        clients = [stack.enter_context(RawClient(router.port)) for _ in range(40)]
        for client in clients:
            client.send(post_head(CHAT, COUNTED) + chat())
        engine.wait_for(40)
        gate.set()
        assert {client.answer().status for client in clients} == {200}
        with RawClient(router.port) as client:
            assert [client.get("/readyz").status, client.get("/healthz").status] == [200, 200]
        assert "could not accept a connection" not in router.log()


def test_a_worker_without_further_threads_serves(engine: MockEngine) -> None:
    """When the system gives no further thread requests are served as before: they need none."""
    gate = threading.Event()
    with running_router(None, [engine.url]) as router, ExitStack() as stack:
        (worker,) = _workers(router)
        most = address_space(worker) + 7 * 1024 * 1024  # less than the stack of one thread
        resource.prlimit(worker, resource.RLIMIT_AS, (most, most))
        engine.answer_next(*[MockResponse(headers=EVENT_STREAM, body=[gate, b"data: [DONE]\n\n"]) for _ in range(20)])
        clients = [stack.enter_context(RawClient(router.port)) for _ in range(20)]
        for client in clients:
            client.send(post_head(CHAT, CHUNKED) + chunked(chat()))
        engine.wait_for(20)
        gate.set()
        assert {client.answer().status for client in clients} == {200}
        assert _workers(router) == [worker]


def test_descriptors_are_as_many_as_allowed(engine: MockEngine) -> None:
    """A router takes all the descriptors that it may have, whatever the soft limit is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
    try:
        with running_router(None, [engine.url]) as router:
            (worker,) = _workers(router)
            assert resource.prlimit(worker, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("arguments", [(), ("--preload",)], ids=["forked", "preloaded"])
def test_a_reload_cuts_no_stream(arguments: tuple[str, ...]) -> None:
    """A stream outlasts a reload, whatever ROUTER_GRACEFUL_TIMEOUT_SECONDS says, and its worker ends with it."""
    conf = ("-c", "python:router.gunicorn_conf", *arguments)
    gate = threading.Event()
    body = [b"data: 1\n\n", gate, b"data: [DONE]\n\n"]
    with (
        MockEngine() as engine,
        running_router(None, [engine.url], {"ROUTER_GRACEFUL_TIMEOUT_SECONDS": "0"}, conf) as router,
    ):
        engine.answer_next(MockResponse(headers=EVENT_STREAM, body=body, framing="chunked"))
        with RawClient(router.port) as client:
            client.send(post_head(CHAT, COUNTED) + chat())
            assert client.head()[0] == 200
            assert client.chunk() == b"data: 1\n\n"
            for workers in (2, 3):
                router.signal(signal.SIGHUP)
                wait_until(lambda workers=workers: len(_workers(router)) == workers, router.log)
            streaming, idle, _ = _workers(router)
            wait_until(lambda: _has_ended(router, idle), router.log)
            assert not _has_ended(router, streaming)
            gate.set()
            assert b"".join(iter(client.chunk, b"")) == b"data: [DONE]\n\n"
        wait_until(lambda: _has_ended(router, streaming), router.log)


def _has_ended(router: RunningRouter, worker: int) -> bool:
    return f"Worker exiting (pid: {worker})" in router.log()


@pytest.fixture(scope="module")
def encrypted(engine: MockEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningRouter, Path]]:
    """A hasty router that speaks TLS itself, and its certificate."""
    certificate, key = make_certificate(tmp_path_factory.mktemp("tls"))
    settings = {
        "ROUTER_CLIENT_HEADER_TIMEOUT_SECONDS": "1",
        "ROUTER_CLIENT_BODY_TIMEOUT_SECONDS": "1",
        "ROUTER_CLIENT_SEND_TIMEOUT_SECONDS": "0.5",
    }
    settings["ROUTER_MAX_IN_FLIGHT"] = "2"
    options = ("-c", "python:router.gunicorn_conf", "--certfile", str(certificate), "--keyfile", str(key))
    with running_router(None, [engine.url], settings, options, until_ready=False) as router:
        yield router, certificate


@contextmanager
def _encrypted_client(encrypted: tuple[RunningRouter, Path]) -> Iterator[RawClient]:
    router, certificate = encrypted
    context = ssl.create_default_context(cafile=certificate)
    with RawClient(router.port) as plain:
        plain.wrap(context)
        yield plain


def test_tls_is_served(encrypted: tuple[RunningRouter, Path], engine: MockEngine) -> None:
    """A client under TLS is served, on a connection that is kept, pipelined requests too."""
    request = post_head(CHAT, COUNTED) + chat()
    with _encrypted_client(encrypted) as client:
        assert client.post(CHAT, chat()).status == 200
        client.send(request + request + HEAD)
        assert [client.answer().status for _ in range(3)] == [200, 200, 200]
    assert len(engine.received) == 3


@pytest.mark.parametrize("begun", [STALLS["in the head"], STALLS["in the body"]], ids=["head", "body"])
def test_tls_gains_no_time(encrypted: tuple[RunningRouter, Path], engine: MockEngine, begun: bytes) -> None:
    """The time for a head or a body holds under TLS as it does in the clear."""
    with _encrypted_client(encrypted) as client:
        assert_error(client.send(begun).answer(), 400, "bad_request")
    assert engine.received == []


def test_a_deaf_client_under_tls_is_dropped(encrypted: tuple[RunningRouter, Path], engine: MockEngine) -> None:
    """A stream that its client does not read ends after ROUTER_CLIENT_SEND_TIMEOUT_SECONDS under TLS as well."""
    flood = b"data: " + bytes(64 * 1024) + b"\n\n"
    engine.answer_next(MockResponse(headers=EVENT_STREAM, body=repeat(flood), framing="chunked"))
    with _encrypted_client(encrypted) as deaf:
        deaf.send(post_head(CHAT, COUNTED) + chat())
        (stream,) = engine.wait_for(1)
        engine.wait_closed(stream.connection, 20)


def test_what_is_no_tls_ends_without_noise(encrypted: tuple[RunningRouter, Path]) -> None:
    """Plain bytes on a port that speaks TLS end their connection, and are one line in the log."""
    router, _ = encrypted
    with RawClient(router.port) as client:
        client.send(HEAD)
        assert client.at_end()
    router.wait_for_line("rejected a request of 127.0.0.1")
    assert "Traceback" not in router.log()


def test_stalled_handshakes_take_no_thread(encrypted: tuple[RunningRouter, Path]) -> None:
    """More clients than threads may stall in their handshakes: others are served, and they are given up in time."""
    router, _ = encrypted
    with ExitStack() as stack:
        stalled = [stack.enter_context(RawClient(router.port)).send(b"\x16") for _ in range(FEW_THREADS + 1)]
        with _encrypted_client(encrypted) as client:
            assert client.get("/healthz").status == 200
        assert all(client.at_end() for client in stalled)


@pytest.fixture(scope="module")
def patient(engine: MockEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningRouter, Path]]:
    """A router that speaks TLS itself and waits for long, and its certificate."""
    certificate, key = make_certificate(tmp_path_factory.mktemp("tls"))
    settings = {
        "ROUTER_CLIENT_HEADER_TIMEOUT_SECONDS": "600",
        "ROUTER_CLIENT_BODY_TIMEOUT_SECONDS": "600",
        "ROUTER_MAX_IN_FLIGHT": "2",
    }
    options = ("-c", "python:router.gunicorn_conf", "--certfile", str(certificate), "--keyfile", str(key))
    with running_router(None, [engine.url], settings, options, until_ready=False) as router:
        yield router, certificate


@pytest.mark.parametrize("stall", exhaustive_but(["in silence", "in the head", "in the body", "kept alive"], STALLS))
def test_stalled_clients_under_tls_take_no_thread(
    patient: tuple[RunningRouter, Path], engine: MockEngine, stall: str
) -> None:
    """More clients than there are threads that stall, wherever in their requests, hold up nobody under TLS either."""
    with ExitStack() as stack:
        for _ in range(FEW_THREADS + 1):
            stack.enter_context(_encrypted_client(patient)).send(STALLS[stall])
        with _encrypted_client(patient) as client:
            assert client.get("/healthz").status == 200
            assert client.post(CHAT, chat()).status == 200


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_requests_under_tls_are_read_however_they_come(
    encrypted: tuple[RunningRouter, Path], engine: MockEngine, size: int
) -> None:
    """In records and segments of any size, several at once, short and long, requests are answered in order."""
    bodies = [chat(user="x" * length) for length in (0, min(20_000, 50 * size), min(200_000, 50 * size), 0)]
    wire = b"".join(post_head(CHAT, {"Content-Length": str(len(body))}) + body for body in bodies)
    with _encrypted_client(encrypted) as client:
        for start in range(0, len(wire), size):
            client.send(wire[start : start + size])
        assert [client.answer().status for _ in bodies] == [200] * len(bodies)
    assert [received.body for received in engine.received] == bodies
