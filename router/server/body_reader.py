"""Reads the body of a request from its client, in a task: completely, or with an error. Bounded in bytes and time."""

import io
import select
import time
from typing import Final

from router.contract.errors import ApiError, overloaded, request_too_large
from router.runtime import event_loop
from router.runtime.byte_budget import ByteBudget
from router.server.body_framing import BodyFraming
from router.server.limits import DRAIN_BYTES
from router.server.request_parser import CHUNKED, ParsedHeaders, RequestError
from router.server.sockets import BoundedSocket

PIECE_BYTES: Final = 64 * 1024
"""Most bytes that are received in one call."""
TURN_BYTES: Final = 4 * PIECE_BYTES
"""How much is received before the other tasks of the event loop run, however fast the client sends."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyReader:
    """The body of a request of which the rest is still to be received.

    `received` is what came of it together with the headers. Room for the rest is reserved in the budget before it is
    received, and released by `release_room`.
    """

    def __init__(
        self,
        sock: BoundedSocket,
        request: ParsedHeaders,
        framing: BodyFraming,
        received: list[bytes],
        budget: ByteBudget,
    ) -> None:
        self._sock = sock
        self._length = None if request.length == CHUNKED else request.length
        self._framing = framing
        self._pieces = received
        self._awaits_continue = request.expects_continue and not received
        self._budget = budget
        self._reserved = 0
        self._turn_left = TURN_BYTES
        self.has_ended = False
        """Whether the client has closed its sending half."""
        self.is_late = False
        """Whether the client's time is over: nothing more is received."""
        self.behind = b""
        """The bytes behind the body."""
        self.drained = 0

    def read(self, limit: int, timeout_seconds: float) -> bytes:
        """Return the whole body. A client that waits for `100 Continue` gets it here, and not when it is rejected.

        Raises ApiError: `request_too_large` above `limit` bytes (counted while reading, not by Content-Length),
        `overloaded` if there is no room for it within `timeout_seconds`, `bad_request` for a body that ends early, is
        malformed or takes longer than that.
        """
        declared = self._length
        if declared is not None and declared > limit:
            raise request_too_large(limit)
        self._reserve_room(limit if declared is None else declared, time.monotonic() + timeout_seconds)
        self._send_continue()
        # To join the pieces of a long body would hold it twice.
        body = io.BytesIO()
        body.writelines(self._pieces)
        self._pieces = []
        deadline = time.monotonic() + timeout_seconds
        while body.tell() <= limit and not self._framing.is_complete:
            body.write(self._receive(deadline, timeout_seconds, body.tell()))
        if body.tell() > limit:
            raise request_too_large(limit)
        return body.getvalue()

    def drain(self, timeout_seconds: float) -> None:
        """Read and drop the unread rest up to DRAIN_BYTES, after the response was written (lingering close).

        A client that is still sending must be able to read the response: closing at once would reset the connection.
        """
        self._pieces = []
        deadline = time.monotonic() + timeout_seconds
        try:
            while not self._framing.is_complete and self.drained < DRAIN_BYTES and not self._awaits_continue:
                # The deadline is for all of it, also while bytes keep coming.
                if time.monotonic() > deadline:
                    return
                self.drained += len(self._receive(deadline, timeout_seconds, 0))
        except ApiError:
            return

    def is_complete(self) -> bool:
        """Return whether nothing of the body is left to be received."""
        return self._framing.is_complete

    def awaits_continue(self) -> bool:
        """Return whether the client was not asked for the body: it may send it or not, so nothing can follow."""
        return self._awaits_continue

    def release_room(self) -> None:
        """Release the room in the budget: the body is not held any longer."""
        if self._reserved:
            self._budget.release(self._reserved)
            self._reserved = 0

    def _reserve_room(self, length: int, deadline: float) -> None:
        """Wait for room for the whole body. Meanwhile nothing is received. Raises ApiError `overloaded`."""
        if self.is_late or self.has_ended or self._reserved:
            return
        if not self._budget.acquire(length, self._sock.fileno(), deadline):
            raise overloaded()
        self._reserved = length

    def _send_continue(self) -> None:
        if not self._awaits_continue:
            return
        self._awaits_continue = False
        if self._sock.is_half_closed():
            return
        try:
            self._sock.sendall(_CONTINUE)
        except OSError as error:
            raise _unreadable(error) from None

    def _receive(self, deadline: float, timeout_seconds: float, length: int) -> bytes:
        """Receive the next piece. Raises ApiError `bad_request`."""
        try:
            data = b"" if self.has_ended else self._receive_in_turn(deadline)
        except TimeoutError:
            self.is_late = True
            raise ApiError("bad_request", f"The request body did not arrive within {timeout_seconds:g} s") from None
        except OSError as error:
            self.has_ended = True
            raise _unreadable(error) from None
        if not data:
            self.has_ended = True
            of = "" if self._length is None else f" of {self._length}"
            raise ApiError("bad_request", f"The request body ended after {length}{of} bytes")
        try:
            piece, self.behind = self._framing.feed(data)
        except RequestError:
            self.has_ended = True
            raise
        return piece

    def _receive_in_turn(self, deadline: float) -> bytes:
        if self.is_late:
            raise TimeoutError
        if self._turn_left <= 0:
            self._turn_left = TURN_BYTES
            event_loop.poll_fds_until({self._sock.fileno(): select.POLLIN}, deadline)
        data = self._sock.receive(PIECE_BYTES, deadline)
        self._turn_left -= len(data)
        return data


def _unreadable(error: OSError) -> ApiError:
    return ApiError("bad_request", f"The request body could not be read: {type(error).__name__}")
