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
"""Bytes of a response that a client must read within `send_seconds`. A slow client can do so, a stopped one cannot."""

OWN_SEND_SECONDS: Final = 2.0
"""The send timeout in seconds of the router's own responses: they fit into the receive buffer of a client."""

# A mixin for two socket classes; for the type checker it is a socket itself.
if TYPE_CHECKING:
    _Socket = socket.socket
else:
    _Socket = object


class BoundedSocket(_Socket):
    """The base of client sockets, with and without TLS: a deadline for many reads.

    A socket timeout applies to each call: a client that sends a byte a second never reaches it.
    """

    deadline: float | None = None
    """The `time.monotonic()` after which receiving raises TimeoutError. None: no deadline."""
    is_late: bool = False
    """True after the client's deadline passed: receiving raises TimeoutError whatever `deadline` is."""
    send_seconds: float = OWN_SEND_SECONDS
    """Longest wait for the client to take SEND_PIECE_BYTES."""
    when_read: Callable[[], None] | None = None
    """A callback that runs once when the request body was read completely."""
    held: bytes = b""
    """Bytes that were already received. `recv` returns them first."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive as sockets do, until the deadline."""
        if self.held:
            # Not all at once: gunicorn copies the rest of the piece for each chunk in it.
            piece, self.held = self.held[:buflen], self.held[buflen:]
            return piece
        if self.is_late:
            raise TimeoutError
        if self.deadline is not None:
            # Bytes in the buffer are still read after the deadline: the process may have been stopped meanwhile.
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
        """Send all bytes. Raises BrokenPipeError if the client stops reading, as if it had closed the connection."""
        in_task = event_loop.in_task()
        if in_task and len(data) <= SEND_PIECE_BYTES:
            # Nearly always the send buffer has room for all bytes.
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
        """Send all bytes on a non-blocking socket. Other tasks run while the send buffer is full."""
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
    """A client socket without TLS."""


class TlsClientSocket(BoundedSocket, ssl.SSLSocket):
    """A client socket with TLS."""

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401 - any buffer, as with every socket
        """Send all bytes. Raises BrokenPipeError if the handshake is not complete."""
        if self.version() is None:
            # Sending would continue the handshake.
            raise BrokenPipeError(errno.EPIPE, "there was no handshake")
        super().sendall(data, flags)


def of_accepted(accepted: socket.socket) -> ClientSocket:
    """Convert an accepted socket to a client socket; the given object is detached."""
    family, kind, protocol = accepted.family, accepted.type, accepted.proto
    return ClientSocket(family, kind, protocol, fileno=accepted.detach())
