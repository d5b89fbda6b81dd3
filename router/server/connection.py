"""Client connections that wait in the event loop, where they need no thread, and the timeout queues they wait in."""

import socket
import struct
import time
from contextlib import suppress
from functools import partial
from typing import Any, Final

from gunicorn.http import get_parser
from gunicorn.http.body import ChunkedReader
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn

from router.server import sockets, tls
from router.server.gunicorn_request import GunicornRequest
from router.server.parse_errors import LateHeadError, late_head
from router.server.request_framing import HELD_BYTES, Arrival, Stage
from router.server.sockets import ClientSocket
from router.settings.declarations import Settings

FINISH_SECONDS: Final = 2.0
"""The timeout of a lingering close: the client gets the response and not a reset."""

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on with a timeout of 0: closing resets the connection."""


class Connection(TConn):  # type: ignore[misc] # gunicorn has no types
    """A client's connection, with the bytes received of its next request."""

    def __init__(self, cfg: Any, sock: ClientSocket, addresses: tuple[Any, Any], own: Settings, most_body: int) -> None:  # noqa: ANN401 - gunicorn's
        super().__init__(cfg, sock, *addresses)
        self.data_ready = True
        self.arrival = Arrival(most_body)
        self.stage = Stage.SILENCE
        self.waits_in: Waiting | None = None
        self.awaits_handshake = self._is_tls = bool(cfg.is_ssl)
        self.is_long = False
        self.is_cut = False
        """Whether a response was cut off in a way that only a reset shows to the client."""
        self.drained = 0
        self.common: dict[str, Any] | None = None
        """The part of the WSGI environ that all its plain requests share, after the first one."""
        self.own_send_seconds = min(sockets.OWN_SEND_SECONDS, own.client_send_timeout_seconds)
        self._own = own
        self._most_body = most_body

    def shake_hands(self) -> bool:
        """Continue the TLS handshake; return whether it is done. Raises OSError."""
        with suppress(*tls.WOULD_BLOCK):
            self.sock.do_handshake()
            self.awaits_handshake = False
        return not self.awaits_handshake

    def receive(self) -> bytes:
        """Return the received bytes, b"" at the end of the stream. Raises OSError, also if no byte was received."""
        piece = bytes(self.sock.recv(HELD_BYTES))
        # A poller does not report bytes that the TLS layer has buffered.
        while piece and self.has_decrypted():
            piece += self.sock.recv(HELD_BYTES)
        return piece

    def init(self) -> None:
        """Prepare gunicorn's parser in a thread: with the bytes received so far and a deadline for the headers."""
        if self.cfg.is_ssl and not self.initialized:
            self._begin_under_tls()
        else:
            super().init()
        self.sock.send_seconds = self._own.client_send_timeout_seconds if self.is_http2 else self.own_send_seconds
        self.sock.deadline = None if self.is_http2 else time.monotonic() + self._own.client_header_timeout_seconds
        if isinstance(self.parser, RequestParser):
            self.parser.mesg_class = partial(_parse, self._own.client_header_timeout_seconds)
            self.sock.held = bytes(self.arrival.data)
        self.arrival.data.clear()

    def _begin_under_tls(self) -> None:
        """Set up the parser after the handshake, as gunicorn does."""
        self.initialized = True
        self.is_http2 = tls.is_http2(self.sock)
        self.parser = get_parser(self.cfg, self.sock, self.client, http2_connection=self.is_http2)
        if self.is_http2:
            self.parser.initiate_connection()

    def forget_request(self) -> None:
        """Drop the references to a request that a thread has served: gunicorn's parser and chunk reader keep them."""
        if isinstance(self.parser, RequestParser) and self.parser.mesg is not None:
            reader = getattr(self.parser.mesg.body, "reader", None)
            if isinstance(reader, ChunkedReader):
                reader.req = reader.parser = None
            self.parser.mesg = None

    def rest(self) -> None:
        """Return from a thread to the event loop, with the bytes that it received of the next request."""
        left = b""
        if isinstance(self.parser, RequestParser):
            left = self.parser.unreader.take_buffered() + self.sock.held
            self.sock.held = b""
        self.expect(left)
        self.stop_blocking()
        if not self.is_http2 and self.has_decrypted():
            self.arrival.data += self.receive()

    def expect(self, left: bytes) -> None:
        """Wait for the next request, of which `left` was already received."""
        self.arrival = Arrival(self._most_body, left)
        self.stage = Stage.SILENCE
        self.sock.deadline = None

    def stop_blocking(self) -> None:
        """Make the socket non-blocking for the main loop. Raises OSError if it is closed."""
        self.sock.deadline = None
        self.sock.setblocking(False)

    def reset(self) -> None:
        """Make closing reset the connection. Raises OSError if it is already closed."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def has_decrypted(self) -> bool:
        """Return whether the TLS layer has buffered bytes, which a poller does not report."""
        return self._is_tls and bool(self.sock.pending())


def _parse(head_seconds: float, *arguments: Any) -> Any:  # noqa: ANN401 - gunicorn's
    try:
        return GunicornRequest(*arguments)
    except TimeoutError:
        raise LateHeadError(late_head(head_seconds)) from None


class Waiting:
    """A timeout queue: connections with the same timeout, so that the first is the next to expire."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[Connection, float] = {}

    def add(self, connection: Connection) -> float:
        """Add a connection; return its deadline."""
        deadline = self._deadlines[connection] = time.monotonic() + self._seconds
        return deadline

    def remove(self, connection: Connection) -> None:
        """Remove a connection."""
        del self._deadlines[connection]

    def shorten(self, seconds: float) -> None:
        """Reduce the timeout of present and later connections to so many seconds from now."""
        self._seconds = min(seconds, self._seconds)
        latest = time.monotonic() + self._seconds
        self._deadlines = {connection: min(latest, deadline) for connection, deadline in self._deadlines.items()}

    def late(self) -> list[Connection]:
        """Return the connections whose deadline passed."""
        now = time.monotonic()
        found = []
        for connection, deadline in self._deadlines.items():
            if deadline > now:
                break
            found.append(connection)
        return found

    def first(self) -> Connection | None:
        """Return the connection that has waited here longest."""
        return next(iter(self._deadlines), None)

    def since(self) -> float:
        """Return when the first began to wait; infinity when none waits."""
        return self.next_deadline() - self._seconds

    def next_deadline(self) -> float:
        """Return when the next is late; infinity when none waits."""
        return next(iter(self._deadlines.values()), float("inf"))

    def all(self) -> list[Connection]:
        """Return all that wait."""
        return list(self._deadlines)


def missed_least(finishing: Waiting, *others: Waiting) -> Connection | None:
    """Return the connection to evict: a lingering one, or the one that has been idle longest."""
    return finishing.first() or min(others, key=Waiting.since).first()
