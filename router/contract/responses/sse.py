"""Parsing of server-sent events: where each ends in the bytes of a stream, and where its data is."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final, Literal, NamedTuple

MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
"""Longest event in bytes that is held until it is complete; a longer one passes in fragments."""

_END_OF_EVENT = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_LINE_END = re.compile(rb"[\r\n]")
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""May stand before the first event of a stream, where clients skip it (WHATWG HTML, section 9.2.5)."""
_LONGEST_END: Final = len(b"\r\n\r\n")
_BLANK_LINES: Final = (b"\n\n", b"\n\r\n")
_COMMENTS = re.compile(rb"(?:(?::[^\r\n]*+)?(?:\r\n|\n|\r(?=[^\n])))++")
_DATA = re.compile(rb"(?<![^\r\n])data:[ ]?([^\r\n]*+)")


class SsePart(NamedTuple):
    """A part of a stream: a complete event, the bytes before an event, or a fragment of one that is too long.

    Before an event stand comments and blank lines, before the first one also a byte order mark: the kind of these is
    "comments". The bytes of all parts together are those of the stream.
    """

    kind: Literal["event", "comments", "fragment"]
    data: bytes


class SseParser:
    """Cuts a byte stream that arrives in pieces of any size into its events.

    An event leaves when it is complete, comments and blank lines before it at once. Line ends may be CR, LF or CRLF.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._is_passing = False
        self._may_have_mark = True

    def is_at_start(self) -> bool:
        """Return whether the next byte begins an event or a comment."""
        # While a long event passes, the last bytes of it that came are held.
        return not self._held

    def is_between_events(self) -> bool:
        """Return whether the next byte begins an event or a comment, and no byte order mark may come any more."""
        return not (self._held or self._may_have_mark)

    def feed(self, piece: bytes) -> list[SsePart]:
        """Take the next bytes of the stream; return the parts that are complete, none of them empty."""
        search_from = max(0, len(self._held) - _LONGEST_END + 1)
        self._held += piece
        parts = []
        if self._may_have_mark and (mark := self._take_mark()):
            parts.append(SsePart("comments", mark))
            search_from = 0
        if self._is_within_comment(search_from):
            search_from = max(search_from, len(self._held) - _LONGEST_END + 1)
        elif length := self._length_of_comments():
            parts.append(SsePart("comments", self._take(length)))
            search_from = 0
        while length := self._length_of_event(search_from):
            parts.append(self._whole(self._take(length)))
            self._is_passing = False
            if length := self._length_of_comments():
                parts.append(SsePart("comments", self._take(length)))
            search_from = 0
        if len(self._held) > MAX_EVENT_BYTES:
            self._is_passing = True
        if self._is_passing and (length := len(self._held) - _LONGEST_END + 1) > 0:
            parts.append(SsePart("fragment", self._take(length)))
        return parts

    def flush(self) -> SsePart | None:
        """Return the remaining bytes at the end: an event without its blank line, or the rest of a long one."""
        return self._whole(self._take(len(self._held))) if self._held else None

    def held_bytes(self) -> int:
        """Return how many bytes are held until an event is complete."""
        return len(self._held)

    def _take_mark(self) -> bytes:
        """Return the byte order mark at the start of the stream once it is complete; b"" if there is none."""
        beginning = bytes(self._held[: len(BYTE_ORDER_MARK)])
        self._may_have_mark = beginning != BYTE_ORDER_MARK and BYTE_ORDER_MARK.startswith(beginning)
        return self._take(len(BYTE_ORDER_MARK)) if beginning == BYTE_ORDER_MARK else b""

    def _is_within_comment(self, search_from: int) -> bool:
        """Return whether the held bytes are an unfinished comment; bytes before `search_from` were searched already."""
        return self._held.startswith(b":") and not _LINE_END.search(self._held, search_from)

    def _length_of_comments(self) -> int:
        comments = None if self._is_passing else _COMMENTS.match(self._held)
        return comments.end() if comments else 0

    def _length_of_event(self, search_from: int) -> int:
        end = _END_OF_EVENT.search(self._held, search_from)
        if end is None or (end.end() == len(self._held) and self._held.endswith(b"\r")):
            # Not complete; or a line feed may come that belongs to its last line end.
            return 0
        return end.end()

    def _take(self, length: int) -> bytes:
        taken = bytes(self._held[:length])
        del self._held[:length]
        return taken

    def _whole(self, event: bytes) -> SsePart:
        # While passing, this is only the rest of an event whose beginning was too long to hold.
        is_fragment = self._is_passing or len(event) > MAX_EVENT_BYTES
        return SsePart("fragment" if is_fragment else "event", event)


def ends_event(piece: bytes) -> bool:
    """Return whether a piece ends with a blank line, as the events of nearly all engines do."""
    return piece.endswith((b"\n\n", b"\r\n\r\n"))


class SseEventBuffer:
    """Passes a stream on event by event, so that a stream which breaks off never ends within an event."""

    def __init__(self) -> None:
        self._splitter = SseParser()

    def passes(self, piece: bytes) -> bool:
        """Return whether the next bytes are complete events, which pass on as they are."""
        return ends_event(piece) and self._splitter.is_at_start()

    def passing(self) -> Callable[[bytes], bool] | None:
        """Return what does the same as `passes` until other bytes are fed; None where an event is held."""
        return ends_event if self._splitter.is_at_start() else None

    def feed(self, piece: bytes) -> bytes:
        """Add the next bytes of the stream. Return the complete events, as the same object if possible."""
        if self.passes(piece):
            return piece
        # Nearly all events end so. If a piece has many, only the bytes after the last one are parsed.
        end = max((at + len(blank) for blank in _BLANK_LINES if (at := piece.rfind(blank)) >= 0), default=0)
        whole = b""
        if end:
            whole = self.flush() + piece[:end]
            self._splitter = SseParser()
        return whole + b"".join([part.data for part in self._splitter.feed(piece[end:])])

    def held_bytes(self) -> int:
        """Return how many bytes are held until an event is complete."""
        return self._splitter.held_bytes()

    def flush(self) -> bytes:
        """Return the remaining bytes at the end of the stream: a last event without its blank line."""
        left = self._splitter.flush()
        return b"" if left is None else left.data


class PlainEvent(NamedTuple):
    """An event whose last line is its only data, after at most its name: as engines write them."""

    beginning: bytes
    payload: bytes

    def whole(self) -> bytes:
        """Return the bytes of the event."""
        return b"%b%b\n\n" % self


def plain_events(piece: bytes) -> list[PlainEvent] | None:
    """Return the events of a piece that begins with an event; None unless all are plain and complete."""
    if not piece.endswith(b"\n\n") or b"\r" in piece or len(piece) > MAX_EVENT_BYTES:
        return None
    if piece.startswith(_DATA_FIELD) and piece.find(b"\n") == len(piece) - 2:
        return [PlainEvent(_DATA_FIELD, piece[len(_DATA_FIELD) : -2])]
    events = []
    for event in piece[:-2].split(b"\n\n"):
        line = event.rfind(b"\n") + 1
        payload = line + len(_DATA_FIELD)
        if not event.startswith(_DATA_FIELD, line):
            return None
        if line and not (event.startswith(_EVENT_FIELD) and event.find(b"\n") == line - 1):
            return None
        events.append(PlainEvent(event[:payload], event[payload:]))
    return events


_DATA_FIELD: Final = b"data: "
_EVENT_FIELD: Final = b"event: "


class Splice(NamedTuple):
    """A change to an event's data: `value` in place of the bytes from `start` to `end`."""

    start: int
    end: int
    value: bytes


