"""The response writer of the worker: it sends the headers together with the first piece of the body."""

import time
from collections.abc import Callable
from functools import lru_cache
from http.client import responses
from typing import Final

from gunicorn import util
from gunicorn.http.wsgi import SERVER

from router.request.request import Headers, Request
from router.server.sockets import BoundedSocket

MERGED_BYTES: Final = 64 * 1024
"""The longest piece of a body that is copied to be sent together with the headers."""

_BODILESS: Final = frozenset({204, 304})
"""Statuses without a body and a Content-Length (RFC 9110, section 8.6)."""
_HTTP_1_0: Final = (1, 0)


def status_line(status: int) -> str:
    """Return the status and its reason phrase; a contract may use one without a standard phrase, such as 529."""
    return f"{status} {responses.get(status, 'Unknown').upper()}"


class HttpResponseWriter:
    """Writes one response to a client's socket.

    `begin_response` is called when the headers are written, and returns whether the server allows the connection to
    carry another request. What the client and the response allow is added: at the end `keep_alive` is whether the
    connection may be reused.
    """

    __slots__ = (
        "_begin_response",
        "_held",
        "_is_bodiless",
        "_is_chunked",
        "_sock",
        "_version",
        "headers_sent",
        "keep_alive",
    )

    def __init__(self, request: Request, sock: BoundedSocket, begin_response: Callable[[], bool]) -> None:
        self._sock = sock
        self._version = request.version
        self._is_bodiless = request.method == "HEAD"
        self._is_chunked = False
        self._held = b""
        self._begin_response = begin_response
        self.keep_alive = request.keep_alive
        self.headers_sent = False

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response. Raises ValueError for a header with a line break."""
        length = "" if status in _BODILESS else f"Content-Length: {len(body)}\r\n"
        head = self._encode(status, headers, "", length)
        if self._is_bodiless or status in _BODILESS:
            body = b""
        self.headers_sent = True
        if len(body) <= MERGED_BYTES:
            self._sock.sendall(head + body)
        else:
            self._sock.sendall(head)
            self._sock.sendall(body)

    def start(self, status: int, headers: Headers) -> None:
        """Hold the headers of a response until its first piece. Raises ValueError for a header with a line break."""
        if status in _BODILESS:
            self._is_bodiless = True
        framing = ""
        if not self._is_bodiless and not any(name.lower() == "content-length" for name, _ in headers):
            if self._version > _HTTP_1_0:
                self._is_chunked = True
                framing = "Transfer-Encoding: chunked\r\n"
            else:
                # The end of the connection is the end of the body.
                self.keep_alive = False
        self._held = self._encode(status, headers, framing)

    def write(self, piece: bytes) -> None:
        """Send the next piece of the body, the headers with the first one."""
        if not piece or self._is_bodiless:
            return
        data = b"%X\r\n%b\r\n" % (len(piece), piece) if self._is_chunked else piece
        if self._held:
            self._send_held(data)
        else:
            self._sock.sendall(data)

    def chunk_sender(self) -> Callable[[bytes], object] | None:
        """Return the socket's own function once the headers of a chunked response were sent."""
        return self._sock.sendall if self._is_chunked and not self._held else None

    def end(self) -> None:
        """Send the end of the body, and the headers where no piece was sent."""
        data = b"0\r\n\r\n" if self._is_chunked else b""
        if data or self._held:
            self._send_held(data)

    def _send_held(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self.headers_sent = True
            data = held + data
        self._sock.sendall(data)

    def _encode(self, status: int, headers: Headers, framing: str, length: str = "") -> bytes:
        fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
        if fields.count("\n") != len(headers) or fields.count("\r") != len(headers):
            raise ValueError("a response header contains a line break")
        self.keep_alive = self.keep_alive and self._begin_response()
        beginning = _beginning(status, self._version, int(time.time()), self.keep_alive)
        return f"{beginning}{framing}{fields}{length}\r\n".encode("latin-1")


@lru_cache(maxsize=64)
def _beginning(status: int, version: tuple[int, int], second: int, keep_alive: bool) -> str:
    """Return the status line and the headers of the server."""
    connection = "keep-alive" if keep_alive else "close"
    line = f"HTTP/{version[0]}.{version[1]} {status_line(status)}"
    return f"{line}\r\nServer: {SERVER}\r\nDate: {util.http_date(second)}\r\nConnection: {connection}\r\n"
