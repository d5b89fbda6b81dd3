"""Reads a request body from the client, bounded in bytes and time: completely, or with an error."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final

from gunicorn.http.errors import ParseException

from router.contract.errors import ApiError, request_too_large
from router.runtime import event_loop
from router.server.sockets import BoundedSocket

PIECE_BYTES: Final = 4 * 1024 * 1024
DRAIN_BYTES: Final = 64 * 1024 * 1024
"""How much of a rejected body is read, so that the client can read the response before the connection closes."""
DRAIN_SECONDS: Final = 5.0

HELD: Final = "router.body"
"""The key of the environ with the complete body, if it was read together with the headers."""
_SPENT: Final = "router.body_spent"
"""Set in the environ when nothing is left of the body to be read."""
_UNREADABLE: Final = "router.body_unreadable"
"""The environ key that is set if the rest of the body cannot be read."""
_UNDECODED: Final = ("", "identity")


def read_body(environ: dict[str, Any], limit: int, seconds: float) -> bytes:
    """Return the whole request body.

    Raises ApiError: `unsupported_media_type` for a compressed body, `request_too_large` above `limit` bytes (counted
    while reading, not by Content-Length), `bad_request` for a body that ends early, is malformed or takes longer than
    `seconds`.
    """
    _refuse_compressed(environ)
    held: bytes | None = environ.get(HELD)
    if held is not None and len(held) <= limit:
        return held
    promised = _content_length(environ)
    if promised is not None and promised > limit:
        raise request_too_large(limit)
    pieces = list(_pieces(environ, limit + 1, seconds))
    length = sum(map(len, pieces))
    if length > limit:
        raise request_too_large(limit)
    if promised is not None and length < promised:
        raise ApiError("bad_request", f"The request body ended after {length} of {promised} bytes")
    _tell_that_it_is_read(environ)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _tell_that_it_is_read(environ: dict[str, Any]) -> None:
    client = environ.get("gunicorn.socket")
    if isinstance(client, BoundedSocket) and client.when_read is not None:
        when_read, client.when_read = client.when_read, None
        when_read()


def drain(environ: dict[str, Any], seconds: float = DRAIN_SECONDS) -> None:
    """Read and drop the unread rest of a request body up to a bound, then stop receiving (lingering close).

    Called after the response was written: a client that is still sending must be able to read it, and closing at once
    would reset the connection. Beyond the bound, receiving is shut down on the socket.
    """
    if HELD in environ or environ.get(_SPENT) or not _has_body(environ):
        return
    if not environ.get(_UNREADABLE):
        with contextlib.suppress(ApiError):
            for _ in _pieces(environ, DRAIN_BYTES, seconds):
                continue
    client = environ.get("gunicorn.socket")
    if client is not None and not environ.get(_SPENT) and not isinstance(client, ssl.SSLSocket):
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RD)


def _pieces(environ: dict[str, Any], most_bytes: int, seconds: float) -> Iterator[bytes]:
    """Yield the body until it ends or `most_bytes` are read. Raises ApiError `bad_request` if it cannot be read."""
    body = environ["wsgi.input"]
    client = environ.get("gunicorn.socket")
    deadline = time.monotonic() + seconds
    if isinstance(client, BoundedSocket):
        client.deadline = deadline
    left = most_bytes
    try:
        while left > 0:
            _allow(client, deadline)
            piece = body.read(min(left, PIECE_BYTES))
            if not piece:
                environ[_SPENT] = True
                return
            left -= len(piece)
            yield piece
    except TimeoutError:
        environ[_UNREADABLE] = True
        raise ApiError("bad_request", f"The request body did not arrive within {seconds:g} s") from None
    except (OSError, ParseException) as error:
        environ[_UNREADABLE] = True
        raise ApiError("bad_request", f"The request body could not be read: {type(error).__name__}") from None
    finally:
        if client is not None and not event_loop.in_task():
            with contextlib.suppress(OSError):
                client.settimeout(None)


def _allow(client: socket.socket | None, deadline: float) -> None:
    """Set the timeout of the next read to the remaining time. Raises TimeoutError if none remains.

    The sockets of our worker do this themselves, for each of the system calls that one read may take.
    """
    if isinstance(client, BoundedSocket):
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    if client is not None:
        client.settimeout(left)


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
