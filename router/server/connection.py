"""A client's connection: the bytes of its requests go in, requests come out. It never waits."""

import socket
import struct
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from router.request.request import Address, Request, RequestBody, WholeBody
from router.runtime.byte_budget import ByteBudget
from router.server import sockets
from router.server.body_framing import BodyFraming, framing_of
from router.server.body_reader import BodyReader
from router.server.disconnect import DownstreamClient
from router.server.request_parser import HeaderLimits, ParsedHeaders, RequestError, RequestReader
from router.server.sockets import ClientSocket, TlsClientSocket

if TYPE_CHECKING:
    from router.server.timeout_queue import TimeoutQueue

RECEIVE_BYTES: Final = 64 * 1024
"""Most bytes that are received in one call, and of pipelined requests that are held: nothing more is received while a
request is served."""
BUFFERED_BYTES: Final = 64 * 1024
"""Longest body that is buffered until it is complete. A longer one is received in the task of its request."""

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on with a timeout of 0: closing resets the connection."""
_HTTP_1_1: Final = (1, 1)


class Stage(Enum):
    """How much of a request was received."""

    IDLE = auto()
    HEADERS = auto()
    BODY = auto()
    READY = auto()
    """Complete, or with a body that is received in the task of the request."""


class Connection:
    """One client's connection. Its requests come one after the other: `feed`, `take_request`, `end_request`."""

    def __init__(
        self,
        sock: ClientSocket | TlsClientSocket,
        addresses: tuple[Any, Any],
        limits: HeaderLimits,
        buffered_bytes: int = BUFFERED_BYTES,
    ) -> None:
        self.sock = sock
        self.peer, self.local = map(_address, addresses)
        self.stage = Stage.IDLE
        self.waits_in: TimeoutQueue | None = None
        self.awaits_handshake = self._is_tls = isinstance(sock, TlsClientSocket)
        self.must_reset = False
        """Whether closing has to reset the connection: its client may still be sending, and would wait for ever."""
        self.is_cut = False
        """Whether a response was cut off in a way that only a reset shows to the client."""
        self.drained = 0
        self._limits = limits
        self._buffered_bytes = buffered_bytes
        self._reader = RequestReader(limits)
        self._request: ParsedHeaders | None = None
        self._framing: BodyFraming
        self._pieces: list[bytes] = []
        self._received = 0
        self._behind = b""
        self._body: BodyReader | None = None
        self._has_ended = False
        self._is_late = False

    # --- reading ---

    def receive(self) -> bytes:
        """Return the received bytes, b"" at the end of the stream. Raises OSError, also if no byte was received."""
        piece = self.sock.recv(RECEIVE_BYTES)
        # A poller does not report bytes that the TLS layer has buffered.
        while piece and self._is_tls and self.sock.pending():  # type: ignore[union-attr]
            piece += self.sock.recv(RECEIVE_BYTES)
        return piece

    def feed(self, piece: bytes) -> Stage:
        """Take received bytes; return how much of a request was received. Raises RequestError."""
        request = self._request
        if request is None:
            found = self._reader.feed(piece)
            if found is None:
                self.stage = Stage.HEADERS
                return self.stage
            request, piece = found
            self._request = request
            self._framing = framing_of(request, self._limits)
        framing = self._framing
        try:
            body, self._behind = framing.feed(piece)
        except RequestError as error:
            error.target = request.target
            raise
        if body:
            self._pieces.append(body)
            self._received += len(body)
        is_long = request.length > self._buffered_bytes or self._received > self._buffered_bytes
        is_ready = framing.is_complete or request.expects_continue or is_long
        self.stage = Stage.READY if is_ready else Stage.BODY
        return self.stage

    def is_complete(self) -> bool:
        """Return whether the request was received with its whole body."""
        return self._framing.is_complete

    def has_begun(self) -> bool:
        """Return whether the headers of a request were received."""
        return self._request is not None

    def end_body(self, *, is_late: bool = False) -> None:
        """Note that the rest of the body will not come: the client closed its sending half, or is too late."""
        self._has_ended, self._is_late = not is_late, is_late

    def target(self) -> str | None:
        """Return the target of the request that is being received, as far as it is known."""
        return self._request.target if self._request is not None else self._reader.target()

    # --- serving ---

    def take_request(self, budget: ByteBudget) -> Request:
        """Return the request that was received. Room for the rest of its body is reserved in the budget."""
        parsed = self._request
        assert parsed is not None  # noqa: S101 - the stage is READY
        client = DownstreamClient(
            self.sock, accepts_interim=parsed.version >= _HTTP_1_1, peer=self.peer, local=self.local
        )
        return Request(
            parsed.method,
            parsed.target,
            parsed.headers,
            self._take_body(parsed, budget),
            client,
            parsed.version,
            parsed.keep_alive,
            parsed.by_name,
        )

    def _take_body(self, parsed: ParsedHeaders, budget: ByteBudget) -> RequestBody:
        pieces = self._pieces
        if self._framing.is_complete:
            return WholeBody(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        self._body = body = BodyReader(self.sock, parsed, self._framing, pieces, budget)
        body.has_ended, body.is_late = self._has_ended, self._is_late
        return body

    def begin_response(self) -> bool:
        """Release the room of the body, and return whether the response may say that the connection is kept."""
        if self._body is None:
            return True
        self._body.release_room()
        return not self._body.awaits_continue()

    def end_request(self) -> bytes | None:
        """Forget a request that was served; return the bytes behind it, None if its end is not known."""
        body, self._body = self._body, None
        behind: bytes | None = self._behind
        if body is not None:
            body.release_room()
            self.drained = body.drained
            behind = body.behind if body.is_complete() else None
        self._request = None
        self._pieces = []
        self._received = 0
        self._behind = b""
        self.stage = Stage.IDLE
        return behind

    # --- closing ---

    def shake_hands(self) -> bool:
        """Continue the TLS handshake; return whether it is done. Raises OSError."""
        with suppress(*sockets.WOULD_BLOCK):
            self.sock.do_handshake()  # type: ignore[union-attr]
            self.awaits_handshake = False
        return not self.awaits_handshake

    def stop_sending(self) -> None:
        """Close the sending half, so that the client sees the end of the response. Raises OSError."""
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection, with a reset where only that shows the client what happened."""
        with suppress(OSError):
            if self.must_reset or self.is_cut:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            elif self._is_tls:
                self.stop_sending()
        with suppress(OSError):
            self.sock.close()


def _address(name: Any) -> Address | None:  # noqa: ANN401 - as the system has it
    """Return host and port of a socket's name; None for a Unix socket."""
    return (name[0], name[1]) if isinstance(name, tuple) else None
