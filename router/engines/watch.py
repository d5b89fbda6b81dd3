"""Waiting for an engine with an eye on the client: one poll over both sockets."""

import math
import select
import time
from typing import Final

from router.clients.presence import Client

MAX_MILLISECONDS: Final = 2**31 - 1
"""Longest wait that poll takes, almost 25 days."""


class Watch:
    """Polls an engine's socket and the client's at the same time; without a client the engine's alone.

    No wait outlasts `deadline`, by which all has to be over.
    """

    __slots__ = ("_client", "_poll", "deadline")

    def __init__(self, client: Client | None = None, deadline: float = math.inf) -> None:
        self.deadline = deadline
        self._client = client if client is not None and client.fd >= 0 else None
        self._poll = select.poll()
        if self._client is not None:
            self._poll.register(self._client.fd, self._client.mask)

    def wait(self, fd: int, events: int, seconds: float) -> int:
        """Return what of `events` came about at an engine's socket; 0 when the client should be written to.

        Raises TimeoutError after `seconds` or at the deadline, ClientGoneError as soon as the client has left.
        """
        self._poll.register(fd, events)
        try:
            return self._wait(fd, seconds)
        finally:
            self._poll.unregister(fd)

    def sleep(self, seconds: float) -> None:
        """Wait that long. Raises ClientGoneError as soon as the client has left."""
        try:
            self._wait(-1, seconds)
        except TimeoutError:
            return

    def _wait(self, fd: int, seconds: float) -> int:
        deadline = min(time.monotonic() + seconds, self.deadline)
        while True:
            if time.monotonic() >= self.deadline:  # poll would not tell while one of the two is ready
                raise TimeoutError
            ready = self._poll.poll(_milliseconds(deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            happened = 0
            must_write = False
            for ready_fd, events in ready:
                if ready_fd == fd:
                    happened = events
                else:
                    must_write = self._notice(events)
            if happened or must_write:
                return happened

    def _notice(self, events: int) -> bool:
        client = self._client
        if client is None:
            return False
        must_write = client.notice(events)
        self._poll.register(client.fd, client.mask)
        return must_write


def _milliseconds(seconds: float) -> int:
    return min(MAX_MILLISECONDS, max(0, math.ceil(seconds * 1000)))
