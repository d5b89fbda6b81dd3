"""The request parser: bytes in, requests out. It opens nothing and waits for nothing.

httptools (llhttp) reads the header fields. What it would let pass is checked here: the request line, the limits,
repeated fields, and where the body ends. At least what gunicorn's parser rejects is rejected; a test compares the two.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httptools

from router.contract.errors import ApiError
from router.request.request import Headers

HEADER_BYTES: Final = 64 * 1024
"""Most bytes of the request line and the headers together."""
CHUNKED: Final = -1
"""Stands for the length of a body that comes in chunks."""

_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
_PARSED_LINE: Final = b"POST / HTTP/1.1"
"""The request line that httptools sees in place of the real one: it takes some methods for other protocols."""
# Methods of 3 to 20 characters without lower-case letters are gunicorn's rule; all registered ones are such.
_REQUEST_LINE = re.compile(rb"([!$%&'*+\-.^_`|~0-9A-Z]{3,20}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_VERSIONS: Final = {(b"1", b"1"): (1, 1), (b"1", b"0"): (1, 0)}
_SINGLE: Final = ("host", "content-type", "content-length")
"""Headers that must not be repeated: readers would choose different ones of them."""
_CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "compress", "x-compress", "identity"})
_FORBIDDEN_TRAILERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "trailer", "authorization", "te", "content-type"}
)
"""Fields that change the meaning or the framing of a request (RFC 9110, section 6.5.1)."""

_LEARNT_NAMES: Final[dict[bytes, str]] = {}
_MAX_LEARNT: Final = 1000
_MAX_LEARNT_LENGTH: Final = 100


class RequestError(ApiError):
    """The bytes of a client are no request that is served. `reason` says why, without any byte of the client's."""

    def __init__(self, code: str, message: str, reason: str, target: str | None = None) -> None:
        super().__init__(code, message)
        self.reason = reason
        self.target = target
        """The request target, as far as it was read."""


class HeaderLimits(NamedTuple):
    """HeaderLimits of the headers of a request, as gunicorn names them."""

    line_bytes: int = 4094
    """The longest request line."""
    fields: int = 100
    """Most header fields."""
    field_bytes: int = 8190
    """The longest header field, with its line end."""


class ParsedHeaders:
    """The request line and the headers of a request, and the length of its body."""

    __slots__ = ("by_name", "expects_continue", "headers", "keep_alive", "length", "method", "target", "version")

    def __init__(  # noqa: PLR0913, PLR0917 - on the hot path
        self,
        method: str,
        target: str,
        version: tuple[int, int],
        headers: Headers,
        by_name: dict[str, str],
        length: int,
        keep_alive: bool,
        expects_continue: bool,
    ) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        """In the order in which they were sent; names in lower case, values without white space around them."""
        self.by_name = by_name
        """The headers by name; repeated ones joined by a comma."""
        self.length = length
        """The length of the body in bytes, or CHUNKED."""
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        """Whether the client waits for `100 Continue` before it sends the body."""


