"""Cancellable waits: one poll over the sockets of engine and client."""

import math
import time

from router.request.request import ClientConnection
from router.runtime.event_loop import poll_fds_until


class Poller:
    """Waits for an engine's socket until the client disconnects; without a client for the engine alone.

    No wait lasts longer than to `deadline`, the end of the whole exchange.
    """

    __slots__ = ("_client", "_events", "_fd", "_masks", "deadline")

    def __init__(self, client: ClientConnection | None = None, deadline: float = math.inf) -> None:
        self.deadline = deadline
        self._client = client if client is not None and client.fd >= 0 else None
        self._fd = -1
        self._events = 0
        self._masks: dict[int, int] = {}
        """What was last waited for: the same object as long as nothing of it changes."""

    def wait(self, fd: int, events: int, seconds: float) -> int:
        """Return which of `events` occurred at an engine's socket; 0 when the client should be written to.

        Raises TimeoutError after `seconds` or at the deadline, ClientDisconnectedError as soon as the client has left.
        """
        client = self._client
        now = time.monotonic()
        end = min(now + seconds, self.deadline)
        while True:
            if now >= self.deadline:  # poll reports no timeout while one of the two is ready
                raise TimeoutError
            ready = poll_fds_until(self.masks_of(fd, events), end)
            if not ready:
                raise TimeoutError
            happened = 0
            must_write = False
            for ready_fd, ready_events in ready:
                if ready_fd == fd:
                    happened = ready_events
                elif client is not None:
                    must_write = client.on_event(ready_events)
            if happened or must_write:
                return happened
            now = time.monotonic()

    def masks_of(self, fd: int, events: int) -> dict[int, int]:
        """Return what to wait for: `events` at an engine's socket, and the client's."""
        client = self._client
        is_same = fd == self._fd and events == self._events
        if not is_same or (client is not None and self._masks.get(client.fd) != client.mask):
            self._fd, self._events = fd, events
            self._masks = {fd: events} if fd >= 0 else {}
            if client is not None:
                self._masks[client.fd] = client.mask
        return self._masks

    def sleep(self, seconds: float) -> None:
        """Wait that long. Raises ClientDisconnectedError as soon as the client has left."""
        try:
            self.wait(-1, 0, seconds)
        except TimeoutError:
            return
