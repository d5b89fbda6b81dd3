"""Edits of a request body: spliced into its bytes, so that every value the contract does not touch keeps its own."""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, groupby
from typing import Final, Literal, NamedTuple

from router.contract.conditions import Path
from router.contract.errors import ApiError
from router.contract.members import Member, start_of_next, walk_members
from router.contract.parsing import Request

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_NUMBERS: Final = frozenset({int, float})
_OPENING_BRACE: Final = ord("{")
_Splice = tuple[int, int, bytes]


class Edit(NamedTuple):
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


_Located = tuple[Path, Edit]
"""An edit and its path from the object that is looked at."""


def to_json(value: object) -> bytes:
    """Return a value as JSON bytes, numbers in their shortest form."""
    return _number_to_json(value) if type(value) in _NUMBERS else _ENCODER.encode(value).encode()


# Typed, as 1 and 1.0 are equal and do not look the same.
@lru_cache(maxsize=1024, typed=True)
def _number_to_json(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def supply(request: Request, rule: str, field: str, value: bytes) -> Edit:
    """Return the edit that gives a top-level field a value, whether it stands there or not."""
    return Edit(rule, "set" if field in request.members else "inject", (field,), value)


def drop_repetitions(request: Request, rule: str, field: str) -> list[Edit]:
    """Return the edit that leaves of a repeated field only its last occurrence, which every engine reads."""
    return [Edit(rule, "remove", (field,))] if len(request.members.get(field, ())) > 1 else []


def drop_all_repetitions(request: Request, rule: str, path: Path) -> list[Edit]:
    """Return the edits that do the same for a field at a path, and for the objects that it stands in."""
    edits = drop_repetitions(request, rule, path[0])
    return edits if len(path) == 1 else edits + _drop_nested_repetitions(request, rule, path)


def _drop_nested_repetitions(request: Request, rule: str, path: Path) -> list[Edit]:
    standing = request.members.get(path[0])
    if not standing:
        return []
    last = standing[-1]
    raw = last.raw(request.body)
    if b"\\" not in raw and all(raw.count(_quoted(step)) <= 1 for step in path[1:]):
        # Most requests: no key of the path can be there twice.
        return []
    edits = []
    for depth, step in enumerate(path[1:], start=2):
        if request.body[last.start] != _OPENING_BRACE:
            break
        inner = grouped(request.body, last).get(step)
        if not inner:
            break
        if len(inner) > 1:
            edits.append(Edit(rule, "remove", path[:depth]))
        last = inner[-1]
    return edits


def raw_at(request: Request, path: Path) -> bytes | None:
    """Return the bytes of the value at a path as they were sent, of repeated keys the last."""
    members, last = request.members, None
    for step in path:
        if last is not None:
            members = grouped(request.body, last) if request.body[last.start] == _OPENING_BRACE else {}
        if step not in members:
            return None
        last = members[step][-1]
    return None if last is None else last.raw(request.body)


def apply_edits(request: Request, edits: Iterable[Edit]) -> bytes:
    """Return the edited body; the same object when nothing is to be edited. Of two edits of one value the last wins."""
    edits = tuple(edits)
    if not edits:
        return request.body
    body = request.body
    splices = _plain_splices(request, edits)
    if splices is None:
        splices, _ = _splices(body, (0, len(body)), request.members, [(edit.path, edit) for edit in edits])
    return _spliced(body, splices)


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


def _plain_splices(request: Request, edits: tuple[Edit, ...]) -> list[_Splice] | None:
    """Return what `_splices` does for nearly all requests, several times faster; None where only that can tell.

    These are edits that give values to top-level fields, or to fields of objects that the request does not have.
    """
    values: dict[str, bytes] = {}
    objects: dict[str, dict[str, bytes]] = {}
    members = request.members
    for _, kind, path, value in edits:
        name = path[0]
        if kind == "drop" or kind == "remove" or len(path) > _NESTED:  # noqa: PLR1714 - twice as fast
            return None
        if len(path) == _NESTED:
            if name in members or name in values:
                return None
            objects.setdefault(name, {})[path[1]] = value
        elif name in objects:
            return None
        else:
            values[name] = value
    splices = [(members[name][-1].start, members[name][-1].end, values[name]) for name in values if name in members]
    injected = [_key(name) + value for name, value in values.items() if name not in members]
    for name, inner in objects.items():
        injected.append(_key(name) + b"{" + b",".join(_key(step) + value for step, value in inner.items()) + b"}")
    if injected:
        closing = request.body.rindex(b"}")
        splices.append((closing, closing, (b"," if members else b"") + b",".join(injected)))
    return splices


_NESTED: Final = 2
"""Steps of the path of a field within a top-level object."""


@lru_cache(maxsize=1024)
def _quoted(name: str) -> bytes:
    return to_json(name)


@lru_cache(maxsize=1024)
def _key(name: str) -> bytes:
    return to_json(name) + b":"


class _Change:
    """What becomes of one member of an object."""

    __slots__ = ("dropped", "inner", "only_last", "value")

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.dropped = False
        self.only_last = False
        self.inner: list[_Located] = []

    def take(self, path: Path, edit: Edit) -> None:
        """Add an edit of the member, or of what is at a path inside of it."""
        if len(path) > 1 and (self.dropped or self.value is not None):
            self._edit_value(path[1:], edit)
        elif len(path) > 1:
            self.inner.append((path[1:], edit))
        elif edit.kind == "remove":
            self.only_last = True
        elif edit.kind == "drop":
            self.value, self.dropped, self.inner = None, True, []
        else:
            self._set(edit.value)

    def _set(self, value: bytes) -> None:
        # Of what was dropped, the last place takes the value.
        self.only_last = self.only_last or self.dropped
        self.value, self.dropped, self.inner = value, False, []

    def _edit_value(self, path: Path, edit: Edit) -> None:
        """Edit the value that an earlier edit has given the member."""
        if self.value is None or not self.value.startswith(b"{"):
            built = _built([(path, edit)])
            if built is not None:
                self._set(built)
            return
        self.value = _edited_object(self.value, [(path, edit)])
        self.dropped = self.value is None


def _splices(
    body: bytes, span: tuple[int, int], members: dict[str, list[Member]], edits: list[_Located]
) -> tuple[list[_Splice], bool]:
    """Return what is to be spliced into the object at `span`, and whether nothing is left in it."""
    changes: dict[str, _Change] = {}
    for path, edit in edits:
        changes.setdefault(path[0], _Change()).take(path, edit)
    splices: list[_Splice] = []
    injected: list[bytes] = []
    removed: set[int] = set()
    for name, change in changes.items():
        standing = members.get(name, [])
        if change.inner:
            splices += _edit_inside(body, standing, change)
        if change.dropped or change.only_last:
            removed.update(member.start for member in (standing if change.dropped else standing[:-1]))
        if change.value is not None and standing:
            splices.append((standing[-1].start, standing[-1].end, change.value))
        elif change.value is not None:
            injected.append(_key(name) + change.value)
    if removed:
        splices += _removals(body, sorted(chain.from_iterable(members.values()), key=_start), removed)
    is_left = len(removed) < sum(map(len, members.values()))
    if injected:
        closing = body.rindex(b"}", *span)
        splices.append((closing, closing, (b"," if is_left else b"") + b",".join(injected)))
    return splices, bool(removed) and not is_left and not injected


def _edit_inside(body: bytes, standing: list[Member], change: _Change) -> list[_Splice]:
    """Return the splices inside of a member; where it holds no object, set it to one instead."""
    if not standing or body[standing[-1].start] != _OPENING_BRACE:
        change.value = _built(change.inner)
        return []
    last = standing[-1]
    splices, emptied = _splices(body, (last.start, last.end), grouped(body, last), change.inner)
    change.dropped = emptied
    return [] if emptied else splices


def grouped(body: bytes, member: Member) -> dict[str, list[Member]]:
    """Return the members of the object that a member holds, by their keys.

    Raises ApiError where they are so many that looking through them would keep a worker busy.
    """
    members: dict[str, list[Member]] = {}
    for count, inner in enumerate(walk_members(body, member.start, member.end), start=1):
        if count > MAX_NESTED_MEMBERS:
            raise ApiError("bad_request", f"An object in the request holds more than {MAX_NESTED_MEMBERS} members")
        members.setdefault(inner.key, []).append(inner)
    return members


MAX_NESTED_MEMBERS: Final = 10_000
"""Most members, repetitions included, of an object that is looked into."""


def _edited_object(body: bytes, edits: list[_Located]) -> bytes | None:
    """Return an object with its edits made, None where they leave nothing in it."""
    members = grouped(body, Member("", 0, 0, len(body)))
    splices, is_emptied = _splices(body, (0, len(body)), members, edits)
    return None if is_emptied else _spliced(body, splices)


def _built(edits: list[_Located]) -> bytes | None:
    """Return the object that holds what is set and nothing else, None where nothing is."""
    if all(len(path) == 1 and edit.kind in _GIVING for path, edit in edits):
        values = {path[0]: edit.value for path, edit in edits}
        return b"{" + b",".join([_key(name) + value for name, value in values.items()]) + b"}"
    built = _edited_object(_EMPTY, edits)
    return None if built == _EMPTY else built


_EMPTY: Final = b"{}"
_GIVING: Final = ("set", "inject")


def _removals(body: bytes, members: list[Member], removed: set[int]) -> Iterator[_Splice]:
    """Yield the splices that take some of an object's members away, each with one of the commas around it."""
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
