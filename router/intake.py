"""A request body read from the client: bounded in bytes and time, whole or refused, never cut in silence."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final

from gunicorn.http.errors import ParseException

from router.contract.errors import ApiError

PIECE_BYTES: Final = 64 * 1024
DRAIN_BYTES: Final = 64 * 1024 * 1024
"""How much of a refused body is read, so that the client gets to read its answer before the connection closes."""
DRAIN_SECONDS: Final = 5.0

_LEAST_SECONDS: Final = 0.001
_READ: Final = "router.body_read"
_UNDECODED: Final = ("", "identity")


def read_body(environ: dict[str, Any], limit: int, seconds: float) -> bytes:
    """Return the whole request body.

    Raises ApiError: `unsupported_media_type` for a compressed body, `request_too_large` above `limit` bytes (counted
    while reading, whatever Content-Length says), `bad_request` for a body that ends early, is framed badly or takes
    longer than `seconds`.
    """
    _refuse_compressed(environ)
    promised = _content_length(environ)
    if promised is not None and promised > limit:
        raise _too_large(limit)
    pieces = []
    length = 0
    for piece in _pieces(environ, seconds):
        length += len(piece)
        if length > limit:
            raise _too_large(limit)
        pieces.append(piece)
    if promised is not None and length < promised:
        raise ApiError("bad_request", f"The request body ended after {length} of {promised} bytes")
    environ[_READ] = True
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def drain(environ: dict[str, Any]) -> None:
    """Read and drop what is left of a request body that was not read whole, up to a bound, then stop receiving.

    Called when the answer is written: a client that is still sending must get to read it, and closing at once would
    reset the connection. gunicorn goes by the socket alone, so behind the bound the socket is shut for receiving.
    """
    if environ.get(_READ) or not _has_body(environ):
        return
    left = DRAIN_BYTES
    with contextlib.suppress(ApiError):
        for piece in _pieces(environ, DRAIN_SECONDS):
            left -= len(piece)
            if left <= 0:
                break
        else:
            return
    client = environ.get("gunicorn.socket")
    if client is not None and not isinstance(client, ssl.SSLSocket):
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RD)


def _pieces(environ: dict[str, Any], seconds: float) -> Iterator[bytes]:
    body = environ["wsgi.input"]
    client = environ.get("gunicorn.socket")
    deadline = time.monotonic() + seconds
    try:
        while True:
            if client is not None:
                # A socket without any time left would turn non-blocking.
                client.settimeout(max(deadline - time.monotonic(), _LEAST_SECONDS))
            piece = body.read(PIECE_BYTES)
            if not piece:
                return
            yield piece
    except TimeoutError:
        raise ApiError("bad_request", f"The request body did not arrive within {seconds:g} s") from None
    except (OSError, ParseException) as error:
        raise ApiError("bad_request", f"The request body could not be read: {type(error).__name__}") from None
    finally:
        if client is not None:
            with contextlib.suppress(OSError):
                client.settimeout(None)


def _refuse_compressed(environ: dict[str, Any]) -> None:
    encoding = environ.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    transfer = environ.get("HTTP_TRANSFER_ENCODING", "chunked").strip().lower()
    if encoding not in _UNDECODED or transfer != "chunked":
        raise ApiError("unsupported_media_type", "Compressed request bodies are not accepted; send the body as it is")


def _content_length(environ: dict[str, Any]) -> int | None:
    text = environ.get("CONTENT_LENGTH")
    return int(text) if text else None


def _has_body(environ: dict[str, Any]) -> bool:
    return bool(_content_length(environ)) or "HTTP_TRANSFER_ENCODING" in environ


def _too_large(limit: int) -> ApiError:
    return ApiError("request_too_large", f"The request body is larger than the {limit} bytes that are allowed")
