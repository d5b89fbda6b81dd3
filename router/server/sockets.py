"""Client sockets with deadlines: reads end at a deadline, and a client that stops reading counts as disconnected."""

import errno
import math
import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from router.runtime import event_loop

SEND_PIECE_BYTES: Final = 64 * 1024
"""How much of an answer is sent within one `send_seconds`: a slow client may read on, one that stopped may not."""

OWN_SEND_SECONDS: Final = 2.0
"""The same for answers of the router's own: whoever reads at all has room for them."""

# Two socket classes get it mixed in; to the type checker it is a socket like both of them.
if TYPE_CHECKING:
    _Socket = socket.socket
else:
    _Socket = object


class BoundedSocket(_Socket):
    """What the sockets of clients have in common, in the clear and under TLS.

    A timeout of a socket is for each call alone; a client that sends a byte a second never meets it.
    """

    deadline: float | None = None
    """When receiving ends, in the time of `time.monotonic()`: from then on it raises TimeoutError. None: never."""
    is_late: bool = False
    """True when the client has had its time: nothing is received any more, whatever `deadline` says."""
    send_seconds: float = OWN_SEND_SECONDS
    """Longest wait for the client to take SEND_PIECE_BYTES."""
    when_read: Callable[[], None] | None = None
    """What is called, once, when the body of the request is read."""
    held: bytes = b""
    """What was received already, and is received once more before what the system has."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive as sockets do, until the deadline."""
        if self.held:
            # Not all at once: of what a chunk is read from, gunicorn copies the rest for each chunk.
            piece, self.held = self.held[:buflen], self.held[buflen:]
            return piece
        if self.is_late:
            raise TimeoutError
        if self.deadline is not None:
            # What is here by then is taken still: it may have come in time while all of the process stood still.
            self.settimeout(max(0.0, self.deadline - time.monotonic()))
        try:
            return super().recv(buflen, flags)
        except (BlockingIOError, ssl.SSLWantReadError):
            if self.deadline is None:
                raise
            raise TimeoutError from None

    def receive(self, most_bytes: int) -> bytes:
        """Receive in a task, until the deadline; return b"" at the end."""
        while True:
            if self.is_late:
                raise TimeoutError
            try:
                return super().recv(most_bytes)
            except BlockingIOError:
                seconds = math.inf if self.deadline is None else self.deadline - time.monotonic()
                if seconds <= 0:
                    raise TimeoutError from None
                event_loop.poll_fds({self.fileno(): select.POLLIN}, seconds)

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401 - any buffer, as with every socket
        """Send everything; raises BrokenPipeError, as when the client had closed, once it stops reading."""
        in_task = event_loop.in_task()
        if in_task and len(data) <= SEND_PIECE_BYTES:
            # Nearly always there is room for all of it.
            try:
                sent = super().send(data, flags)
            except BlockingIOError:
                sent = 0
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        view = memoryview(data).cast("B")
        for start in range(0, len(view), SEND_PIECE_BYTES):
            piece = view[start : start + SEND_PIECE_BYTES]
            try:
                if in_task:
                    self._send_in_turns(piece, flags)
                else:
                    self.settimeout(self.send_seconds)
                    super().sendall(piece, flags)
            except TimeoutError:
                raise BrokenPipeError(errno.EPIPE, "the client stopped reading") from None

    def _send_in_turns(self, piece: memoryview, flags: int) -> None:
        """Send what there is room for, on a socket that never blocks, and let others go on until there is more."""
        end: float | None = None
        while piece:
            try:
                piece = piece[super().send(piece, flags) :]
            except BlockingIOError:
                end = end or time.monotonic() + self.send_seconds
                self._wait_for_room(end - time.monotonic())

    def _wait_for_room(self, seconds: float) -> None:
        if seconds <= 0 or not event_loop.poll_fds({self.fileno(): select.POLLOUT}, seconds):
            raise TimeoutError


class ClientSocket(BoundedSocket, socket.socket):
    """A client's connection in the clear."""


class TlsClientSocket(BoundedSocket, ssl.SSLSocket):
    """A client's connection under TLS."""

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401 - any buffer, as with every socket
        """Send everything; raises BrokenPipeError where no handshake was completed."""
        if self.version() is None:
            # Sending would go on with the handshake.
            raise BrokenPipeError(errno.EPIPE, "there was no handshake")
        super().sendall(data, flags)


def of_accepted(accepted: socket.socket) -> ClientSocket:
    """Convert an accepted socket to a client socket; the given object is detached."""
    family, kind, protocol = accepted.family, accepted.type, accepted.proto
    return ClientSocket(family, kind, protocol, fileno=accepted.detach())
