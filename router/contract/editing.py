"""Edits of a request body: spliced into its bytes, so that every value the contract does not touch keeps its own."""

import json
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from router.contract.members import Member, start_of_next
from router.contract.parsing import Request

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class Edit(NamedTuple):
    """One change to a request body and the rule that asked for it.

    `set` replaces the bytes from `start` to `end` with `value`; `remove` drops them; `inject` adds `field` with `value`
    at the end of the object.
    """

    rule: str
    kind: Literal["set", "inject", "remove"]
    field: str
    value: bytes = b""
    start: int = 0
    end: int = 0


def to_json(value: object) -> bytes:
    """Return a value as JSON bytes, numbers in their shortest form."""
    return _ENCODER.encode(value).encode()


def supply(request: Request, rule: str, field: str, value: bytes) -> Edit:
    """Return the edit that gives a field which is absent or null a value."""
    members = request.members.get(field)
    if not members:
        return Edit(rule, "inject", field, value)
    return replace(members[-1], rule, value)


def replace(member: Member, rule: str, value: bytes) -> Edit:
    """Return the edit that replaces a member's value."""
    return Edit(rule, "set", member.key, value, member.start, member.end)


def drop_repetitions(request: Request, rule: str, field: str) -> list[Edit]:
    """Return the edits that leave of a repeated field only its last occurrence, which every engine reads."""
    repeated = request.members.get(field, ())[:-1]
    return [
        Edit(rule, "remove", field, b"", member.key_start, start_of_next(request.body, member.end))
        for member in repeated
    ]


def apply_edits(body: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the edited body; the same object when there is nothing to edit."""
    edits = tuple(edits)
    if not edits:
        return body
    # Views, so that a large body is copied only once.
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    at = 0
    for edit in sorted((edit for edit in edits if edit.kind != "inject"), key=_start):
        pieces += [view[at : edit.start], edit.value]
        at = edit.end
    closing = body.rindex(b"}")
    pieces.append(view[at:closing])
    pieces += [b"," + to_json(edit.field) + b":" + edit.value for edit in edits if edit.kind == "inject"]
    pieces.append(view[closing:])
    return b"".join(pieces)


def _start(edit: Edit) -> int:
    return edit.start
