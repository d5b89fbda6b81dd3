"""What can be guessed of a request from the bytes that have come, so that no thread has to wait for the rest.

A guess decides only when gunicorn's parser gets to see the bytes, and in which order, never what they mean: whatever
is not plain is left to the parser, which refuses what is malformed, and waits for what is missing, itself.
"""

import re
from enum import Enum, auto
from typing import Final, NamedTuple

HELD_BYTES: Final = 64 * 1024
"""How much of a request is held until it is here; longer ones are read by a thread."""

MOST_CHUNKS: Final = 1000
"""How many chunks of a request are looked at, a microsecond each; one in more is left to a thread, like long ones."""

_HEAD_END: Final = b"\r\n\r\n"
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_REQUEST_LINE = re.compile(rb"(?:\r\n)?[^\n]* HTTP/[0-9]\.[0-9]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n")
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n")
_WORDS_BEFORE_TARGET: Final = 1
_LINE_END: Final = b"\r\n"
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;.*)?", re.DOTALL)
_SIZE_LINE_BYTES: Final = 8190
"""The longest line of a chunk's size that gunicorn reads, unless its options say otherwise."""


class Stage(Enum):
    """How much of a request has come."""

    SILENCE = auto()
    HEAD = auto()
    BODY = auto()
    LONG = auto()
    """Too much to be held, in too many pieces, or not plain: a thread may have to wait for the rest."""
    HERE = auto()
    """All of it, or enough to refuse it: no thread will wait."""


class Parts(NamedTuple):
    """What has come of a request: its head, its body or the beginning of one of that length, and what is behind it."""

    head: bytes
    body: bytes
    length: int
    left: bytes


class _Framing(Enum):
    CHUNKED = auto()
    NOT_PLAIN = auto()


class Arrival:
    """A request that is coming in; `most_body` is the length from which on its body is not waited for."""

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
        """Tell how much of the request has come; asked after each piece, it does not look at all of it anew."""
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
        """Return what has come of a request whose head is here; None unless the length of its body is plain."""
        if not self._body_start or not isinstance(self._framing, int):
            return None
        start, end = self._body_start, self._body_start + self._framing
        return Parts(bytes(self.data[:start]), bytes(self.data[start:end]), self._framing, bytes(self.data[end:]))

    def target(self) -> str | None:
        """Return the path that the request seems to be for, None where that is not here yet."""
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
        """Return whether the parser would refuse the head before its end, or take it for something else than a head."""
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
        """Walk the chunks that are whole, from where the last walk ended."""
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
        """Read the line that begins a chunk. Return a stage where the walk ends at it.

        The parser waits for the end of the line before it refuses it, however odd it is.
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
    """Return how a head in lower case seems to frame its body: its length, or in chunks, where that is plain."""
    lengths, codings = head.count(b"content-length"), head.count(b"transfer-encoding")
    if b"\r\nexpect" in head:
        return _Framing.NOT_PLAIN
    if not lengths and not codings:
        return 0
    length = _LENGTH.search(head)
    if length and (lengths, codings) == (1, 0):
        return int(length[1])
    return _Framing.CHUNKED if _CHUNKED.search(head) and (lengths, codings) == (0, 1) else _Framing.NOT_PLAIN
