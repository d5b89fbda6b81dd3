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


def wrap(accepted: socket.socket, cfg: Any) -> TlsClientSocket:  # noqa: ANN401 - gunicorn's Config
    """Wrap an accepted connection in TLS, before its handshake; it does not block. Raises OSError."""
    accepted.setblocking(False)
    return cast(
        "TlsClientSocket",
        sock.ssl_context(cfg).wrap_socket(
            accepted, server_side=True, suppress_ragged_eofs=cfg.suppress_ragged_eofs, do_handshake_on_connect=False
        ),
    )


def is_disconnect(error: OSError) -> bool:
    """Return whether a handshake failed because the client disconnected."""
    return not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
