"""Edits of answers: the model name that an alias asked for, and the `type` of a 400. All other bytes stay."""

import json
import re
from typing import Any, Final

import orjson

from router.contract.editing import to_json
from router.contract.members import Member, find_members

MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
"""Longest SSE event in bytes that is held back to be edited; a longer one passes as it is."""

_END_OF_EVENT = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_LONGEST_END: Final = len(b"\r\n\r\n")
_COMMENTS = re.compile(rb"(?:(?::[^\r\n]*+)?(?:\r\n|\n|\r(?=[^\n])))++")
_LINE_END = re.compile(rb"\r\n|\r|\n")


def rename_model(body: bytes, name: str) -> bytes:
    """Return a JSON object with its top-level `model` string replaced; anything else comes back as the same object."""
    return _with_replaced(body, _model_strings(body), to_json(name))


def retype_bad_request(body: bytes, new_type: str) -> bytes:
    """Return the JSON body of a 400 with its error `type` replaced or added.

    Nested `{"error": {…}}` and flat `{"object": "error", "message": …}` are known; anything else comes back unchanged.
    """
    value = _read_object(body)
    start, end = 0, len(body)
    if isinstance(value.get("error"), dict):
        error = [member for member in find_members(body) if member.key == "error"][-1]
        start, end = error.start, error.end
    elif value.get("object") != "error" or "message" not in value:
        return body
    members = find_members(body, start, end)
    types = [member for member in members if member.key == "type"]
    if types:
        return _with_replaced(body, types, to_json(new_type))
    closing = body.rindex(b"}", start, end)
    separator = b"," if members else b""
    return body[:closing] + separator + b'"type":' + to_json(new_type) + body[closing:]


class ModelRenamer:
    """Renames the model in the complete `data:` events of a byte stream that arrives in pieces of any size.

    Every byte outside those model strings leaves as it came, however the stream is cut into pieces. An event leaves
    when it is complete, comments and blank lines before it at once.
    """

    def __init__(self, name: str) -> None:
        self._name = to_json(name)
        self._held = bytearray()
        self._passing = False

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes of the stream; return those that can leave."""
        search_from = max(0, len(self._held) - _LONGEST_END + 1)
        self._held += piece
        leaving = []
        if length := self._length_of_comments():
            leaving.append(self._take(length))
            search_from = 0
        while length := self._length_of_event(search_from):
            leaving.append(self._edited(self._take(length)))
            self._passing = False
            leaving.append(self._take(self._length_of_comments()))
            search_from = 0
        if len(self._held) > MAX_EVENT_BYTES:
            self._passing = True
        if self._passing:
            leaving.append(self._take(max(0, len(self._held) - _LONGEST_END + 1)))
        return b"".join(leaving)

    def flush(self) -> bytes:
        """Return what is held at the end of the stream; a last event that lacks its blank line is edited too."""
        return self._edited(self._take(len(self._held)))

    def _length_of_comments(self) -> int:
        comments = None if self._passing else _COMMENTS.match(self._held)
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

    def _edited(self, event: bytes) -> bytes:
        # While passing, this is only the rest of an event whose beginning was too long to hold.
        if self._passing or len(event) > MAX_EVENT_BYTES:
            return event
        return _rename_in_event(event, self._name)


def _rename_in_event(event: bytes, name: bytes) -> bytes:
    if b"data:" not in event:
        return event
    lines = _data_lines(event)
    payload = b"\n".join(event[start:end] for start, end in lines)
    pieces = []
    at = 0
    for member in _model_strings(payload):
        start = _place_in_event(member.start, lines)
        pieces += [event[at:start], name]
        at = start + member.end - member.start
    pieces.append(event[at:])
    return b"".join(pieces)


def _data_lines(event: bytes) -> list[tuple[int, int]]:
    """Return where the payload of each `data:` line starts and ends."""
    lines = []
    at = 0
    while at < len(event):
        ending = _LINE_END.search(event, at)
        end = ending.start() if ending else len(event)
        if event.startswith(b"data:", at):
            start = at + len(b"data:")
            start += event[start : start + 1] == b" "
            lines.append((start, end))
        at = ending.end() if ending else end
    return lines


def _place_in_event(place: int, lines: list[tuple[int, int]]) -> int:
    """Translate a place in the joined payload to its place in the event."""
    for start, end in lines:
        if place <= end - start:
            return start + place
        place -= end - start + 1
    raise ValueError("a place outside of the payload")


def _model_strings(body: bytes) -> list[Member]:
    if not isinstance(_read_object(body).get("model"), str):
        return []
    return [member for member in find_members(body) if member.key == "model" and body[member.start] == ord('"')]


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _read_loosely(body)
    return value if isinstance(value, dict) else {}


def _read_loosely(body: bytes) -> object:
    # Engines may answer NaN, Infinity, lone surrogates, integers of any length and half a character at a cut.
    try:
        return json.loads(body.decode(errors="replace"), parse_int=str)
    except (ValueError, RecursionError):
        return None


def _with_replaced(body: bytes, members: list[Member], value: bytes) -> bytes:
    if not members:
        return body
    pieces = []
    at = 0
    for member in members:
        pieces += [body[at : member.start], value]
        at = member.end
    return b"".join([*pieces, body[at:]])
