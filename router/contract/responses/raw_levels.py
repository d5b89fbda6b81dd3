"""Edits of JSON objects as raw members, level by level: values that no edit is about keep their bytes.

A level is an object within a response, such as each choice. Its members are read as raw bytes, edited as a dict, and
written again. JSON in which more than the edited members would change is not edited here: spaces between tokens,
repeated keys, and keys with unusual escapes. Engines write none of these; splices edit them (`rewrite`).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

RawObject = dict[str, msgspec.Raw]
RawArray = list[msgspec.Raw]
ObjectEdit = Callable[[RawObject], bool]
"""Edits the members of an object in place; returns whether it changed any."""

MAX_MEMBERS: Final = 10_000
"""Most members of an object that is edited. One with more stays unchanged: engines write some ten, and a million would
take seconds."""

_read_object = msgspec.json.Decoder(RawObject).decode
_read_array = msgspec.json.Decoder(RawArray).decode
_write = msgspec.json.Encoder().encode


class NotCompactError(Exception):
    """The JSON is not written compactly, is not valid, or holds too many members: it is not edited here."""


class Level(NamedTuple):
    """The edit of an object, and the levels within it: members that are objects, and members that are arrays of them.

    Levels within are edited first. Of an array all objects are edited, or the first one alone with `first_item_only`.
    A member that is missing or of another type stays as it is.
    """

    edit: ObjectEdit | None = None
    objects: Mapping[str, "Level"] = {}
    arrays: Mapping[str, "Level"] = {}
    first_item_only: bool = False


def edit_object(body: bytes, level: Level) -> bytes:
    """Return a JSON object with its levels edited; the same bytes object if nothing changed. Raises NotCompactError."""
    edited = _edited(body, level)
    return body if edited is None else edited


def raw_members(body: bytes) -> RawObject:
    """Return the members of a JSON object by key. Raises NotCompactError."""
    try:
        members = _read_object(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise NotCompactError from None
    if len(members) > MAX_MEMBERS or _write(members) != body:
        raise NotCompactError
    return members


def is_string(value: msgspec.Raw | None) -> bool:
    """Return whether a raw value is a string."""
    return value is not None and bytes(value).startswith(b'"')


def _edited(body: bytes, level: Level) -> bytes | None:
    """Return an object edited, None if nothing changed."""
    members = raw_members(body)
    changed = (level.objects or level.arrays) and _edit_within(members, level)
    if level.edit is not None and level.edit(members):
        changed = True
    return _write(members) if changed else None


def _edit_within(members: RawObject, level: Level) -> bool:
    changed = False
    for name, inner in level.objects.items():
        value = _bytes_of(members, name)
        if value.startswith(b"{") and (edited := _edited(value, inner)) is not None:
            members[name] = msgspec.Raw(edited)
            changed = True
    for name, inner in level.arrays.items():
        value = _bytes_of(members, name)
        if value.startswith(b"[") and (edited := _edited_items(value, inner)) is not None:
            members[name] = msgspec.Raw(edited)
            changed = True
    return changed


def _edited_items(body: bytes, level: Level) -> bytes | None:
    items = [bytes(item) for item in _read_array(body)]
    if len(body) != sum(map(len, items)) + max(1, len(items)) + 1:
        raise NotCompactError
    changed = False
    for index, item in enumerate(items[:1] if level.first_item_only else items):
        if item.startswith(b"{") and (edited := _edited(item, level)) is not None:
            items[index] = edited
            changed = True
    return b"[" + b",".join(items) + b"]" if changed else None


def _bytes_of(members: RawObject, name: str) -> bytes:
    value = members.get(name)
    return b"" if value is None else bytes(value)
