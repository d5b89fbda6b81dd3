"""Edits of a request body as splices of its bytes: values that the contract does not edit keep their bytes."""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, groupby
from typing import Final, Literal, NamedTuple

from router.contract.jsonbytes.members import Member, Members, start_of_next
from router.contract.jsonbytes.parsing import ParsedRequest
from router.contract.schema.conditions import Path

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_NUMBERS: Final = frozenset({int, float})
_OPENING_BRACE: Final = ord("{")
_Splice = tuple[int, int, bytes]


class JsonEdit(NamedTuple):
    """One change to a request body and the rule that asked for it.

    `set` gives the field at `path` another value, `inject` adds it with one, `drop` takes it away; `remove` takes away
    all occurrences but the last of a field that is repeated.
    """

    rule: str
    kind: Literal["set", "inject", "drop", "remove"]
    path: Path
    value: bytes = b""

    @property
    def field(self) -> str:
        """The dotted path of the field."""
        return ".".join(self.path)


_Located = tuple[Path, JsonEdit]
"""An edit and its path relative to the current object."""


def to_json(value: object) -> bytes:
    """Return a value as JSON bytes, numbers in their shortest form."""
    return _number_to_json(value) if type(value) in _NUMBERS else _ENCODER.encode(value).encode()


# Typed, as 1 and 1.0 are equal and do not look the same.
@lru_cache(maxsize=1024, typed=True)
def _number_to_json(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def supply(request: ParsedRequest, rule: str, field: str, value: bytes) -> JsonEdit:
    """Return the edit that sets a top-level field, whether the request has it or not."""
    return JsonEdit(rule, "set" if field in request.members else "inject", (field,), value)


def drop_repetitions(request: ParsedRequest, rule: str, field: str) -> list[JsonEdit]:
    """Return the edit that removes all but the last occurrence of a repeated field. Every engine reads the last one."""
    return [JsonEdit(rule, "remove", (field,))] if len(request.members.get(field, ())) > 1 else []


def drop_all_repetitions(request: ParsedRequest, rule: str, path: Path) -> list[JsonEdit]:
    """Return the edits that do the same for a field at a path and for the objects around it."""
    edits = drop_repetitions(request, rule, path[0])
    return edits if len(path) == 1 else edits + _drop_nested_repetitions(request, rule, path)


def _drop_nested_repetitions(request: ParsedRequest, rule: str, path: Path) -> list[JsonEdit]:
    standing = request.members.get(path[0])
    if not standing:
        return []
    last = standing[-1]
    if _is_plain(request, last, path[1:]):
        return []
    edits = []
    for depth, step in enumerate(path[1:], start=2):
        if request.body[last.start] != _OPENING_BRACE:
            break
        inner = request.members_of(last).get(step)
        if not inner:
            break
        if len(inner) > 1:
            edits.append(JsonEdit(rule, "remove", path[:depth]))
        last = inner[-1]
    return edits


def _is_plain(request: ParsedRequest, member: Member, steps: Path) -> bool:
    """Return whether a short search rules out that a member's value repeats a key with one of these names."""
    if member.start in request.nested or member.end - member.start > _MOST_GLANCED_AT_BYTES:
        return False
    raw = member.raw(request.body)
    return b"\\" not in raw and all(raw.count(_quoted(step)) <= 1 for step in steps)


_MOST_GLANCED_AT_BYTES: Final = 1024
"""Longest value in bytes that is searched again for each rule. The members of a longer one are found once."""


def raw_at(request: ParsedRequest, path: Path) -> bytes | None:
    """Return the bytes of the value at a path as they were sent, of repeated keys the last."""
    members, last = request.members, None
    for step in path:
        if last is not None:
            members = request.members_of(last) if request.body[last.start] == _OPENING_BRACE else {}
        if step not in members:
            return None
        last = members[step][-1]
    return None if last is None else last.raw(request.body)


def apply_edits(request: ParsedRequest, edits: Iterable[JsonEdit]) -> bytes:
    """Return the edited body; the same object when nothing is to be edited. Of two edits of one value the last wins."""
    edits = tuple(edits)
    if not edits:
        return request.body
    body = request.body
    injected = _injected_alone(request.members, edits)
    if injected is not None:
        closing = body.rindex(b"}")
        return b"".join((memoryview(body)[:closing], injected, body[closing:]))
    splices = _plain_splices(request, edits)
    if splices is None:
        splices, _ = _splices(request, (0, len(body)), request.members, [(edit.path, edit) for edit in edits])
    return _spliced(body, splices)


def _injected_alone(members: Members, edits: tuple[JsonEdit, ...]) -> bytes | None:
    """Return what edits add to the end of a request that has other members; None where they do more than that."""
    added: dict[str, bytes] = {}
    for _, kind, path, value in edits:
        name = path[0]
        if kind != "inject" or len(path) > 1 or name in members:
            return None
        added[name] = _key(name) + value
    return b"," + b",".join(added.values()) if members else None


def _spliced(body: bytes, splices: list[_Splice]) -> bytes:
    # Views, so that a large body is copied only once.
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    at = 0
    for start, end, value in sorted(splices):
        pieces += [view[at:start], value]
        at = end
    pieces.append(view[at:])
    return b"".join(pieces)


_NESTED: Final = 2
"""Steps of the path of a field within a top-level object."""


def _sort_out(
    members: Members, edits: tuple[JsonEdit, ...]
) -> tuple[dict[str, bytes], dict[str, dict[str, bytes]], set[str]] | None:
    """Return the values of fields, those in objects that are not there, and the fields to take away, of plain edits."""
    values: dict[str, bytes] = {}
    objects: dict[str, dict[str, bytes]] = {}
    dropped: set[str] = set()
    for _, kind, path, value in edits:
        name = path[0]
        if kind == "remove" or len(path) > _NESTED or name in dropped:
            return None
        if len(path) == _NESTED:
            if name in members or name in values or kind == "drop":
                return None
            objects.setdefault(name, {})[path[1]] = value
        elif name in objects:
            return None
        elif kind == "drop":
            if name in values:
                return None
            dropped.add(name)
        else:
            values[name] = value
    return values, objects, dropped


def _plain_splices(request: ParsedRequest, edits: tuple[JsonEdit, ...]) -> list[_Splice] | None:
    """Return the same as `_splices`, several times faster; None for the few requests that need `_splices`.

    It handles edits that remove or set top-level fields, and edits that set fields of objects that the request does not
    have.
    """
    sorted_out = _sort_out(request.members, edits)
    if sorted_out is None:
        return None
    values, objects, dropped = sorted_out
    members = request.members
    removed = {member.start for name in dropped for member in members.get(name, ())}
    splices = [(members[name][-1].start, members[name][-1].end, values[name]) for name in values if name in members]
    injected = [_key(name) + value for name, value in values.items() if name not in members]
    for name, inner in objects.items():
        injected.append(_key(name) + b"{" + b",".join(_key(step) + value for step, value in inner.items()) + b"}")
    if removed:
        splices += _removals(request.body, sorted(chain.from_iterable(members.values()), key=_start), removed)
    if injected:
        closing = request.body.rindex(b"}")
        is_left = len(members) > len(dropped.intersection(members))
        splices.append((closing, closing, (b"," if is_left else b"") + b",".join(injected)))
    return splices


@lru_cache(maxsize=1024)
def _quoted(name: str) -> bytes:
    return to_json(name)


@lru_cache(maxsize=1024)
def _key(name: str) -> bytes:
    return to_json(name) + b":"


class _Change:
    """What becomes of one member of an object.

    `inner` are the edits of what is in it: in the value that it gets, where that is not None, else in the one it has.
    """

    __slots__ = ("dropped", "inner", "only_last", "value")

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.dropped = False
        self.only_last = False
        self.inner: list[_Located] = []

    def take(self, path: Path, edit: JsonEdit) -> None:
        """Add an edit of the member, or of what is at a path inside of it."""
        if len(path) > 1:
            self.inner.append((path[1:], edit))
        elif edit.kind == "remove":
            self.only_last = True
        elif edit.kind == "drop":
            self.value, self.dropped, self.inner = None, True, []
        else:
            self.set(edit.value)

    def set(self, value: bytes) -> None:
        """Set the value of the member. If it was dropped, its last occurrence gets the value."""
        self.only_last = self.only_last or self.dropped
        self.value, self.dropped, self.inner = value, False, []

    def settle(self) -> None:
        """Make the edits inside of a value that the member gets, all at once: it may be as long as the request."""
        if not self.inner or not (self.dropped or self.value is not None):
            return
        if self.value is None or not self.value.startswith(b"{"):
            built = _built(self.inner)
            self.inner = []
            if built is not None:
                self.set(built)
            return
        self.value, self.inner = _edited_object(self.value, self.inner), []
        self.dropped = self.value is None


def _splices(
    request: ParsedRequest, span: tuple[int, int], members: Members, edits: list[_Located]
) -> tuple[list[_Splice], bool]:
    """Return the splices for the object at `span`, and whether it becomes empty."""
    changes: dict[str, _Change] = {}
    for path, edit in edits:
        changes.setdefault(path[0], _Change()).take(path, edit)
    splices: list[_Splice] = []
    injected: list[bytes] = []
    removed: set[int] = set()
    for name, change in changes.items():
        standing = members.get(name, [])
        change.settle()
        if change.inner:
            splices += _edit_inside(request, standing, change)
        if change.dropped or change.only_last:
            removed.update(member.start for member in (standing if change.dropped else standing[:-1]))
        if change.value is not None and standing:
            splices.append((standing[-1].start, standing[-1].end, change.value))
        elif change.value is not None:
            injected.append(_key(name) + change.value)
    if removed:
        splices += _removals(request.body, sorted(chain.from_iterable(members.values()), key=_start), removed)
    is_left = len(removed) < sum(map(len, members.values()))
    if injected:
        closing = request.body.rindex(b"}", *span)
        splices.append((closing, closing, (b"," if is_left else b"") + b",".join(injected)))
    return splices, bool(removed) and not is_left and not injected


def _edit_inside(request: ParsedRequest, standing: list[Member], change: _Change) -> list[_Splice]:
    """Return the splices inside of a member; where it holds no object, set it to one instead."""
    if not standing or request.body[standing[-1].start] != _OPENING_BRACE:
        change.value = _built(change.inner)
        return []
    last = standing[-1]
    splices, emptied = _splices(request, (last.start, last.end), request.members_of(last), change.inner)
    change.dropped = emptied
    return [] if emptied else splices


def _edited_object(body: bytes, edits: list[_Located]) -> bytes | None:
    """Return an object with its edits made, None where they leave nothing in it."""
    holder = ParsedRequest(body, {}, {}, repeats=False, nested={})
    members = holder.members_of(Member("", 0, 0, len(body)))
    splices, is_emptied = _splices(holder, (0, len(body)), members, edits)
    return None if is_emptied else _spliced(body, splices)


def _built(edits: list[_Located]) -> bytes | None:
    """Return an object with only the set values, None if there are none."""
    if all(len(path) == 1 and edit.kind in _GIVING for path, edit in edits):
        values = {path[0]: edit.value for path, edit in edits}
        return b"{" + b",".join([_key(name) + value for name, value in values.items()]) + b"}"
    built = _edited_object(_EMPTY, edits)
    return None if built == _EMPTY else built


_EMPTY: Final = b"{}"
_GIVING: Final = ("set", "inject")


def _removals(body: bytes, members: list[Member], removed: set[int]) -> Iterator[_Splice]:
    """Yield the splices that remove members of an object, each with one adjacent comma."""
    kept_until = None
    for is_removed, run in groupby(members, key=lambda member: member.start in removed):
        group = list(run)
        if not is_removed:
            kept_until = group[-1].end
        elif group[-1] is members[-1]:
            yield (group[0].key_start if kept_until is None else kept_until), group[-1].end, b""
        else:
            yield group[0].key_start, start_of_next(body, group[-1].end), b""


def _start(member: Member) -> int:
    return member.start
