"""Client sockets: they never block. What has to wait is called in a task, which waits in the event loop."""

import errno
import select
import socket
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from router.runtime import event_loop

SEND_PIECE_BYTES: Final = 64 * 1024
"""Bytes of a response that a client must read within `send_seconds`. A slow client can do so, a stopped one cannot."""

OWN_SEND_SECONDS: Final = 2.0
"""The send timeout in seconds of the router's own responses: they fit into the receive buffer of a client."""

WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a non-blocking socket raises when it would block."""

_HALF_CLOSED: Final = getattr(select, "POLLRDHUP", 0)

# A mixin for two socket classes; for the type checker it is a socket itself.
if TYPE_CHECKING:
    _Socket = socket.socket
else:
    _Socket = object


class BoundedSocket(_Socket):
    """The base of client sockets, with and without TLS: a deadline for many reads, and a timeout for each piece sent.

    A socket timeout applies to each call: a client that sends a byte a second never reaches it.
    """

    send_seconds: float = OWN_SEND_SECONDS
    """Longest wait for the client to take SEND_PIECE_BYTES."""

    def receive(self, max_bytes: int, deadline: float) -> bytes:
        """Receive in a task; return b"" at the end. Raises TimeoutError at the deadline, a time of `time.monotonic()`.

        Bytes in the buffer are still read after the deadline: the process may have been stopped meanwhile.
        """
        while True:
            try:
                return self.recv(max_bytes)
            except WOULD_BLOCK as error:
                self._wait(_wanted(error, select.POLLIN), deadline)

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401 - any buffer, as with every socket
        """Send all bytes, in a task. Raises BrokenPipeError if the client stops reading, as if it had closed."""
        if len(data) <= SEND_PIECE_BYTES:
            # Nearly always the send buffer has room for all bytes.
            try:
                sent = self.send(data, flags)
            except WOULD_BLOCK:
                sent = 0
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        view = memoryview(data).cast("B")
        for start in range(0, len(view), SEND_PIECE_BYTES):
            try:
                self._send_piece(view[start : start + SEND_PIECE_BYTES], flags)
            except TimeoutError:
                raise BrokenPipeError(errno.EPIPE, "the client stopped reading") from None

    def _send_piece(self, piece: memoryview, flags: int) -> None:
        """Send all bytes. Other tasks run while the send buffer is full."""
        deadline: float | None = None
        while piece:
            try:
                piece = piece[self.send(piece, flags) :]
            except WOULD_BLOCK as error:
                deadline = deadline or time.monotonic() + self.send_seconds
                self._wait(_wanted(error, select.POLLOUT), deadline)

    def _wait(self, events: int, deadline: float) -> None:
        if time.monotonic() >= deadline or not event_loop.poll_fds_until({self.fileno(): events}, deadline):
            raise TimeoutError

    def is_half_closed(self) -> bool:
        """Return whether the client has closed its sending half, or the connection. Known on Linux only."""
        poll = select.poll()
        poll.register(self.fileno(), _HALF_CLOSED)
        return bool(poll.poll(0))


class ClientSocket(BoundedSocket, socket.socket):
    """A client socket without TLS."""


class TlsClientSocket(BoundedSocket, ssl.SSLSocket):
    """A client socket with TLS."""

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401 - any buffer, as with every socket
        """Send all bytes. Raises BrokenPipeError if the handshake is not complete or the client closed."""
        if self.version() is None:
            # Sending would continue the handshake.
            raise BrokenPipeError(errno.EPIPE, "there was no handshake")
        try:
            super().sendall(data, flags)
        except ssl.SSLError:  # OpenSSL has an error of its own for a connection that the client closed
            raise BrokenPipeError(errno.EPIPE, "the client closed the TLS connection") from None

    def shutdown(self, how: int) -> None:
        """Close the sending half with a close_notify, so that nothing looks cut off (RFC 8446, section 6.1)."""
        # The client's own close_notify is not waited for.
        with suppress(OSError, ValueError):
            self.unwrap()
        super().shutdown(how)


def of_accepted(accepted: socket.socket) -> ClientSocket:
    """Convert an accepted socket to a non-blocking client socket; the given object is detached."""
    family, kind, protocol = accepted.family, accepted.type, accepted.proto
    client = ClientSocket(family, kind, protocol, fileno=accepted.detach())
    client.setblocking(False)
    return client


def _wanted(error: OSError, events: int) -> int:
    """Return the events to wait for: TLS may have to read before it can write, and the other way round."""
    if isinstance(error, ssl.SSLWantReadError):
        return select.POLLIN
    return select.POLLOUT if isinstance(error, ssl.SSLWantWriteError) else events
