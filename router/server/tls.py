"""TLS with clients, where gunicorn is told to speak it: in the worker's main loop, which waits for no handshake."""

import socket
import ssl
from typing import Any, Final

from gunicorn import sock

NOT_YET: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a socket that does not block raises until more comes."""


def wrapped(accepted: socket.socket, cfg: Any) -> Any:  # noqa: ANN401 - gunicorn's Config; the class its hook names
    """Return an accepted connection as one under TLS, before its handshake. Raises OSError."""
    return sock.ssl_context(cfg).wrap_socket(
        accepted, server_side=True, suppress_ragged_eofs=cfg.suppress_ragged_eofs, do_handshake_on_connect=False
    )


def is_http2(client: Any) -> bool:  # noqa: ANN401 - as above
    """Tell whether the handshake agreed on HTTP/2."""
    return bool(sock.is_http2_negotiated(client))


def is_left(error: OSError) -> bool:
    """Tell whether a handshake failed because the client left."""
    return not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
