"""Scanning of long JSON in steps: each call into C is short, so no body blocks all threads or takes much memory."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

STEP_BYTES: Final = 64 * 1024
"""Approximate number of bytes that one call scans."""

_MARKS_OF_VALUES: Final = b",[{"
_ALL_OTHERS: Final = bytes(set(range(256)) - set(_MARKS_OF_VALUES + b'"'))
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[{]}"'))
_QUOTES_LOOKED_AT: Final = 2
_BACKSLASHES_LOOKED_AT: Final = 32
"""Quotes in a string, and backslashes before each, that are scanned singly before a pattern is used."""
_STRING_STEP = re.compile(rb'[^"\\]{0,%d}+(?:\\.[^"\\]{0,16}+){0,%d}+' % (STEP_BYTES, STEP_BYTES // 16), re.DOTALL)


def holds_more_values(body: bytes, most: int) -> bool:
    """Return whether there are more than `most` commas and opening brackets outside of strings. Each precedes a value.

    The result is undefined for a body that is not valid JSON.
    """
    found = 0
    is_inside = False
    for piece in _unescaped(body, 0, len(body)):
        # An empty string has nothing in it, and the end of one with the beginning of the next nothing between them:
        # what is left then has marks on both sides of each string, and so no more strings than are looked for.
        marks = piece.translate(None, _ALL_OTHERS).replace(b'""', b"").split(b'"')
        found += sum(map(len, marks[is_inside::2]))
        if found > most:
            return True
        is_inside ^= len(marks) % 2 == 0
    return False


def holds_digits(body: bytes, most: int) -> bool:
    """Return whether valid JSON has a run of more than `most` digits outside of strings."""
    distance = _distance(most + 1)
    if not _patterns_of_digits(most + 1, distance)[0].search(body[::distance]):
        return False
    at = 0
    is_inside = False
    for start in _starts_of_digits(body, most + 1):
        for piece in _unescaped(body, at, start):
            is_inside ^= piece.count(b'"') % 2 == 1
        at = start
        if not is_inside:
            return True
    return False


def end_of_string(body: bytes, at: int) -> int:
    """Return where the string ends whose opening quote stands at `at`. Raises ValueError when it does not end."""
    for _ in range(_QUOTES_LOOKED_AT):
        end = body.find(b'"', at + 1)
        if end < 0:
            raise ValueError("not valid JSON")
        before = body[max(at + 1, end - _BACKSLASHES_LOOKED_AT) : end]
        backslashes = len(before) - len(before.rstrip(b"\\"))
        if backslashes == _BACKSLASHES_LOOKED_AT:
            break
        if backslashes % 2 == 0:
            return end + 1
        # The quote is escaped, so no part of an escape follows it.
        at = end
    at += 1
    while step := _STRING_STEP.match(body, at):
        if step.end() == at:
            break
        at = step.end()
    if not body.startswith(b'"', at):
        raise ValueError("not valid JSON")
    return at + 1


def find_long_strings(body: bytes) -> list[tuple[int, int]]:
    """Return where the characters of long strings start and end that are values of valid JSON, in order.

    Few quotes are looked at: all long strings are found where a body consists mostly of them, else the first ones.
    """
    found = []
    find = body.find
    opening = at = -1
    for _ in range(len(body) // _BYTES_PER_STEP):
        at = find(b'"', at + 1)
        if at < 0:
            break
        if opening < 0:
            opening = at
            continue
        before = body[max(opening + 1, at - _BACKSLASHES_LOOKED_AT) : at]
        backslashes = len(before) - len(before.rstrip(b"\\"))
        if backslashes == _BACKSLASHES_LOOKED_AT:
            break
        if backslashes % 2:
            continue
        if at - opening > _LONG_STRING_BYTES and not _IS_KEY.match(body, at + 1):
            found.append((opening + 1, at))
        opening = -1
    return found


class JsonScanner:
    """Scans JSON that arrives in pieces for completeness: no string and no bracket is open."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_inside = False
        self._begun = b""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        data = self._begun + piece
        # Half of an escape waits for its other half.
        behind = len(data) - (len(data) - len(data.rstrip(b"\\"))) % 2
        self._begun = data[behind:]
        for part in _unescaped(data, 0, behind):
            marks = part.translate(None, _NO_BRACKETS).replace(b'""', b"").split(b'"')
            plain = b"".join(marks[self._is_inside :: 2])
            self._depth += sum(map(plain.count, (b"[", b"{"))) - sum(map(plain.count, (b"]", b"}")))
            self._is_inside ^= len(marks) % 2 == 0

    def is_kept(self) -> bool:
        """Return whether all that was opened is closed."""
        return not self._is_inside and self._depth == 0


def _unescaped(body: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield a part of a body, which begins with no half of an escape, without escaped quotes and backslashes."""
    while start < end:
        piece = body[start : min(end, start + STEP_BYTES)]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = body[start : min(end, start + len(piece) + 1)]
        start += len(piece)
        yield piece.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in piece else piece


def _starts_of_digits(body: bytes, count: int) -> Iterator[int]:
    """Yield where so many digits in a row begin, in order."""
    # Cheap even for megabytes of base64: every so many bytes one is looked at, and among many digits all are digits.
    distance = _distance(count)
    fine = max(1, distance // _SAMPLES)
    in_sample, in_body = _patterns_of_digits(count, distance)
    in_fine_sample, _ = _patterns_of_digits(count, fine)
    for run in in_sample.finditer(body[::distance]):
        last = min(len(body), run.end() * distance)
        for first in range(max(0, (run.start() - 1) * distance + 1), last, STEP_BYTES):
            # No further than such digits may begin: else a body of many short runs is searched whole for each of them.
            end = min(last, first + STEP_BYTES)
            if not in_fine_sample.search(body[first : end + count : fine]):
                continue
            for digits in in_body.finditer(body, first, min(len(body), end + count)):
                if digits.start() < end:
                    yield digits.start()


def _distance(count: int) -> int:
    return max(1, count // _SAMPLES)


@lru_cache(maxsize=8)
def _patterns_of_digits(count: int, distance: int) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    return re.compile(rb"[0-9]{%d,}+" % (count // distance)), re.compile(rb"(?<![0-9])[0-9]{%d}" % count)


_SAMPLES: Final = 8
_LONG_STRING_BYTES: Final = 4096
_BYTES_PER_STEP: Final = 4096
"""A quote is looked at for each of so many bytes: a small part of what it takes to read them."""
_IS_KEY = re.compile(rb"[ \t\n\r]*+:")
