"""Where the body of a request ends: by its Content-Length, or by its chunks (RFC 9112, sections 6 and 7)."""

import re
from typing import Final, Protocol

from router.server.request_parser import CHUNKED, HeaderLimits, ParsedHeaders, RequestError, parse_trailers

SIZE_LINE_BYTES: Final = 1024
"""The longest line with the size and the extensions of a chunk."""
EXTENSION_BYTES: Final = 16 * 1024
"""Most bytes of extensions in one body."""
TRAILER_BYTES: Final = 8190
"""Most bytes of the trailers."""

_MAX_SIZE_DIGITS: Final = 15
_LINE_END: Final = b"\r\n"
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED: Final = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_SIZE_LINE = re.compile(
    rb"([0-9A-Fa-f]+)((?:[ \t]*;[ \t]*" + _TOKEN + rb"(?:[ \t]*=[ \t]*(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?)*)"
)


class BodyFraming(Protocol):
    """Finds the end of a body in pieces of any size."""

    is_complete: bool

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what of the received bytes belongs to the body, and the bytes behind it. Raises RequestError."""


class LengthFraming:
    """A body with a Content-Length."""

    __slots__ = ("_left", "is_complete")

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_complete = not length

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what of the received bytes belongs to the body, and the bytes behind it."""
        left = self._left
        if len(data) < left:
            self._left = left - len(data)
            return data, b""
        self._left = 0
        self.is_complete = True
        return data[:left], data[left:]


class ChunkedFraming:
    """A body in chunks. Its extensions are skipped, its trailers are checked and dropped.

    httptools is not strict enough here: it takes `5;=a` and `5;a;;b` for extensions.
    """

    __slots__ = ("_extension_bytes", "_held", "_is_last", "_left", "_limits", "is_complete")

    def __init__(self, limits: HeaderLimits) -> None:
        self._limits = limits
        self._held = b""
        """The beginning of a line that is not complete."""
        self._left = 0
        """Bytes that are missing of the current chunk, with its line end; 0 before a size line."""
        self._is_last = False
        self._extension_bytes = 0
        self.is_complete = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what of the received bytes belongs to the body, and the bytes behind it. Raises RequestError."""
        data, self._held = self._held + data, b""
        pieces: list[bytes] = []
        at = 0
        while not self._is_last:
            if not self._left:
                line_end = data.find(_LINE_END, at)
                if line_end < 0:
                    self._hold(data[at:])
                    return b"".join(pieces), b""
                self._read_size(data[at:line_end])
                at = line_end + len(_LINE_END)
                continue
            at = self._take_chunk(data, at, pieces)
            if self._left:
                return b"".join(pieces), b""
        return b"".join(pieces), self._read_trailers(data[at:])

    def _take_chunk(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Append what was received of a chunk, and check its end; return where the data behind it begins."""
        content = self._left - len(_LINE_END)
        if content > 0:
            piece = data[at : at + content]
            pieces.append(piece)
            at += len(piece)
            self._left -= len(piece)
            if len(piece) < content:
                return at
        end = data[at : at + self._left]
        if end != _LINE_END[-self._left :][: len(end)]:
            raise _malformed("no line end behind a chunk")
        self._left -= len(end)
        return at + len(end)

    def _hold(self, line: bytes) -> None:
        if len(line) > SIZE_LINE_BYTES:
            raise _malformed("the size line of a chunk is too long")
        if b"\n" in line:
            raise _malformed("a line feed without a carriage return")
        self._held = line

    def _read_size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line) if len(line) <= SIZE_LINE_BYTES else None
        if match is None:
            raise _malformed("the size line of a chunk is malformed or too long")
        digits, extensions = match.groups()
        self._extension_bytes += len(extensions)
        if self._extension_bytes > EXTENSION_BYTES:
            raise _malformed("the extensions of the chunks are too long")
        digits = digits.lstrip(b"0")
        if len(digits) > _MAX_SIZE_DIGITS:
            raise _malformed("the size of a chunk is too large")
        if digits:
            self._left = int(digits, 16) + len(_LINE_END)
        else:
            self._is_last = True

    def _read_trailers(self, data: bytes) -> bytes:
        """Read the trailers, from their beginning; return the bytes behind them, b"" also while they are incomplete."""
        if data.startswith(_LINE_END):
            self.is_complete = True
            return data[len(_LINE_END) :]
        end = data.find(_LINE_END + _LINE_END)
        if (end if end >= 0 else len(data)) > TRAILER_BYTES:
            raise _malformed("the trailers are too long")
        if end < 0:
            if data.count(b"\n") != data.count(_LINE_END):
                raise _malformed("a line feed without a carriage return")
            self._held = data
            return b""
        parse_trailers(data[: end + len(_LINE_END)], self._limits)
        self.is_complete = True
        return data[end + 2 * len(_LINE_END) :]


def framing_of(request: ParsedHeaders, limits: HeaderLimits) -> BodyFraming:
    """Return the framing of a request's body."""
    return ChunkedFraming(limits) if request.length == CHUNKED else LengthFraming(request.length)


def _malformed(reason: str) -> RequestError:
    return RequestError("bad_request", "The chunked body is malformed", reason)