class RequestReader:
    """Reads the request line and the headers of one request after the other from pieces of any size."""

    __slots__ = ("_data", "_line_start", "_lines", "_scanned", "limits")

    def __init__(self, limits: HeaderLimits) -> None:
        self.limits = limits
        self._data: bytes | bytearray = b""
        self._scanned = 0
        self._line_start = 0
        self._lines = 0

    def target(self) -> str | None:
        """Return the target of a request whose headers are not complete; None if it was not received."""
        words = bytes(self._data[: self.limits.line_bytes]).split(b" ", 2)
        return words[1].decode("latin-1") if len(words) > 1 else None

    def feed(self, piece: bytes) -> tuple[ParsedHeaders, bytes] | None:
        """Take received bytes; return a request and the bytes behind its headers once these are complete.

        Raises RequestError. The limits hold before anything is parsed.
        """
        data = self._data
        if data:
            assert isinstance(data, bytearray)  # noqa: S101 - see below
            data += piece
            start = max(0, self._scanned - len(_END) + 1)
        else:
            data, start = piece, 0
        if data[:2] == _LINE_END:
            # RFC 9112, section 2.2: one empty line before the request line is ignored.
            end = data.find(_END, max(2, start))
            first = 2
        else:
            end = data.find(_END, start)
            first = 0
        if end < 0:
            self._data = data if data is self._data else bytearray(data)
            self._check_incomplete(first)
            return None
        request = parse_headers(bytes(data[first : end + 2]), self.limits)
        self._data = b""
        self._scanned = self._line_start = self._lines = 0
        return request, bytes(data[end + len(_END) :])

    def _check_incomplete(self, first: int) -> None:
        """Check the limits of headers that are not complete, and reject what no further byte can repair.

        Each call scans only the bytes added since the last one.
        """
        data, limits = self._data, self.limits
        if self._line_start < first:
            self._line_start, self._scanned = first, max(first, self._scanned)
        if _BARE_LINE_FEED.search(data, max(self._line_start, self._scanned - 1)):
            raise _malformed("a line feed without a carriage return", self.target())
        while (line_end := data.find(_LINE_END, max(self._line_start, self._scanned - 1))) >= 0:
            self._lines += 1
            self._check_line(line_end + len(_LINE_END) - self._line_start)
            if self._lines == 1:
                _parse_line(bytes(data[self._line_start : line_end]), limits)
            self._line_start = self._scanned = line_end + len(_LINE_END)
        self._scanned = len(data)
        self._check_line(len(data) - self._line_start, is_begun=True)
        if len(data) > HEADER_BYTES:
            raise _too_large("the headers are too long", self.target())

    def _check_line(self, length: int, *, is_begun: bool = False) -> None:
        """Check the length of a line with its end, or of as much as was received of the line behind the others."""
        limits, lines = self.limits, self._lines + is_begun
        if lines == 1:
            if length - len(_LINE_END) > limits.line_bytes:
                raise _line_too_long()
        elif length > limits.field_bytes:
            raise _too_large("a header is too long", self.target())
        elif lines - 1 > limits.fields and length > len(_LINE_END):
            raise _too_large("too many headers", self.target())


class _Fields:
    """The callbacks of httptools."""

    __slots__ = ("headers",)

    def __init__(self) -> None:
        self.headers: Headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((_LEARNT_NAMES.get(name) or _learn(name), value.decode("latin-1").rstrip(" \t")))


def parse_headers(block: bytes, limits: HeaderLimits) -> ParsedHeaders:
    """Parse a request line and headers, each with its line end. Raises RequestError."""
    line_end = block.find(_LINE_END)
    method, target, version = _parse_line(block[:line_end], limits)
    if block.count(_LINE_END) - 1 > limits.fields:
        raise _too_large("too many headers", target)
    if len(block) > limits.field_bytes and _longest_field(block) > limits.field_bytes:
        raise _too_large("a header is too long", target)
    if len(block) > HEADER_BYTES:
        raise _too_large("the headers are too long", target)
    fields = _Fields()
    try:
        httptools.HttpRequestParser(fields).feed_data(_PARSED_LINE + block[line_end:] + _LINE_END)
    except httptools.HttpParserUpgrade:
        # An Upgrade header is ignored (RFC 9110, section 7.8), so the request has the body that its headers say.
        pass
    except httptools.HttpParserError as error:
        raise _malformed(_reason(error), target) from None
    headers = fields.headers
    by_name = dict(headers)
    if len(by_name) != len(headers):
        _check_repeated(headers, target)
        by_name = _joined(headers)
    return ParsedHeaders(
        method,
        target,
        version,
        headers,
        by_name,
        _body_length(by_name, version, target),
        _keeps_alive(by_name, version, method),
        "expect" in by_name and _expects_continue(by_name["expect"], version, target),
    )


def parse_trailers(block: bytes, limits: HeaderLimits) -> None:
    """Check the trailers of a chunked body, each with its line end; they are dropped. Raises RequestError."""
    fields = _Fields()
    try:
        httptools.HttpRequestParser(fields).feed_data(_PARSED_LINE + _LINE_END + block + _LINE_END)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise _malformed(_reason(error)) from None
    if len(fields.headers) > limits.fields:
        raise _too_large("too many trailers")
    if any(name in _FORBIDDEN_TRAILERS for name, _ in fields.headers):
        raise _malformed("a trailer that is allowed in headers only")


