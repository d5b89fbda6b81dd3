"""One connection: whether its end shows that a request was never read."""

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from router.engines.connection import Connection, Endpoint
from router.engines.failure import EngineError
from router.engines.outcome import Outcome
from router.engines.watch import Watch
from tests.router.rawengine import reset

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what the other side acknowledged")

LONG = 20.0
HEAD = b"POST / HTTP/1.1\r\n\r\n"


@pytest.fixture
def kept() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection over which requests went already, and the engine's end of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint.of(f"http://127.0.0.1:{listener.getsockname()[1]}")
        connection = Connection.open(endpoint, LONG, None)
        engine = listener.accept()[0]
        with engine:
            for _ in range(20):  # until acknowledgements wait for answers
                connection.send(HEAD, b"", Watch(), LONG)
                engine.sendall(engine.recv(1000))
                connection.receive(Watch(), LONG)
            connection.is_reused = True
            yield connection, engine
        connection.close()


def _receive(connection: Connection) -> bytes | None:
    return connection.receive(Watch(), LONG)


@pytest.mark.parametrize("body", [b"", bytes(1 << 20)], ids=["short", "long"])
def test_an_end_before_the_request_shows_that_it_is_unread(kept: tuple[Connection, socket.socket], body: bytes) -> None:
    """The engine closed, then the request came: it can be sent once more."""
    connection, engine = kept
    engine.close()
    with suppress(OSError):  # a long one meets the reset while it is sent
        connection.send(HEAD, body, Watch(), LONG)
    assert _receive(connection) == b""
    assert connection.was_unread()


def test_an_end_behind_the_request_shows_nothing(kept: tuple[Connection, socket.socket]) -> None:
    """The engine read the request and closed: it may have run."""
    connection, engine = kept
    connection.send(HEAD, b"", Watch(), LONG)
    engine.recv(1000)
    engine.close()
    assert _receive(connection) == b""
    assert not connection.was_unread()


@pytest.mark.parametrize("is_read", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize("end", [socket.socket.close, reset], ids=["closed", "reset"])
def test_a_reset_is_no_end(
    kept: tuple[Connection, socket.socket], end: Callable[[socket.socket], None], *, is_read: bool
) -> None:
    """Where the request had come, an engine that closes over it or resets is met as an error, not as an end."""
    connection, engine = kept
    connection.send(HEAD, b"", Watch(), LONG)
    if is_read:
        engine.recv(1000)
    end(engine)
    if is_read and end is not reset:
        assert _receive(connection) == b""
    else:
        with pytest.raises(ConnectionResetError):
            _receive(connection)
    assert not connection.was_unread()


def test_a_new_connection_is_never_unread(kept: tuple[Connection, socket.socket]) -> None:
    """What failed on a new connection would fail on the next one too."""
    connection, engine = kept
    connection.is_reused = False
    engine.close()
    connection.send(HEAD, b"", Watch(), LONG)
    assert _receive(connection) == b""
    assert not connection.was_unread()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_is_connected_to_without_blocking(address: str) -> None:
    """A listening engine is connected to; once it is gone, nothing was sent and nobody waits."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        endpoint = Endpoint("http", address, port, "engine")
        assert endpoint.family() == family
        Connection.open_at(endpoint, family, 5).close()
    with pytest.raises(EngineError) as raised:
        Connection.open_at(endpoint, family, 5)
    assert (raised.value.outcome, raised.value.may_have_run) == (Outcome.UNREACHABLE, False)


def _open_many(endpoint: Endpoint, opened: ExitStack) -> None:
    for _ in range(10):
        opened.callback(Connection.open_at(endpoint, socket.AF_INET, 0.05).close)


def test_an_engine_that_does_not_take_a_connection_is_not_waited_for_long() -> None:
    """A full queue of connections lets the wait run out, and is a timeout."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as opened:
        endpoint = Endpoint("http", "127.0.0.1", server.getsockname()[1], "engine")
        with pytest.raises(EngineError) as raised:
            _open_many(endpoint, opened)
    assert raised.value.code == "upstream_timeout"


def test_a_name_is_no_address() -> None:
    """What has to be looked up has no family."""
    assert Endpoint.of("http://localhost:1").family() is None
