"""Limits of a worker process: threads, connections and concurrent uploads."""

import logging
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from router.runtime.event_loop import in_task

if TYPE_CHECKING:
    from router.server.connection import Connection

RESERVED_DESCRIPTORS: Final = 64
"""Descriptors that a worker reserves for other uses than clients and the engines of requests in flight."""
ACCEPT_BACKOFF_SECONDS: Final = 0.1
"""How long accepting pauses when the system has no room for a connection and none can be evicted."""
FEWEST_CONNECTIONS: Final = 16
"""The lowest limit of client connections of a worker, however few descriptors it has."""
MOST_LONG: Final = 64
"""The most requests that a worker reads at once of those that are too long to be buffered."""

_LOG = logging.getLogger("router")


def most_long(max_in_flight: int) -> int:
    """Return how many threads may read requests that are too long to be buffered, besides those in flight."""
    return min(MOST_LONG, max(1, max_in_flight // 2))


def most_connections(max_in_flight: int, descriptors: int) -> int:
    """Return the limit of client connections of a worker with so many descriptors. Some are left for engines."""
    wanted = max(1000, 4 * max_in_flight)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return max(FEWEST_CONNECTIONS, min(wanted, descriptors - max_in_flight - RESERVED_DESCRIPTORS))


class ReadingPlaces:
    """A semaphore for reading requests that are too long to be buffered; a slot is held until the request is read.

    `later` runs a function in the worker's loop, the only place where slots are counted.
    """

    def __init__(self, most: int, later: Callable[..., None]) -> None:
        self._left = most
        self._later = later

    def take(self, connection: "Connection") -> bool:
        """Acquire a slot for the request of a connection. Return False if none is free."""
        if self._left <= 0:
            return False
        self._left -= 1
        connection.is_long = True
        connection.sock.when_read = partial(self._end, connection)
        return True

    def _end(self, connection: "Connection") -> None:
        # The response may take long: another request can be read meanwhile.
        if in_task():
            self.give_back(connection)
        else:
            self._later(self.give_back, connection)

    def give_back(self, connection: "Connection") -> None:
        """Free the place of a connection, if it has one."""
        self._left += connection.is_long
        connection.is_long = False
        connection.sock.when_read = None


class Threads(ThreadPoolExecutor):
    """A pool of threads that goes on with those it has when the system gives no more."""

    is_short = False

    def _adjust_thread_count(self) -> None:
        # The work is already in the queue: a running thread takes it, or the next one that starts.
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            if not self.is_short:
                self.is_short = True
                _LOG.warning("the system cannot start a thread, so requests wait for the existing ones: %s", error)