class EventData:
    """The data of an event: its `data:` lines, joined as clients join them."""

    def __init__(self, event: bytes) -> None:
        self.event = event
        self._lines = [line.span(1) for line in _DATA.finditer(event)]
        self.payload = b"\n".join(event[start:end] for start, end in self._lines)

    def _ends(self) -> list[int]:
        """Return where in the payload each line ends."""
        if len(self._lines) == 1:
            # Nearly all events.
            return [len(self.payload)]
        ends = accumulate((end - start + 1 for start, end in self._lines), initial=-1)
        return list(ends)[1:]

    def spliced(self, splices: Iterable[Splice]) -> bytes:
        """Return the event with changes to its payload, given in order; every byte that is not data stays.

        The values must not contain line ends.
        """
        pieces = []
        at = 0
        ends = self._ends()
        for splice in splices:
            value = splice.value
            for start, end in self._places(splice.start, splice.end, ends):
                pieces += [self.event[at:start], value]
                value = b""
                at = end
        pieces.append(self.event[at:])
        return b"".join(pieces)

    def _places(self, start: int, end: int, ends: list[int]) -> Iterator[tuple[int, int]]:
        """Yield where in the event a part of the payload stands, on each of its lines."""
        for line in range(bisect_left(ends, start), len(ends)):
            line_start, line_end = self._lines[line]
            line_at = ends[line] - (line_end - line_start)
            if line_at > end:
                return
            yield line_start + max(0, start - line_at), line_start + min(end, ends[line]) - line_at
