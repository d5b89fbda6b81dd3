"""Limits of a worker process."""

import resource
from typing import Final

RESERVED_DESCRIPTORS: Final = 64
"""Descriptors that a worker reserves for other uses than clients and the engines of requests in flight."""
ACCEPT_BACKOFF_SECONDS: Final = 0.1
"""How long accepting pauses when the system has no room for a connection and none can be evicted."""
FEWEST_CONNECTIONS: Final = 16
"""The lowest limit of client connections of a worker, however few descriptors it has."""

CUT_SECONDS: Final = 1.0
"""How long requests that are cut at the end of a drain may take to send their error."""
DRAIN_BYTES: Final = 64 * 1024 * 1024
"""How much of a rejected body is read, so that the client can read the response before the connection closes."""


def most_connections(max_in_flight: int, descriptors: int) -> int:
    """Return the limit of client connections of a worker; some of its descriptors are left for engines.

    Requests in flight are limited for the host, and one worker may have all of them.
    """
    wanted = max(1000, 2 * max_in_flight)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    usable = descriptors - RESERVED_DESCRIPTORS
    return max(FEWEST_CONNECTIONS, min(wanted, usable - min(max_in_flight, usable // 2)))
