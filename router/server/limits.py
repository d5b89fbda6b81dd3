"""Limits of a worker process: connections and concurrent uploads."""

import resource
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from router.server.connection import Connection

RESERVED_DESCRIPTORS: Final = 64
"""Descriptors that a worker reserves for other uses than clients and the engines of requests in flight."""
ACCEPT_BACKOFF_SECONDS: Final = 0.1
"""How long accepting pauses when the system has no room for a connection and none can be evicted."""
FEWEST_CONNECTIONS: Final = 16
"""The lowest limit of client connections of a worker, however few descriptors it has."""

MAX_UPLOADS: Final = 64
"""Most requests that a worker receives at once of those that are too long to be buffered."""
CUT_SECONDS: Final = 1.0
"""How long requests that are cut at the end of a drain may take to send their error."""


def max_uploads(max_in_flight: int) -> int:
    """Return how many requests that are too long to be buffered are received at once."""
    return min(MAX_UPLOADS, max(1, max_in_flight // 2))


def most_connections(max_in_flight: int, descriptors: int) -> int:
    """Return the limit of client connections of a worker with so many descriptors. Some are left for engines."""
    wanted = max(1000, 4 * max_in_flight)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return max(FEWEST_CONNECTIONS, min(wanted, descriptors - max_in_flight - RESERVED_DESCRIPTORS))


class UploadSlots:
    """A semaphore for receiving bodies that are too long to be buffered; a slot is held until the body was read."""

    def __init__(self, count: int) -> None:
        self._left = count

    def acquire(self, connection: "Connection") -> bool:
        """Acquire a slot for the request of a connection. Return False if none is free."""
        if self._left <= 0:
            return False
        self._left -= 1
        connection.holds_upload_slot = True
        return True

    def release(self, connection: "Connection") -> None:
        """Release the slot of a connection, if it has one."""
        self._left += connection.holds_upload_slot
        connection.holds_upload_slot = False
