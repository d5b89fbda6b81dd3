"""Reads a request body under WSGI, bounded in bytes and time: completely, or with an error."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Final, Protocol

from gunicorn.http.errors import ParseException

from router.contract.errors import ApiError, request_too_large
from router.server.limits import DRAIN_BYTES

PIECE_BYTES: Final = 4 * 1024 * 1024


class BodySource(Protocol):
    """What a body is read from, as `wsgi.input` is."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, b"" at the end."""


class StreamedBody:
    """A body that is read from the client on demand.

    `length` is its declared length, None for a chunked one; `sock` is the client's socket if it is known.
    """

    def __init__(self, source: BodySource, length: int | None, sock: socket.socket | None) -> None:
        self._source = source
        self._length = length
        self._sock = sock
        self._is_spent = length == 0
        """Whether nothing of the body is left to be read."""
        self._is_unreadable = False

    def read(self, limit: int, timeout_seconds: float) -> bytes:
        """Return the whole body.

        Raises ApiError: `request_too_large` above `limit` bytes (counted while reading, not by Content-Length),
        `bad_request` for a body that ends early, is malformed or takes longer than `timeout_seconds`.
        """
        declared = self._length
        if declared is not None and declared > limit:
            raise request_too_large(limit)
        pieces = list(self._pieces(limit + 1, timeout_seconds))
        length = sum(map(len, pieces))
        if length > limit:
            raise request_too_large(limit)
        if declared is not None and length < declared:
            raise ApiError("bad_request", f"The request body ended after {length} of {declared} bytes")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def drain(self, timeout_seconds: float) -> None:
        """Read and drop the unread rest up to a bound, then stop receiving (lingering close).

        Called after the response was written: a client that is still sending must be able to read it, and closing at
        once would reset the connection. Beyond the bound, receiving is shut down on the socket.
        """
        if self._is_spent:
            return
        if not self._is_unreadable:
            with contextlib.suppress(ApiError):
                for _ in self._pieces(DRAIN_BYTES, timeout_seconds):
                    continue
        if self._sock is not None and not self._is_spent and not isinstance(self._sock, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RD)

    def _pieces(self, max_bytes: int, seconds: float) -> Iterator[bytes]:
        """Yield the body until it ends or `max_bytes` are read. Raises ApiError `bad_request` if it cannot be read."""
        client = self._sock
        deadline = time.monotonic() + seconds
        left = 0 if self._is_spent else max_bytes
        try:
            while left > 0:
                _allow(client, deadline)
                piece = self._source.read(min(left, PIECE_BYTES))
                if not piece:
                    self._is_spent = True
                    return
                left -= len(piece)
                yield piece
        except TimeoutError:
            self._is_unreadable = True
            raise ApiError("bad_request", f"The request body did not arrive within {seconds:g} s") from None
        except (OSError, ParseException) as error:
            self._is_unreadable = True
            raise ApiError("bad_request", f"The request body could not be read: {type(error).__name__}") from None
        finally:
            if client is not None:
                with contextlib.suppress(OSError):
                    client.settimeout(None)


def _allow(client: socket.socket | None, deadline: float) -> None:
    """Set the timeout of the next read to the remaining time. Raises TimeoutError if none remains."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    if client is not None:
        client.settimeout(left)
