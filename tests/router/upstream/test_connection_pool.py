"""Connections that wait for their next request."""

import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from router.upstream.connection import Endpoint, UpstreamConnection
from router.upstream.connection_pool import ConnectionPool

HERE = Endpoint.of("http://engine.example:1")
THERE = Endpoint.of("http://engine.example:2")

Opener = Callable[..., tuple[UpstreamConnection, socket.socket]]


def _pool(idle_seconds: float) -> ConnectionPool:
    """Return a pool whose endpoints were asked for once."""
    pool = ConnectionPool(idle_seconds)
    assert (pool.take(HERE), pool.take(THERE)) == (None, None)
    return pool


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Return what opens connections; each comes with the engine's end of it."""
    with ExitStack() as stack:

        def open_one(endpoint: Endpoint = HERE) -> tuple[UpstreamConnection, socket.socket]:
            ours, theirs = socket.socketpair()
            connection = UpstreamConnection(endpoint, ours)
            stack.callback(connection.close)
            return connection, stack.enter_context(theirs)

        yield open_one


def test_the_connection_used_last_is_taken_first(opened: Opener) -> None:
    """Those used seldom grow old, so that they can go."""
    pool = _pool(60)
    first, second = opened()[0], opened()[0]
    pool.put(first)
    pool.put(second)
    assert [pool.take(HERE), pool.take(HERE), pool.take(HERE)] == [second, first, None]
    assert (first.is_reused, second.is_reused) == (True, True)


def test_endpoints_do_not_share_connections(opened: Opener) -> None:
    """A connection leads to one engine alone."""
    pool = _pool(60)
    pool.put(opened(THERE)[0])
    assert pool.take(HERE) is None
    assert pool.take(THERE)


def test_a_connection_that_the_engine_closed_is_passed_over(opened: Opener) -> None:
    """The next one is taken instead."""
    pool = _pool(60)
    good = opened()[0]
    stale, theirs = opened()
    pool.put(good)
    pool.put(stale)
    theirs.close()
    assert pool.take(HERE) is good
    assert _is_closed(stale)


def test_a_connection_over_which_more_came_ends_the_reuse_of_all(opened: Opener) -> None:
    """Neither those that are idle are used again, nor those that come back; other engines' are."""
    pool = _pool(60)
    idle, late, other = opened()[0], opened()[0], opened(THERE)[0]
    spoilt, theirs = opened()
    for connection in (idle, spoilt, other):
        pool.put(connection)
    theirs.send(b"x")
    assert pool.take(HERE) is None
    pool.put(late)
    assert pool.take(HERE) is None
    assert all(map(_is_closed, (idle, spoilt, late)))
    assert pool.take(THERE) is other
    assert pool.quarantine.counts.total() == 1


def test_what_came_over_a_connection_shows_when_it_has_been_idle_for_too_long(opened: Opener) -> None:
    """Nobody has to need the connection for it."""
    pool = _pool(60)
    spoilt, theirs = opened()
    pool.put(spoilt)
    theirs.send(b"x")
    spoilt.idle_since = -math.inf
    pool.close_idle()
    assert _is_closed(spoilt)
    assert pool.quarantine.is_quarantined(HERE)


def test_a_connection_that_was_idle_for_too_long_is_closed(opened: Opener) -> None:
    """Engines close idle connections too: those of some age are not risked."""
    pool = _pool(60)
    old = opened()[0]
    pool.put(old)
    old.idle_since = -math.inf
    assert pool.take(HERE) is None
    assert _is_closed(old)


def test_idle_connections_are_closed_by_age(opened: Opener) -> None:
    """Closing idle ones leaves the young ones; closing all leaves none."""
    pool = _pool(60)
    old, young = opened()[0], opened()[0]
    pool.put(old)
    pool.put(young)
    old.idle_since = -math.inf
    pool.close_idle()
    assert [_is_closed(old), _is_closed(young)] == [True, False]
    pool.close()
    assert _is_closed(young)
    assert pool.take(HERE) is None


def test_giving_back_closes_those_that_nobody_used(opened: Opener) -> None:
    """What a burst left idle goes with the next request, although nobody takes it."""
    pool = _pool(60)
    old, young = opened(THERE)[0], opened()[0]
    pool.put(old)
    old.idle_since = -math.inf
    pool.put(young)
    assert [_is_closed(old), _is_closed(young)] == [True, False]


def test_a_pool_that_goes_closes_what_it_holds(opened: Opener) -> None:
    """A pool left behind by a fork leaves no connection open."""
    connection = opened()[0]
    _pool(60).put(connection)
    assert _is_closed(connection)


def test_threads_share_a_pool(opened: Opener) -> None:
    """Taking, giving back and closing at once never hands one connection to two, and never fails."""
    pool = _pool(60)
    for _ in range(3):
        pool.put(opened()[0])
    faults: list[object] = []
    in_use: set[int] = set()

    def use() -> None:
        try:
            for turn in range(2000):
                connection = pool.take(HERE)
                if connection is None:
                    continue
                if connection.fd in in_use:
                    faults.append(connection)
                in_use.add(connection.fd)
                in_use.discard(connection.fd)
                pool.put(connection)
                if turn % 3 == 0:
                    pool.close_idle()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            faults.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def _is_closed(connection: UpstreamConnection) -> bool:
    return connection._socket.fileno() == -1


def test_a_forgotten_endpoint_keeps_nothing(opened: Opener) -> None:
    """Forgetting closes what is idle there, and what comes back later, until it is asked for again."""
    pool = _pool(60)
    idle, running, elsewhere, later = opened()[0], opened()[0], opened(THERE)[0], opened()[0]
    pool.put(idle)
    pool.put(elsewhere)
    pool.forget(HERE)
    assert _is_closed(idle)
    pool.put(running)
    assert _is_closed(running)
    assert pool.take(THERE) is elsewhere
    assert pool.take(HERE) is None
    pool.put(later)
    assert pool.take(HERE) is later
