"""Cancellable waits: one poll over the sockets of engine and client."""

import math
import time

from router.request.request import ClientConnection
from router.runtime.event_loop import poll_fds


class Poller:
    """Waits for an engine's socket until the client disconnects; without a client for the engine alone.

    No wait lasts longer than to `deadline`, the end of the whole exchange.
    """

    __slots__ = ("_client", "_idle_masks", "deadline")

    def __init__(self, client: ClientConnection | None = None, deadline: float = math.inf) -> None:
        self.deadline = deadline
        self._client = client if client is not None and client.fd >= 0 else None
        self._idle_masks: dict[int, int] = {}

    def wait(self, fd: int, events: int, seconds: float) -> int:
        """Return which of `events` occurred at an engine's socket; 0 when the client should be written to.

        Raises TimeoutError after `seconds` or at the deadline, ClientDisconnectedError as soon as the client has left.
        """
        return self._wait(fd, {fd: events}, seconds)

    def sleep(self, seconds: float) -> None:
        """Wait that long. Raises ClientDisconnectedError as soon as the client has left."""
        try:
            self._wait(-1, {}, seconds)
        except TimeoutError:
            return

    def _wait(self, fd: int, masks: dict[int, int], seconds: float) -> int:
        client = self._client
        now = time.monotonic()
        end = min(now + seconds, self.deadline)
        while True:
            if now >= self.deadline:  # poll reports no timeout while one of the two is ready
                raise TimeoutError
            if client is not None:
                masks[client.fd] = client.mask
            ready = poll_fds(masks, end - now)
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
