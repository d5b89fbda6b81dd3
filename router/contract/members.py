"""Where the members of a JSON object stand in its bytes, so that one value can change and all others keep theirs."""

import json
import re
from typing import Final, NamedTuple

_SPACE = re.compile(rb"[ \t\n\r]*")
STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""Pattern of a JSON string; possessive, so that millions of escapes need no backtracking memory."""

_KEY = re.compile(STRING, re.DOTALL)
_SCALAR = re.compile(rb"[^ \t\n\r,\]}]+")
_STRUCTURE = re.compile(STRING + rb"|[\[\]{}]", re.DOTALL)
_OPENING: Final = (b"{", b"[")
_QUOTE: Final = ord('"')


class Member(NamedTuple):
    """One member of an object: its unescaped key, where the key starts, and where the value starts and ends."""

    key: str
    key_start: int
    start: int
    end: int

    def raw(self, body: bytes) -> bytes:
        """Return the bytes of the value."""
        return body[self.start : self.end]


def find_members(body: bytes, start: int = 0) -> list[Member]:
    """Return the members, in order and with repetitions, of the object that begins at `start` or behind space there.

    `body` must be valid JSON with an object there: this scans, it does not validate.
    """
    members = []
    at = _skip_space(body, _skip_space(body, start) + 1)
    while body[at] == _QUOTE:
        key_end = _end(_KEY, body, at)
        value_start = _skip_space(body, _skip_space(body, key_end) + 1)
        value_end = _end_of_value(body, value_start)
        members.append(Member(_unescape(body[at:key_end]), at, value_start, value_end))
        after = _skip_space(body, value_end)
        if body[after : after + 1] != b",":
            break
        at = _skip_space(body, after + 1)
    return members


def end_of_object(body: bytes, start: int = 0) -> int:
    """Return where the closing brace of the object that begins at `start` stands."""
    return _end_of_value(body, _skip_space(body, start)) - 1


def _unescape(key: bytes) -> str:
    # json, unlike orjson, takes the lone surrogates that some engines write.
    return str(json.loads(key)) if b"\\" in key else key[1:-1].decode()


def _skip_space(body: bytes, at: int) -> int:
    return _end(_SPACE, body, at)


def _end_of_value(body: bytes, at: int) -> int:
    first = body[at : at + 1]
    if first == b'"':
        return _end(_KEY, body, at)
    if first not in _OPENING:
        return _end(_SCALAR, body, at)
    depth = 0
    for token in _STRUCTURE.finditer(body, at):
        mark = body[token.start()]
        if mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError("not valid JSON")


def _end(pattern: re.Pattern[bytes], body: bytes, at: int) -> int:
    match = pattern.match(body, at)
    if match is None:
        raise ValueError("not valid JSON")
    return match.end()
