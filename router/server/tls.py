"""TLS with clients, when gunicorn's options ask for it: the handshake runs in the event loop without blocking."""

import socket
import ssl
from typing import Any, Final

from gunicorn import sock

WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a non-blocking socket raises when it would block."""


def wrap(accepted: socket.socket, cfg: Any) -> Any:  # noqa: ANN401 - gunicorn's Config; the class that its hook sets
    """Wrap an accepted connection in TLS, before its handshake. Raises OSError."""
    return sock.ssl_context(cfg).wrap_socket(
        accepted, server_side=True, suppress_ragged_eofs=cfg.suppress_ragged_eofs, do_handshake_on_connect=False
    )


def is_http2(client: Any) -> bool:  # noqa: ANN401 - as above
    """Return whether the handshake negotiated HTTP/2."""
    return bool(sock.is_http2_negotiated(client))


def is_disconnect(error: OSError) -> bool:
    """Return whether a handshake failed because the client disconnected."""
    return not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
