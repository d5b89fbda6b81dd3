"""The byte positions of the members of a JSON object: an edit replaces one value and keeps all other bytes."""

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from router.contract.jsonbytes.scanning import end_of_string

_SPACE: Final = rb"[ \t\n\r]*+"
_OPENING = re.compile(_SPACE + rb"\{" + _SPACE)
_COLON = re.compile(_SPACE + rb":" + _SPACE)
_SCALAR = re.compile(rb'[^ \t\n\r,\[\]{}"]++')
_SEPARATOR = re.compile(_SPACE + rb",?" + _SPACE)

# Strings and runs of what is no bracket, containers skipped whole: keeps the steps that Python takes few. All of them
# short, so that one step is; possessive, so that none needs memory for going back.
_STRING: Final = rb'"[^"\\]{0,512}+(?:\\.[^"\\]{0,32}+){0,16}+"'
_KEY = re.compile(rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE, re.DOTALL)
_PLAIN: Final = rb'[^"\[\]{}]{1,256}+|' + _STRING
_FLAT: Final = rb"[\[{](?:" + _PLAIN + rb"){0,16}+[\]}]"
_SHALLOW: Final = rb"[\[{](?:" + _PLAIN + rb"|" + _FLAT + rb"){0,16}+[\]}]"
_OPENING_RUN = re.compile(rb"[\[{]++")
_RUN = re.compile(rb"(?:" + _PLAIN + rb"|" + _SHALLOW + rb"){0,16}+([\[{]++|[\]}]++)?", re.DOTALL)

_read_values = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Member(NamedTuple):
    """One member of an object: its unescaped key, where the key starts, and where the value starts and ends."""

    key: str
    key_start: int
    start: int
    end: int

    def raw(self, body: bytes) -> bytes:
        """Return the bytes of the value."""
        return body[self.start : self.end]


Members = dict[str, list[Member]]
"""The members of an object by key. A repeated key has several, in the order of their positions."""


class TooManyMembersError(Exception):
    """An object has more members than the limit."""


def find_members(body: bytes, start: int = 0, end: int | None = None, most: int | None = None) -> list[Member]:
    """Return the members, in order and with repetitions, of the object between `start` and `end`.

    There must be valid JSON with nothing but space around the object: this scans, it does not validate. Raises
    TooManyMembersError where there are more than `most`.
    """
    return list(walk_members(body, start, end, most))


def walk_members(body: bytes, start: int = 0, end: int | None = None, most: int | None = None) -> Iterator[Member]:
    """Yield what `find_members` returns."""
    text = body[start:end]
    last_values = _last_values(text)
    if most is not None and len(last_values) > most:
        raise TooManyMembersError
    values: list[msgspec.Raw] | None = None
    at = _behind(_OPENING, body, start)
    for place in count():
        key = _KEY.match(body, at)
        if key is not None:
            key_end, value_start = key.end(1), key.end()
        elif body.startswith(b'"', at):
            key_end = end_of_string(body, at)
            value_start = _behind(_COLON, body, key_end)
        else:
            return
        if place == most:
            raise TooManyMembersError
        name = _unescape(body[at:key_end])
        value_end = _end_if_known(body, value_start, last_values.get(name))
        if value_end < 0:
            # The key is repeated: the end of this value is known only from a list of all values.
            values = _all_values(text, most) if values is None else values
            value_end = end_of_value(body, value_start, values[place] if values else None)
        yield Member(name, at, value_start, value_end)
        at = start_of_next(body, value_end)


def grouped(body: bytes, start: int, end: int | None, most: int) -> Members:
    """Return the members of the object between `start` and `end`. Raises TooManyMembersError."""
    members: Members = {}
    for member in walk_members(body, start, end, most):
        members.setdefault(member.key, []).append(member)
    return members


def start_of_next(body: bytes, at: int) -> int:
    """Return the start of the member after the value that ends at `at`, or of the closing brace after the last one."""
    return _behind(_SEPARATOR, body, at)


def end_of_value(body: bytes, at: int, value: msgspec.Raw | None = None) -> int:
    """Return where the value ends that starts at `at`; `value` may be its bytes. Raises ValueError.

    Of JSON that is cut off, a value that ends later counts as not valid.
    """
    end = _end_if_known(body, at, value)
    if end >= 0:
        return end
    if body.startswith(b'"', at):
        return end_of_string(body, at)
    return _end_of_container(body, at)


def _end_if_known(body: bytes, at: int, value: msgspec.Raw | None) -> int:
    """Return where a value ends that is a scalar without quotes, or whose bytes `value` may be; -1 where it is not."""
    scalar = _SCALAR.match(body, at)
    if scalar:
        return scalar.end()
    # A string, an array and an object say by themselves where they end, so that equal bytes end at the same place.
    if value is not None and body.startswith(value, at):
        return at + memoryview(value).nbytes
    return -1


def _last_values(text: bytes) -> dict[str, msgspec.Raw]:
    """Return the bytes of each member's last value as msgspec sees them, many times faster than the scan below.

    Empty where msgspec gives up (very deep nesting, lone surrogates): the scan needs no help, only more time.
    """
    try:
        return _read_values(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}


class _Key:
    """A key that equals no other, so that a dict keeps all that are the same."""


def _all_values(text: bytes, most: int | None) -> list[msgspec.Raw]:
    """Return the bytes of all values, in order, those of repeated keys too; none where msgspec gives up.

    It takes twice as long as the last of each key alone. Raises TooManyMembersError.
    """
    places = count()

    def key_of(_: type, name: Any) -> _Key:  # noqa: ANN401, ARG001 - as msgspec calls it
        if next(places) == most:
            raise TooManyMembersError
        return _Key()

    try:
        return list(msgspec.json.decode(text, type=dict[_Key, msgspec.Raw], dec_hook=key_of).values())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []


def _end_of_container(body: bytes, at: int) -> int:
    opened_at, at = at, _behind(_OPENING_RUN, body, at)
    depth = at - opened_at
    while run := _RUN.match(body, at):
        start, end = run.span(1)
        if start < 0:
            # The run was too long for one step, or a string in it is, or the JSON ends here.
            end = end_of_string(body, run.end()) if body.startswith(b'"', run.end()) else run.end()
            if end == at:
                break
        elif body[start] in b"[{":
            depth += end - start
        elif end - start < depth:
            depth -= end - start
        else:
            return start + depth
        at = end
    raise ValueError("not valid JSON")


def _unescape(key: bytes) -> str:
    if b"\\" not in key:
        return key[1:-1].decode(errors="replace")
    try:
        return str(orjson.loads(key))
    except orjson.JSONDecodeError:
        # The json module accepts the lone surrogates that some engines write.
        return str(json.loads(key.decode(errors="replace")))


def _behind(pattern: re.Pattern[bytes], body: bytes, at: int) -> int:
    match = pattern.match(body, at)
    if match is None:
        raise ValueError("not valid JSON")
    return match.end()