def _parse_line(line: bytes, limits: HeaderLimits) -> tuple[str, str, tuple[int, int]]:
    """Return method, target and version of a request line without its end. Raises RequestError."""
    if len(line) > limits.line_bytes:
        raise _line_too_long()
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        words = line.split(b" ", 2)
        target = words[1].decode("latin-1") if len(words) > 1 else None
        raise RequestError("bad_request", "The request line is malformed", "the request line is malformed", target)
    method, target = match[1].decode(), match[2].decode()
    version = _VERSIONS.get((match[3], match[4]))
    if version is None:
        message = "The HTTP version of the request is not supported; send HTTP/1.1 or HTTP/1.0"
        raise RequestError("http_version_not_supported", message, "an HTTP version that is not served", target)
    if target[0] != "/":
        _check_target(method, target)
    return method, target, version


def _check_target(method: str, target: str) -> None:
    """Check a target that is no path (RFC 9112, section 3.2). Raises RequestError."""
    is_valid = method == "OPTIONS" if target == "*" else method == "CONNECT" or "://" in target
    try:
        urlsplit(target)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise RequestError("bad_request", "The request line is malformed", "the request target is malformed", target)


def _check_repeated(headers: Headers, target: str) -> None:
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _SINGLE):
        raise _malformed("a header that must not be repeated", target)


def _joined(headers: Headers) -> dict[str, str]:
    by_name: dict[str, str] = {}
    for name, value in headers:
        by_name[name] = f"{by_name[name]},{value}" if name in by_name else value
    return by_name


def _body_length(by_name: dict[str, str], version: tuple[int, int], target: str) -> int:
    """Return the length of the body, or CHUNKED. Raises RequestError if two readers might see two ends."""
    coding = by_name.get("transfer-encoding")
    length = by_name.get("content-length")
    if coding is None:
        # httptools has checked that these are digits, and few.
        return int(length) if length is not None else 0
    if version == (1, 0):
        raise _malformed("Transfer-Encoding in HTTP/1.0", target)
    if length is not None:
        raise _malformed("both Content-Length and Transfer-Encoding", target)
    codings = [each.strip(" \t").lower() for each in coding.split(",")]
    if codings == ["chunked"]:
        return CHUNKED
    if codings[-1] == "chunked" and _CODINGS.issuperset(codings[:-1]):
        message = "Compressed request bodies are not accepted; send the body as it is"
        raise RequestError("unsupported_media_type", message, "a transfer coding besides chunked", target)
    raise _malformed("a Transfer-Encoding that is not chunked", target)


def _keeps_alive(by_name: dict[str, str], version: tuple[int, int], method: str) -> bool:
    """Return whether the client lets the connection carry another request (RFC 9110, section 7.6.1)."""
    if method == "CONNECT":
        # What follows would be the bytes of a tunnel.
        return False
    option = by_name.get("connection")
    if option is None:
        return version == (1, 1)
    options = {each.strip(" \t").lower() for each in option.split(",")}
    return "close" not in options and (version == (1, 1) or "keep-alive" in options)


def _expects_continue(value: str, version: tuple[int, int], target: str) -> bool:
    if value.lower() != "100-continue":
        message = "The only supported expectation is 100-continue"
        raise RequestError("expectation_failed", message, "an expectation that is not supported", target)
    # RFC 9110, section 10.1.1: it is ignored in HTTP/1.0.
    return version == (1, 1)


def _learn(name: bytes) -> str:
    """Return a header name in lower case. Raises RequestError for a name that other readers take for another one."""
    if b"_" in name:
        # CGI and WSGI write X-A and X_A as the same variable.
        raise _malformed("an underscore in the name of a header")
    lower = name.decode("latin-1").lower()
    if len(_LEARNT_NAMES) < _MAX_LEARNT and len(name) <= _MAX_LEARNT_LENGTH:
        _LEARNT_NAMES[name] = lower
    return lower


def _longest_field(block: bytes) -> int:
    """Return the length of the longest header with its line end."""
    return max(map(len, block.split(_LINE_END)[1:])) + len(_LINE_END)


def _reason(error: httptools.HttpParserError) -> str:
    """Return what httptools found; its texts are constants and contain no byte of the request."""
    cause = error.__context__
    return cause.reason if isinstance(cause, RequestError) else str(error)


def _malformed(reason: str, target: str | None = None) -> RequestError:
    return RequestError("bad_request", "A header of the request is malformed or ambiguous", reason, target)


def _too_large(reason: str, target: str | None = None) -> RequestError:
    message = "The headers of the request are too large or too many"
    return RequestError("headers_too_large", message, reason, target)


def _line_too_long() -> RequestError:
    return RequestError("uri_too_long", "The request line is too long", "the request line is too long")
