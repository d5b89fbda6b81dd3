"""The byte positions of the members of a JSON object: an edit replaces one value and keeps all other bytes."""

import json
import re
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
_CHARACTERS: Final = rb'[^"\\]{0,512}+(?:\\.[^"\\]{0,32}+){0,16}+'
_STRING: Final = rb'"' + _CHARACTERS + rb'"'
_PLAIN: Final = rb'[^"\[\]{}]{1,256}+|' + _STRING
_FLAT: Final = rb"[\[{](?:" + _PLAIN + rb"){0,16}+[\]}]"
_SHALLOW: Final = rb"[\[{](?:" + _PLAIN + rb"|" + _FLAT + rb"){0,16}+[\]}]"
# Most members have a value that is a scalar or short and flat: it is found in the same step.
_SMALL: Final = rb'[^ \t\n\r,\[\]{}"]{1,64}+|"[^"\\]{0,256}+"|[\[{](?:[^"\[\]{}]{1,64}+|"[^"\\]{0,64}+"){0,8}+[\]}]'
_NEXT: Final = _SPACE + rb"(?:," + _SPACE + rb"|(?=\}))"
_MEMBER = re.compile(
    rb'"(' + _CHARACTERS + rb')"' + _SPACE + rb":" + _SPACE + rb"(?:(" + _SMALL + rb")" + _NEXT + rb")?", re.DOTALL
)
_OPENINGS: Final = (b"[", b"{")
_OPENING_RUN = re.compile(rb"[\[{]++")
_RUN = re.compile(rb"(?:" + _PLAIN + rb"|" + _SHALLOW + rb"){0,16}+([\[{]++|[\]}]++)?", re.DOTALL)

_read_values = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_BETWEEN_ITEMS = re.compile(rb"[ \t\n\r,]*+")


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
    found: list[Member] = []
    # Nearly all objects begin so.
    at = start + 1 if body.startswith(b'{"', start) else _behind(_OPENING, body, start)
    values: _ValueEnds | None = None
    match, new = _MEMBER.match, tuple.__new__
    while len(found) != most:
        member = match(body, at)
        if member is not None:
            (key_start, following), (name_start, name_end), (value_start, value_end) = member.regs
            name = _name(body[name_start:name_end])
            if value_end >= 0:
                found.append(new(Member, (name, key_start, value_start, value_end)))
                at = following
                continue
            value_start = following
        elif body.startswith(b'"', at):
            key_end = end_of_string(body, at)
            name, key_start, value_start = _name(body[at + 1 : key_end - 1]), at, _behind(_COLON, body, key_end)
        else:
            return found
        value_end = _end_of_sole_array(body, value_start, end)
        if value_end < 0:
            values = _ValueEnds(body, start, end, most) if values is None else values
            value_end = values.end_of(name, len(found), value_start)
        found.append(new(Member, (name, key_start, value_start, value_end)))
        at = start_of_next(body, value_end)
    if body.startswith(b'"', at):
        raise TooManyMembersError
    return found


def item_spans(body: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return where each item of the array between `start` and `end` starts and ends. It must be valid JSON."""
    spans = []
    at = body.index(b"[", start, end) + 1
    for item in _read_items(memoryview(body)[start:end]):
        at = _behind(_BETWEEN_ITEMS, body, at)
        spans.append((at, at + len(bytes(item))))
        at = spans[-1][1]
    return spans


def _end_of_sole_array(body: bytes, at: int, end: int | None) -> int:
    """Return where an array ends if only one bracket may close it, as the messages of most chats; else -1."""
    if not body.startswith(b"[", at):
        return -1
    closing = body.find(b"]", at, end)
    return -1 if closing < 0 or body.find(b"]", closing + 1, end) >= 0 else closing + 1


class _ValueEnds:
    """Finds where the values of one object end. msgspec reads the object only where its help is needed."""

    __slots__ = ("_all", "_body", "_end", "_last", "_most", "_start")

    def __init__(self, body: bytes, start: int, end: int | None, most: int | None) -> None:
        self._body = body
        self._start = start
        self._end = len(body) if end is None else end
        self._most = most
        self._last: dict[str, msgspec.Raw] | None = None
        self._all: list[msgspec.Raw] | None = None

    def end_of(self, name: str, place: int, at: int) -> int:
        """Return where the value ends that starts at `at`: of the member `name`, which is the one at `place`."""
        body = self._body
        if body.startswith(b'"', at):
            return end_of_string(body, at)
        is_container = body.startswith(_OPENINGS, at)
        end = _end_if_known(body, at, self._last_values().get(name) if is_container else None)
        if end >= 0:
            return end
        # The key is repeated: the end of this value is known only from a list of all values.
        if self._all is None:
            self._all = _all_values(body[self._start : self._end], self._most)
        return end_of_value(body, at, self._all[place] if self._all else None)

    def _last_values(self) -> dict[str, msgspec.Raw]:
        if self._last is None:
            self._last = _last_values(self._body[self._start : self._end])
            if self._most is not None and len(self._last) > self._most:
                raise TooManyMembersError
        return self._last


def grouped(body: bytes, start: int, end: int | None, most: int) -> Members:
    """Return the members of the object between `start` and `end`. Raises TooManyMembersError."""
    return group(find_members(body, start, end, most))


def group(found: list[Member]) -> Members:
    """Return members by key."""
    members: Members = {member[0]: [member] for member in found}
    if len(members) < len(found):
        members = {}
        for member in found:
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


def _name(key: bytes) -> str:
    """Return a key, given between its quotes, without escapes."""
    if b"\\" not in key:
        return str(key, "utf-8", "replace")
    written = b'"%b"' % key
    try:
        return str(orjson.loads(written))
    except orjson.JSONDecodeError:
        # The json module accepts the lone surrogates that some engines write.
        return str(json.loads(written.decode(errors="replace")))


def _behind(pattern: re.Pattern[bytes], body: bytes, at: int) -> int:
    match = pattern.match(body, at)
    if match is None:
        raise ValueError("not valid JSON")
    return match.end()
