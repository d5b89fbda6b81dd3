"""Edits of buffered responses: the requested alias as model name, and the `type` of a 400. All other bytes stay."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from router.contract.jsonbytes.members import Member, TooManyMembersError, end_of_value, find_members
from router.contract.jsonbytes.parsing import holds_too_many_values
from router.contract.jsonbytes.scanning import JsonScanner
from router.contract.jsonbytes.splice import to_json
from router.contract.responses.raw_levels import MAX_MEMBERS, Level, NotCompactError, RawObject, edit_object, is_string
from router.contract.responses.sse import BYTE_ORDER_MARK

_MODEL = re.compile(rb'"model"[ \t\n\r]*+:[ \t\n\r]*+')


class _ResponseModel(msgspec.Struct):
    """The model name of a response. The parser skips all other members."""

    model: msgspec.Raw = msgspec.Raw()


_skim: Final = msgspec.json.Decoder(msgspec.Raw).decode
"""Reads JSON and makes nothing of it: the values of 8 MiB may be millions."""
_read_named = msgspec.json.Decoder(_ResponseModel).decode


def rename_model(body: bytes, name: str) -> bytes:
    """Return a JSON object with its top-level `model` string replaced; anything else comes back as the same object.

    A byte order mark before it stays: a reader may ignore it (RFC 8259, section 8.1).
    """
    return _behind_mark(body, partial(_renamed, name=name))


def retype_bad_request(body: bytes, new_type: str) -> bytes:
    """Return the JSON body of a 400 with its error `type` replaced or added.

    Nested `{"error": {…}}` and flat `{"object": "error", "message": …}` are known; anything else comes back unchanged.
    A byte order mark before it stays.
    """
    try:
        return _behind_mark(body, partial(_retyped, new_type=new_type))
    except TooManyMembersError:
        return body


def without_mark(body: bytes) -> bytes:
    """Return JSON without the byte order mark that may stand before it."""
    return body.removeprefix(BYTE_ORDER_MARK)


def _behind_mark(body: bytes, edit: Callable[[bytes], bytes]) -> bytes:
    unmarked = without_mark(body)
    edited = edit(unmarked)
    if edited is unmarked:
        return body
    return edited if unmarked is body else BYTE_ORDER_MARK + edited


def model_level(name: bytes, holder: str | None = None) -> Level:
    """Return the edit that sets the model name, in JSON; `holder` is as for `model_strings`."""
    value = msgspec.Raw(name)

    def set_model(members: RawObject) -> bool:
        if not is_string(members.get("model")):
            return False
        members["model"] = value
        return True

    return Level(set_model) if holder is None else Level(objects={holder: Level(set_model)})


def _renamed(body: bytes, name: str) -> bytes:
    try:
        return edit_object(body, model_level(to_json(name)))
    except NotCompactError:
        pass
    return _with_replaced(body, model_strings(body), to_json(name))


def _retyped(body: bytes, new_type: str) -> bytes:
    value = read_object(body)
    start, end = 0, len(body)
    if isinstance(value.get("error"), dict):
        error = [member for member in find_members(body, most=MAX_MEMBERS) if member.key == "error"][-1]
        start, end = error.start, error.end
    elif value.get("object") != "error" or "message" not in value:
        return body
    members = find_members(body, start, end, MAX_MEMBERS)
    types = [member for member in members if member.key == "type"]
    if types:
        return _with_replaced(body, types, to_json(new_type))
    closing = body.rindex(b"}", start, end)
    separator = b"," if members else b""
    return body[:closing] + separator + b'"type":' + to_json(new_type) + body[closing:]


def model_strings(body: bytes, holder: str | None = None) -> list[Member]:
    """Return the `model` members of a JSON object that are strings; none when the last one is not.

    `holder` is the member whose object has them, None for the outermost object. None either where an object has more
    than MAX_MEMBERS.
    """
    if holder is not None:
        return _held_model_strings(body, holder)
    if not _names_model(body):
        return []
    if body.count(b'"model"') == 1 and b"\\u00" not in body and (key := _MODEL.search(body)):
        # No other key can be `model`, and the object has one: the other members need no scan.
        return [Member("model", key.start(), key.end(), end_of_value(body, key.end()))]
    try:
        members = find_members(body, most=MAX_MEMBERS)
    except TooManyMembersError:
        return []
    return [member for member in members if member.key == "model" and body[member.start] == ord('"')]


def _held_model_strings(body: bytes, holder: str) -> list[Member]:
    if b'"model"' not in body and b"\\u00" not in body:
        return []
    held = read_object(body).get(holder)
    if not isinstance(held, dict) or not isinstance(held.get("model"), str):
        return []
    try:
        place = [member for member in find_members(body, most=MAX_MEMBERS) if member.key == holder][-1]
        members = find_members(body, place.start, place.end, MAX_MEMBERS)
    except TooManyMembersError:
        return []
    return [member for member in members if member.key == "model" and body[member.start] == ord('"')]


def _names_model(body: bytes) -> bool:
    try:
        return bytes(memoryview(_read_named(body).model)[:1]) == b'"'
    except msgspec.ValidationError:  # it is no object
        return False
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return isinstance(read_object(body).get("model"), str)


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object that an engine wrote, as far as it can be read; an empty one for anything else.

    So is one of too many values: to read them would take a second and hundreds of megabytes.
    """
    if holds_too_many_values(body):
        return {}
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _read_loosely(body)
    return value if isinstance(value, dict) else {}


def is_json(body: bytes) -> bool:
    """Return whether a body is JSON as engines write it, to its end."""
    with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        _skim(body)
        return True
    try:
        # Engines may write NaN and Infinity.
        json.loads(body)
    except ValueError:
        return False
    except RecursionError:
        # JSON that is nested more deeply is checked by its brackets, like a response that is too long to be buffered.
        balance = JsonScanner()
        balance.feed(body)
        return balance.is_kept()
    return True


def _read_loosely(body: bytes) -> object:
    # Engines may write NaN, Infinity, lone surrogates, integers of any length, and half a character where they cut off.
    try:
        return json.loads(body.decode(errors="replace"), parse_int=float)
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
