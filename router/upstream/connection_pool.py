"""The pool of idle connections to engines."""

import contextlib
import math
import time
from collections import defaultdict, deque

from router.upstream.connection import Endpoint, UpstreamConnection
from router.upstream.quarantine import WHILE_IDLE, Quarantine


class ConnectionPool:
    """Idle connections by endpoint, the one used last first. Safe to use from many threads.

    None is kept longer than `idle_seconds`: an engine closes idle ones too (SGLang and vLLM after 5 s), and a request
    that is sent at that moment may look as if the engine had read it.
    """

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self.quarantine = Quarantine()
        self._idle: defaultdict[Endpoint, deque[UpstreamConnection]] = defaultdict(deque)

    def take(self, endpoint: Endpoint) -> UpstreamConnection | None:
        """Return a usable idle connection; None if there is none."""
        idle = self._idle[endpoint]
        while True:
            if self.quarantine.is_quarantined(endpoint):
                _empty(idle)
            try:
                connection = idle.pop()
            except IndexError:
                return None
            if connection.idle_since + self._idle_seconds > time.monotonic() and not connection.is_stale():
                connection.is_reused = True
                return connection
            self._discard(connection)

    def put(self, connection: UpstreamConnection) -> None:
        """Keep a connection after its complete response, unless its endpoint was forgotten, and close expired ones."""
        connection.idle_since = time.monotonic()
        self._close_until(connection.idle_since - self._idle_seconds)
        idle = self._idle.get(connection.endpoint)
        if idle is None or self.quarantine.is_quarantined(connection.endpoint):
            connection.close()
            return
        idle.append(connection)
        if self._idle.get(connection.endpoint) is not idle:
            _empty(idle)

    def forget(self, endpoint: Endpoint) -> None:
        """Close the idle connections of an endpoint, and keep no more before one is asked for again."""
        self.quarantine.forget(endpoint)
        _empty(self._idle.pop(endpoint, deque()))

    def close_idle(self) -> None:
        """Close the connections that have been idle for too long."""
        self._close_until(time.monotonic() - self._idle_seconds)

    def close(self) -> int:
        """Close all idle connections; return how many."""
        return self._close_until(math.inf)

    def __del__(self) -> None:
        self.close()

    def _close_until(self, latest: float) -> int:
        closed = 0
        for idle in list(self._idle.values()):
            # Other threads may take the connection between the test and the removal.
            try:
                while idle[0].idle_since <= latest:
                    self._discard(idle.popleft())
                    closed += 1
            except IndexError:
                continue
        return closed

    def _discard(self, connection: UpstreamConnection) -> None:
        """Close an idle connection; quarantine its engine if it sent something over it."""
        if connection.is_stale() and connection.holds_unsolicited():
            self.quarantine.add(connection.endpoint, WHILE_IDLE)
        connection.close()


def _empty(idle: deque[UpstreamConnection]) -> None:
    # Other threads may still take from it.
    with contextlib.suppress(IndexError):
        while True:
            idle.popleft().close()
