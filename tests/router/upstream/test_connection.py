"""One connection: whether its end shows that a request was never read."""

import select
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from router.request.outcome import Outcome
from router.runtime.event_loop import EventLoop, poll_fds
from router.upstream.connection import Endpoint, UpstreamConnection
from router.upstream.errors import EngineError
from router.upstream.poller import Poller
from tests.router.rawengine import reset
from tests.router.wire.tls import make_certificate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what the other side acknowledged")

LONG = 20.0
MUCH = 1 << 20
HEAD = b"POST / HTTP/1.1\r\n\r\n"


@pytest.fixture
def kept() -> Iterator[tuple[UpstreamConnection, socket.socket]]:
    """A connection over which requests went already, and the engine's end of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint.of(f"http://127.0.0.1:{listener.getsockname()[1]}")
        connection = UpstreamConnection.open(endpoint, LONG, None)
        engine = listener.accept()[0]
        with engine:
            for _ in range(20):  # until acknowledgements wait for answers
                connection.send(HEAD, b"", Poller(), LONG)
                engine.sendall(engine.recv(1000))
                connection.receive(Poller(), LONG)
            connection.is_reused = True
            yield connection, engine
        connection.close()


def _receive(connection: UpstreamConnection) -> bytes | None:
    return connection.receive(Poller(), LONG)


@pytest.mark.parametrize("body", [b"", bytes(1 << 20)], ids=["short", "long"])
def test_an_end_before_the_request_shows_that_it_is_unread(
    kept: tuple[UpstreamConnection, socket.socket], body: bytes
) -> None:
    """The engine closed, then the request came: it can be sent once more."""
    connection, engine = kept
    engine.close()
    with suppress(OSError):  # a long one meets the reset while it is sent
        connection.send(HEAD, body, Poller(), LONG)
    assert _receive(connection) == b""
    assert connection.was_stale()


def test_an_end_behind_the_request_shows_nothing(kept: tuple[UpstreamConnection, socket.socket]) -> None:
    """The engine read the request and closed: it may have run."""
    connection, engine = kept
    connection.send(HEAD, b"", Poller(), LONG)
    engine.recv(1000)
    engine.close()
    assert _receive(connection) == b""
    assert not connection.was_stale()


@pytest.mark.parametrize("is_read", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize("end", [socket.socket.close, reset], ids=["closed", "reset"])
def test_a_reset_is_no_end(
    kept: tuple[UpstreamConnection, socket.socket], end: Callable[[socket.socket], None], *, is_read: bool
) -> None:
    """Where the request had come, an engine that closes over it or resets is met as an error, not as an end."""
    connection, engine = kept
    connection.send(HEAD, b"", Poller(), LONG)
    if is_read:
        engine.recv(1000)
    end(engine)
    if is_read and end is not reset:
        assert _receive(connection) == b""
    else:
        with pytest.raises(ConnectionResetError):
            _receive(connection)
    assert not connection.was_stale()


def test_a_new_connection_is_never_unread(kept: tuple[UpstreamConnection, socket.socket]) -> None:
    """What failed on a new connection would fail on the next one too."""
    connection, engine = kept
    connection.is_reused = False
    engine.close()
    connection.send(HEAD, b"", Poller(), LONG)
    assert _receive(connection) == b""
    assert not connection.was_stale()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_is_connected_to_without_blocking(address: str) -> None:
    """A listening engine is connected to; once it is gone, nothing was sent and nobody waits."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        endpoint = Endpoint("http", address, port, "engine")
        assert endpoint.address_family() == family
        UpstreamConnection.open_nonblocking(endpoint, family, 5).close()
    with pytest.raises(EngineError) as raised:
        UpstreamConnection.open_nonblocking(endpoint, family, 5)
    assert (raised.value.outcome, raised.value.may_have_run) == (Outcome.UNREACHABLE, False)


def _open_many(endpoint: Endpoint, opened: ExitStack) -> None:
    for _ in range(10):
        opened.callback(UpstreamConnection.open_nonblocking(endpoint, socket.AF_INET, 0.05).close)


def test_an_engine_that_does_not_take_a_connection_is_not_waited_for_long() -> None:
    """A full queue of connections lets the wait run out, and is a timeout."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as opened:
        endpoint = Endpoint("http", "127.0.0.1", server.getsockname()[1], "engine")
        with pytest.raises(EngineError) as raised:
            _open_many(endpoint, opened)
    assert raised.value.code == "upstream_timeout"


def test_a_name_is_no_address() -> None:
    """What has to be looked up has no family."""
    assert Endpoint.of("http://localhost:1").address_family() is None


def test_an_engine_that_is_fast_gives_way_under_tls_too(tmp_path: Path) -> None:
    """However much waits to be read, another turn that can go on does so between two pieces of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(tmp_path))
    trusting = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    order: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        endpoint = Endpoint.of(f"https://127.0.0.1:{listener.getsockname()[1]}")
        accepted = threads.submit(lambda: context.wrap_socket(listener.accept()[0], server_side=True))
        connection = UpstreamConnection.open(endpoint, LONG, trusting)
        ours, theirs = socket.socketpair()
        with accepted.result(LONG) as engine, ours, theirs:
            sent = threads.submit(engine.sendall, bytes(MUCH))
            theirs.send(b"x")
            loop = EventLoop(threads.submit, threads.submit)

            def read() -> None:
                left = MUCH
                while left:
                    left -= len(_receive(connection) or b"")

            loop.spawn(read, lambda _: order.append("all was read"))
            loop.spawn(lambda: poll_fds({ours.fileno(): select.POLLIN}, LONG), lambda _: order.append("other"))
            while len(order) < 2:
                loop.dispatch(LONG)
            sent.result(LONG)
            loop.close()
        connection.close()
    assert order == ["other", "all was read"]
