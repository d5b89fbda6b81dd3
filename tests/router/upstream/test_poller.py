"""Waiting for an engine with an eye on the client."""

import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from router.server.disconnect import ClientDisconnectedError, DownstreamClient
from router.upstream.poller import Poller

LONG = 20.0
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a half-closed connection")

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Pair]:
    """Both ends of a connection to an engine."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def client() -> Iterator[Pair]:
    """Both ends of a connection to a client."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def _client(pair: Pair, *, accepts_interim: bool = True) -> DownstreamClient:
    return DownstreamClient(pair[0], accepts_interim=accepts_interim)


@pytest.mark.parametrize("with_client", [False, True])
def test_what_comes_from_the_engine_is_told(ends: Pair, client: Pair, *, with_client: bool) -> None:
    """A readable engine ends the wait."""
    ends[1].send(b"x")
    poller = Poller(_client(client) if with_client else None)
    assert poller.wait(ends[0].fileno(), select.POLLIN, LONG) == select.POLLIN


@pytest.mark.parametrize(("seconds", "deadline"), [(0.01, LONG), (LONG, 0.01), (-1, LONG), (LONG, -1)])
def test_silence_ends_with_the_time_or_at_the_deadline(ends: Pair, seconds: float, deadline: float) -> None:
    """Whichever of the two comes first ends the wait for a silent engine."""
    with pytest.raises(TimeoutError):
        Poller(None, time.monotonic() + deadline).wait(ends[0].fileno(), select.POLLIN, seconds)


def test_a_client_that_left_ends_the_wait(ends: Pair, client: Pair) -> None:
    """The engine is silent, the client is gone: nobody waits any longer."""
    client[1].close()
    with pytest.raises(ClientDisconnectedError):
        Poller(_client(client)).wait(ends[0].fileno(), select.POLLIN, LONG)


def test_a_client_that_left_ends_a_pause(client: Pair) -> None:
    """The pause before another try is watched as well."""
    client[1].close()
    with pytest.raises(ClientDisconnectedError):
        Poller(_client(client)).sleep(LONG)


def test_a_pause_ends_by_itself(client: Pair) -> None:
    """A client that stays lets a pause take its time."""
    Poller(_client(client)).sleep(0.001)


@linux
@pytest.mark.parametrize(("protocol", "asked"), [("HTTP/1.1", INTERIM), ("HTTP/1.0", b"")])
def test_a_half_closed_client_is_asked_once_before_its_answer(
    ends: Pair, client: Pair, protocol: str, asked: bytes
) -> None:
    """A client that finished sending gets one interim answer, if it knows them, and is waited for."""
    client[1].shutdown(socket.SHUT_WR)
    poller = Poller(_client(client, accepts_interim=protocol == "HTTP/1.1"))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            poller.wait(ends[0].fileno(), select.POLLIN, 0.01)
    client[0].close()
    assert client[1].recv(1000) == asked


@linux
def test_a_half_closed_client_is_written_to_within_its_answer(ends: Pair, client: Pair) -> None:
    """Once the answer runs only its own bytes may be written: the wait ends once, to have some."""
    half = _client(client)
    half.response_started = True
    client[1].shutdown(socket.SHUT_WR)
    poller = Poller(half)
    assert poller.wait(ends[0].fileno(), select.POLLIN, LONG) == 0
    with pytest.raises(TimeoutError):
        poller.wait(ends[0].fileno(), select.POLLIN, 0.01)
    client[1].close()
    with pytest.raises(ClientDisconnectedError):
        poller.wait(ends[0].fileno(), select.POLLIN, LONG)


def test_a_question_never_waits_for_a_client_that_reads_nothing(ends: Pair, client: Pair) -> None:
    """A client whose buffers are full cannot hold up what watches it."""
    client[0].setblocking(False)
    with suppress(BlockingIOError):
        while True:
            client[0].send(bytes(65536))
    client[0].setblocking(True)
    client[1].shutdown(socket.SHUT_WR)
    with pytest.raises(TimeoutError):
        Poller(_client(client)).wait(ends[0].fileno(), select.POLLIN, 0.01)
