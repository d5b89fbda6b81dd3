"""Request framing: detects in the event loop whether a request is complete, so that no thread waits for the rest.

The framing only decides when gunicorn's parser gets the bytes, never what they mean. Requests with unusual framing go
to the parser at once: it rejects malformed ones and waits for missing bytes itself.
"""

import re
from enum import Enum, auto
from typing import Final, NamedTuple

HELD_BYTES: Final = 64 * 1024
"""Longest request that is buffered until it is complete. A thread reads longer ones."""

MOST_CHUNKS: Final = 1000
"""Most chunks of a request that are scanned, a microsecond each. A thread reads requests with more chunks."""

_HEAD_END: Final = b"\r\n\r\n"
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_REQUEST_LINE = re.compile(rb"(?:\r\n)?[^\n]* HTTP/[0-9]\.[0-9]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n")
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n")
_WORDS_BEFORE_TARGET: Final = 1
_LINE_END: Final = b"\r\n"
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;.*)?", re.DOTALL)
_SIZE_LINE_BYTES: Final = 8190
"""Longest chunk-size line that gunicorn accepts by default."""


class Stage(Enum):
    """How much of a request was received."""

    SILENCE = auto()
    HEAD = auto()
    BODY = auto()
    LONG = auto()
    """Too long to be buffered, in too many chunks, or of unusual framing: a thread may have to wait for the rest."""
    HERE = auto()
    """Complete, or enough of it to reject it: no thread will wait."""


class Parts(NamedTuple):
    """The received parts of a request: headers, body (perhaps incomplete), its full length, and the bytes after it."""

    head: bytes
    body: bytes
    length: int
    left: bytes


class _Framing(Enum):
    CHUNKED = auto()
    NOT_PLAIN = auto()


class Arrival:
    """A request that is being received. Bodies longer than `most_body` bytes are not buffered."""

    def __init__(self, most_body: int, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self._most_body = min(most_body, HELD_BYTES)
        self._body_start = 0
        self._framing: int | _Framing = 0
        self._looked_at = 0
        self._has_line = False
        self._chunk_start = 0
        self._chunk_end = 0
        self._chunks_left = MOST_CHUNKS
        self._is_last_chunk = False

    def stage(self) -> Stage:
        """Return how much of the request was received. Each call scans only the bytes added since the last one."""
        if not self.data:
            return Stage.SILENCE
        if self._body_start or self._find_body():
            return self._stage_of_body()
        is_odd = self._is_head_odd()
        self._looked_at = len(self.data)
        if is_odd:
            return Stage.HERE
        return Stage.LONG if len(self.data) > HELD_BYTES else Stage.HEAD

    def parts(self) -> Parts | None:
        """Return the received parts of a request with complete headers; None if the length of its body is not plain."""
        if not self._body_start or not isinstance(self._framing, int):
            return None
        start, end = self._body_start, self._body_start + self._framing
        return Parts(bytes(self.data[:start]), bytes(self.data[start:end]), self._framing, bytes(self.data[end:]))

    def target(self) -> str | None:
        """Return the path in the request line, None if it was not received yet."""
        words = bytes(self.data[:HELD_BYTES]).split(b" ", 2)
        return words[1].partition(b"?")[0].decode("latin-1") if len(words) > _WORDS_BEFORE_TARGET else None

    def _find_body(self) -> bool:
        end = self.data.find(_HEAD_END, max(0, self._looked_at - len(_HEAD_END) + 1))
        if end < 0:
            return False
        self._body_start = self._chunk_start = self._looked_at = end + len(_HEAD_END)
        self._framing = _framing(bytes(self.data[: end + 2]).lower())
        return True

    def _is_head_odd(self) -> bool:
        """Return whether the parser would reject the headers before their end, or parse them as something else."""
        if _BARE_LINE_FEED.search(self.data, self._looked_at):
            return True
        if self._has_line or self.data.find(b"\r\n", 2) < 0:
            return False
        self._has_line = True
        return not _REQUEST_LINE.match(self.data)

    def _stage_of_body(self) -> Stage:
        come = len(self.data) - self._body_start
        if self._framing is _Framing.NOT_PLAIN:
            return Stage.LONG
        if isinstance(self._framing, int):
            stage = Stage.HERE if come >= self._framing else Stage.BODY
            is_long = self._framing > self._most_body
        else:
            stage = self._stage_of_chunks()
            is_long = come > self._most_body
        return Stage.LONG if stage is Stage.BODY and is_long else stage

    def _stage_of_chunks(self) -> Stage:
        """Scan the complete chunks, from the end of the last scan."""
        while not self._is_last_chunk:
            if not self._chunk_end:
                stage = self._look_for_chunk_size()
                if stage is not None:
                    return stage
            elif len(self.data) < self._chunk_end:
                return Stage.LONG if self._chunk_end - self._chunk_start > self._most_body else Stage.BODY
            elif self.data[self._chunk_end - 2 : self._chunk_end] != _LINE_END:
                return Stage.HERE
            elif not self._chunks_left:
                return Stage.LONG
            else:
                self._chunks_left -= 1
                self._chunk_start = self._looked_at = self._chunk_end
                self._chunk_end = 0
        return self._stage_of_trailers()

    def _look_for_chunk_size(self) -> Stage | None:
        """Read the size line of a chunk. Return a stage if the scan ends at it.

        The parser waits for the end of the line before it rejects the line.
        """
        line_end = self.data.find(_LINE_END, max(self._chunk_start, self._looked_at - 1))
        if line_end < 0:
            self._looked_at = len(self.data)
            return Stage.LONG if self._looked_at - self._chunk_start > _SIZE_LINE_BYTES else Stage.BODY
        size_line = _CHUNK_SIZE.fullmatch(self.data, self._chunk_start, line_end)
        if not size_line:
            return Stage.HERE
        size = int(size_line[1], 16)
        self._is_last_chunk = size == 0
        # The end of the last size line may be the first half of what ends the trailers.
        self._chunk_start = self._looked_at = line_end
        self._chunk_end = line_end + size + 2 * len(_LINE_END)
        return None

    def _stage_of_trailers(self) -> Stage:
        start = max(self._chunk_start, self._looked_at - len(_HEAD_END) + 1)
        is_over = self.data.find(_HEAD_END, start) >= 0 or _BARE_LINE_FEED.search(self.data, start)
        self._looked_at = len(self.data)
        return Stage.HERE if is_over else Stage.BODY


def _framing(head: bytes) -> int | _Framing:
    """Return the framing of the body by lower-case headers: its length or CHUNKED, else NOT_PLAIN."""
    lengths, codings = head.count(b"content-length"), head.count(b"transfer-encoding")
    if b"\r\nexpect" in head:
        return _Framing.NOT_PLAIN
    if not lengths and not codings:
        return 0
    length = _LENGTH.search(head)
    if length and (lengths, codings) == (1, 0):
        return int(length[1])
    return _Framing.CHUNKED if _CHUNKED.search(head) and (lengths, codings) == (0, 1) else _Framing.NOT_PLAIN
