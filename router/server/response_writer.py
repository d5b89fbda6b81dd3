"""The response writer: as gunicorn's, but it sends the headers and the first piece of the body together."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from gunicorn import util
from gunicorn.http.wsgi import Response

from router.server.request_parser import Plain
from router.server.sockets import ClientSocket

_MERGE_BYTES: Final = 64 * 1024
"""The longest piece of a body that is copied to be sent together with the headers."""


_MAX_CACHED: Final = 200
_VALID_NAMES: Final[set[str]] = set()
"""Header names that gunicorn accepted and gives no meaning: it would check each again."""
_LENGTH: Final = "Content-Length"
_VALID_STATUSES: Final[dict[str, int]] = {}
"""Status lines that gunicorn accepted, of responses that may have a body."""


def _is_special(name: str) -> bool:
    return name.lower() == "content-length" or bool(util.is_hoppish(name))


class _Dates:
    """The Date header, formatted once a second."""

    second = 0
    text = ""

    @classmethod
    def now(cls) -> str:
        second = int(time.time())
        if second != cls.second:
            cls.text = util.http_date(second)
            cls.second = second
        return cls.text


class _Request:
    """What gunicorn's Response needs of the request: a POST of HTTP/1.1."""

    method = "POST"
    version = (1, 1)

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps

    def should_close(self) -> bool:
        return not self._keeps


class HttpResponseWriter(Response):  # type: ignore[misc] # gunicorn has no types
    """Writes one response; what HTTP does not allow is rejected, as gunicorn does."""

    status: str | None
    status_code: int
    sent: int

    def __init__(self, request: Plain, sock: ClientSocket, cfg: Any) -> None:  # noqa: ANN401 - gunicorn's
        super().__init__(_Request(keeps=request.keeps), sock, cfg)

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[..., Any]:  # noqa: ANN401 - gunicorn's
        """Take status and headers as gunicorn does, without checking a known status again."""
        code = _VALID_STATUSES.get(status)
        if code is None or exc_info or self.status is not None:
            write: Callable[..., Any] = super().start_response(status, headers, exc_info)
            if not self._omits_body and len(_VALID_STATUSES) < _MAX_CACHED:
                _VALID_STATUSES[status] = self.status_code
            return write
        self.status, self.status_code = status, code
        self.process_headers(headers)
        self.chunked = self.response_length is None
        return self.write

    def process_headers(self, headers: list[tuple[str, str]]) -> None:
        """Take the headers, and reject what HTTP does not allow, as gunicorn does."""
        for name, value in headers:
            if name in _VALID_NAMES and value.isascii() and value.isprintable():
                self.headers.append((name, value.strip(" ")))
            elif name == _LENGTH and value.isascii() and value.isdigit():
                self.response_length = int(value)
                self.headers.append((name, value))
            else:
                super().process_headers([(name, value)])
                if len(_VALID_NAMES) < _MAX_CACHED and len(name) < _MAX_CACHED and not _is_special(name):
                    _VALID_NAMES.add(name)

    def header_bytes(self) -> bytes:
        """Return the status line and the headers, which then count as sent."""
        self.headers_sent = True
        fields = "".join([f"{name}: {value}\r\n" for name, value in self.headers])
        framing = "Transfer-Encoding: chunked\r\n" if self.chunked else ""
        connection = "close" if self.should_close() else "keep-alive"
        return (
            f"HTTP/1.1 {self.status}\r\nServer: {self.version}\r\nDate: {_Dates.now()}\r\n"
            f"Connection: {connection}\r\n{framing}{fields}\r\n"
        ).encode("latin-1")

    def send_headers(self) -> None:
        """Send the headers alone, unless they were sent."""
        if not self.headers_sent:
            self.sock.sendall(self.header_bytes())

    def _emit_body(self, data: bytes) -> None:
        if self.chunked:
            data = b"%X\r\n%b\r\n" % (len(data), data)
        self.sock.sendall(data)

    def write(self, arg: bytes) -> None:
        """Send a piece of the body, the headers first."""
        if self.headers_sent and self.chunked and type(arg) is bytes and arg:
            # The next events of a stream, framed as gunicorn does.
            self.sent += len(arg)
            self.sock.sendall(b"%X\r\n%b\r\n" % (len(arg), arg))
            return
        if self.headers_sent or self._omits_body or not isinstance(arg, bytes) or len(arg) > _MERGE_BYTES:
            super().write(arg)
            return
        if self.response_length is not None:
            arg = arg[: self.response_length]
        self.sent = len(arg)
        if self.chunked and arg:
            arg = b"%X\r\n%b\r\n" % (len(arg), arg)
        self.sock.sendall(self.header_bytes() + arg)

    def write_all(self, pieces: Iterable[bytes]) -> None:
        """Send a whole body, piece by piece."""
        for piece in pieces:
            self.write(piece)
        self.close()
