"""The client of a request: whether it is still there while an engine works for it.

A hang-up shows as the end of what the client sends; but a client may also close its sending half alone and wait for its
answer. Only writing tells: a client that left answers with a reset, one that waits does not.
"""

import contextlib
import select
import socket
import ssl
from typing import Any, Final

from router.server.sockets import BoundedSocket

_HALF_CLOSED: Final = getattr(select, "POLLRDHUP", 0)  # Linux alone; elsewhere a silent leave shows at the next write
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_ASK_SECONDS: Final = 1
"""Time between TCP's own probes of a half-closed client; one that left answers with a reset, Linux after a minute."""
_INTERIM: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientGoneError(Exception):
    """The client hung up: nobody is left to answer."""


class Client:
    """The socket of one request's client, to be polled beside the engine's."""

    __slots__ = ("_is_tls", "_socket", "_takes_interim", "fd", "is_answered", "mask")

    def __init__(self, environ: dict[str, Any]) -> None:
        self._socket = environ.get("gunicorn.socket")
        self.fd: int = -1 if self._socket is None else self._socket.fileno()
        self._is_tls = isinstance(self._socket, ssl.SSLSocket)
        self._takes_interim = environ.get("SERVER_PROTOCOL") == "HTTP/1.1"
        self.mask = _HALF_CLOSED
        """What to poll the socket for; poll itself adds hang-up and error."""
        self.is_answered = False
        """Has the answer begun? Then only its own bytes may be written."""

    def may_take(self, seconds: float) -> None:
        """Let the client take so long for each piece of the answer that comes now: more than for one of our own."""
        if isinstance(self._socket, BoundedSocket):
            self._socket.send_seconds = seconds

    def notice(self, events: int) -> bool:
        """Judge what poll says of the socket; True asks for a few bytes of the running answer, to see if they arrive.

        Before the answer an interim one (RFC 9110, section 15.2.1) does that here. Raises ClientGoneError.
        """
        if events & _GONE or self._is_tls:
            raise ClientGoneError
        self.mask = 0
        self._let_the_system_ask()
        if self._socket is not None and self._takes_interim and not self.is_answered:
            with contextlib.suppress(OSError):  # poll tells next
                self._socket.send(_INTERIM, socket.MSG_DONTWAIT)
        return self.is_answered

    def _let_the_system_ask(self) -> None:
        """Have one that leaves later, or that cannot be written to now, found out by probes of TCP's own."""
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _ASK_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASK_SECONDS)
