"""Detection of a client's disconnect while an engine works on its request.

A disconnect looks like the end of what the client sends. But a client may also close only its sending half and wait for
the response. Only a write distinguishes them: a disconnected client replies with a reset, a waiting one does not.
"""

import contextlib
import select
import socket
import ssl
from typing import Final

from router.request.request import Address
from router.server.sockets import BoundedSocket

_HALF_CLOSED: Final = getattr(
    select, "POLLRDHUP", 0
)  # Linux only; elsewhere a silent disconnect shows at the next write
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_KEEPALIVE_SECONDS: Final = 1
"""Interval of TCP keepalive probes to a half-closed client. A disconnected one sends a reset, Linux after 60 s."""
_INTERIM: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientDisconnectedError(Exception):
    """The client disconnected before its response was complete."""


class DownstreamClient:
    """The client of one request: its socket is polled together with the engine's."""

    __slots__ = ("_accepts_interim", "_is_tls", "_local", "_socket", "fd", "mask", "peer", "response_started")

    def __init__(
        self,
        sock: socket.socket | None = None,
        *,
        accepts_interim: bool = True,
        peer: Address | None = None,
        local: Address | None = None,
    ) -> None:
        """Watch a socket, None where a server does not show it; HTTP/1.0 knows no interim responses."""
        self._socket = sock
        self.fd: int = -1 if sock is None else sock.fileno()
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        self._accepts_interim = accepts_interim
        self.peer = peer
        self._local = local
        self.mask = _HALF_CLOSED
        """The events to poll for; hang-up and error are always included."""
        self.response_started = False
        """Whether the response has started: then only its own bytes may be written."""

    @property
    def local(self) -> Address | None:
        """The address that the client connected to; None for a Unix socket."""
        if self._local is None and self._socket is not None:
            name = self._socket.getsockname()
            self._local = (name[0], name[1]) if isinstance(name, tuple) else None
        return self._local

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "https" if self._is_tls else "http"

    def set_send_timeout(self, seconds: float) -> None:
        """Set how long the client may take to read each piece of the proxied response: longer than for our own ones."""
        if isinstance(self._socket, BoundedSocket):
            self._socket.send_seconds = seconds

    def on_event(self, events: int) -> bool:
        """Handle the events of the client's socket. Raises ClientDisconnectedError.

        For a half-closed client something must be written: before the response, an interim response (RFC 9110, section
        15.2.1) is sent here; after its start this returns True, and the caller writes a few bytes of the response.
        """
        if events & _GONE or self._is_tls:
            raise ClientDisconnectedError
        self.mask = 0
        self._enable_keepalive()
        if self._socket is not None and self._accepts_interim and not self.response_started:
            with contextlib.suppress(OSError):  # the next poll reports it
                self._socket.send(_INTERIM, socket.MSG_DONTWAIT)
        return self.response_started

    def _enable_keepalive(self) -> None:
        """Let TCP keepalive detect a client that disconnects later, or that cannot be written to now."""
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS)
