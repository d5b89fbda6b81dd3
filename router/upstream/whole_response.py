"""Responses that came whole in one piece, as nearly all do that are not streamed: read without a parser's callbacks.

Only what has one meaning is read here: a 200 of HTTP/1.1 with one Content-Length, exactly that many bytes, and headers
of visible ASCII without repetition. httptools reads all others; a test compares the two.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

MAX_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = 100
MAX_LINE_BYTES: Final = 256
MIN_BODY_BYTES: Final = 65
"""Shorter bodies may be empty ones that are encoded, which are no successes: an empty gzip body has 20 bytes."""

_START: Final = b"HTTP/1.1 200 "
_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ ]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)")
_LENGTH = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_SPECIAL: Final = ("connection", "transfer-encoding", "upgrade", "trailer", "keep-alive", "proxy-connection")
_STREAM: Final = "text/event-stream"


class WholeResponse(NamedTuple):
    """A 200: the headers in their order, the same by lower-case name, and the body."""

    headers: list[tuple[str, str]]
    by_name: dict[str, str]
    body: bytes


def parse_whole(data: bytes) -> WholeResponse | None:
    """Return the response that these bytes are; None where they are anything but one that is whole and plain."""
    end = data.find(b"\r\n\r\n")
    if end < 0 or not data.startswith(_START):
        return None
    headers = []
    by_name = {}
    lines = data[:end].split(b"\r\n")
    del lines[0]
    for line in lines:
        found = _field(line)
        if found is None:
            return None
        lower, header = found
        headers.append(header)
        by_name[lower] = header[1]
    length = by_name.get("content-length", "")
    if len(by_name) != len(lines) or len(lines) > MAX_FIELDS or not _LENGTH.fullmatch(length):
        return None
    start = end + 4
    if len(data) != start + int(length) or len(data) - start < MIN_BODY_BYTES:
        return None
    return WholeResponse(headers, by_name, data[start:])


@lru_cache(maxsize=1024)
def _field(line: bytes) -> tuple[str, tuple[str, str]] | None:
    """Return the lower-case name of a header, and the header; None for a malformed, long or special one."""
    match = _LINE.fullmatch(line) if len(line) <= MAX_LINE_BYTES else None
    if match is None:
        return None
    name, value = match[1].decode(), match[2].decode()
    lower = name.lower()
    is_stream = lower == "content-type" and value.lower().startswith(_STREAM)
    is_kept_alive = lower == "connection" and value.lower() == "keep-alive"
    if is_stream or (lower in _SPECIAL and not is_kept_alive):
        return None
    return lower, (name, value)
