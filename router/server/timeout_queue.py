"""Timeout queues: connections that wait for the same thing have the same timeout, so the first is next to expire."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.server.connection import Connection


class TimeoutQueue:
    """Connections with the same timeout, in the order of their deadlines."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[Connection, float] = {}

    def add(self, connection: "Connection") -> float:
        """Add a connection; return its deadline."""
        deadline = self._deadlines[connection] = time.monotonic() + self._seconds
        return deadline

    def remove(self, connection: "Connection") -> None:
        """Remove a connection."""
        del self._deadlines[connection]

    def shorten(self, seconds: float) -> None:
        """Reduce the timeout of present and later connections to a number of seconds from now."""
        self._seconds = min(seconds, self._seconds)
        latest = time.monotonic() + self._seconds
        self._deadlines = {connection: min(latest, deadline) for connection, deadline in self._deadlines.items()}

    def late(self) -> "list[Connection]":
        """Return the connections whose deadline passed."""
        now = time.monotonic()
        found = []
        for connection, deadline in self._deadlines.items():
            if deadline > now:
                break
            found.append(connection)
        return found

    def first(self) -> "Connection | None":
        """Return the connection that has waited here longest."""
        return next(iter(self._deadlines), None)

    def since(self) -> float:
        """Return when the first began to wait; infinity when none waits."""
        return self.next_deadline() - self._seconds

    def next_deadline(self) -> float:
        """Return when the next is late; infinity when none waits."""
        return next(iter(self._deadlines.values()), float("inf"))

    def all(self) -> "list[Connection]":
        """Return all that wait."""
        return list(self._deadlines)


def longest_idle(lingering: TimeoutQueue, *others: TimeoutQueue) -> "Connection | None":
    """Return the connection to evict: a lingering one, or the one that has been idle longest."""
    return lingering.first() or min(others, key=TimeoutQueue.since).first()
