"""TLS with clients, when gunicorn's options ask for it: the handshake runs in the event loop without blocking."""

import socket
import ssl
from typing import Any, Final, cast

from gunicorn import sock

from router.server.sockets import TlsClientSocket

PROTOCOLS: Final = ["http/1.1"]
"""What ALPN offers to clients: HTTP/2 is not served."""


def configure(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let a context create the sockets of the worker, and offer what it serves."""
    context.sslsocket_class = TlsClientSocket
    context.set_alpn_protocols(PROTOCOLS)
    return context


class ServerTls:
    """The TLS of a worker. Its context is made once, for the first client; a reload makes another one."""

    def __init__(self, cfg: Any) -> None:  # noqa: ANN401 - gunicorn's Config
        self._cfg = cfg
        self._context: ssl.SSLContext | None = None

    def wrap(self, accepted: socket.socket) -> TlsClientSocket:
        """Wrap an accepted connection, before its handshake; it does not block. Raises OSError."""
        if self._context is None:
            self._context = sock.ssl_context(self._cfg)
        accepted.setblocking(False)
        ragged = self._cfg.suppress_ragged_eofs
        wrapped = self._context.wrap_socket(accepted, True, False, ragged)
        return cast("TlsClientSocket", wrapped)


def is_disconnect(error: OSError) -> bool:
    """Return whether a handshake failed because the client disconnected."""
    return not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
