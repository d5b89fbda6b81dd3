"""Strict parsing of request bodies: rules are evaluated on the same values that an engine reads."""

import gc
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

import orjson

from router.contract.errors import ApiError
from router.contract.jsonbytes.members import Member, Members, TooManyMembersError, find_members, group, grouped
from router.contract.jsonbytes.numbers import show
from router.contract.jsonbytes.scanning import find_long_strings, holds_digits, holds_more_values
from router.contract.schema.fields import standard_name

MAX_NUMBER_DIGITS: Final = 1000
"""Longest run of digits in one number."""

MAX_MEMBERS: Final = 2_000
"""Most members of the request object, repetitions included: each costs 1 to 2 µs, and clients send some tens."""

MAX_NESTED_MEMBERS: Final = 2_000
"""Most members, repetitions included, of all nested objects that rules read. A `logit_bias` may have some 1,000
tokens."""

MAX_VALUES: Final = 1_000_000
"""Most values in a request, those in objects and arrays included: each costs time and memory once it is read."""

_MARKS_OF_VALUES: Final = (b",", b"[", b"{")
_LARGE_BYTES: Final = 256 * 1024
_SHOWN_CHARACTERS: Final = 80
_LONGEST_CHARACTER: Final = len("\U0010ffff".encode())


class ParsedRequest(NamedTuple):
    """A parsed request: its bytes, its fields (the last value of a repeated key) and its top-level members.

    `repeats`: a top-level field is repeated. `nested` caches the members of nested objects by the offset of the object:
    each object is scanned once for all rules.
    """

    body: bytes
    fields: dict[str, Any]
    members: Members
    repeats: bool
    nested: dict[int, Members]

    def members_of(self, member: Member) -> Members:
        """Return the members of the object that a member holds.

        Raises ApiError where the objects that are looked into have more than MAX_NESTED_MEMBERS.
        """
        known = self.nested.get(member.start)
        if known is None:
            left = MAX_NESTED_MEMBERS - sum(len(places) for each in self.nested.values() for places in each.values())
            try:
                known = grouped(self.body, member.start, member.end, left)
            except TooManyMembersError:
                message = f"The objects in the request that are looked into hold more than {MAX_NESTED_MEMBERS} members"
                raise ApiError("bad_request", message) from None
            self.nested[member.start] = known
        return known

    def value(self, field: str) -> Any:  # noqa: ANN401 - a JSON value may be anything
        """Return a field's value; None when it is absent or null."""
        return self.fields.get(field)

    def written(self, field: str) -> str:
        """Return a field's value as the client wrote it, cut to what fits a message."""
        standing = self.members.get(field)
        if standing is None or (self.fields[field] is not None and standing[-1].raw(self.body) == b"null"):
            # The client did not write it: the alias that it asked for implies it.
            return orjson.dumps(self.fields[field]).decode()
        member = standing[-1]
        some = self.body[member.start : min(member.end, member.start + (_SHOWN_CHARACTERS + 1) * _LONGEST_CHARACTER)]
        text = some.decode(errors="ignore")
        return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"

    def display(self, field: str) -> str:
        """Return a field's value for a message about numbers: whole ones without `.0`, others as the client wrote."""
        value = self.fields[field]
        text = self.written(field)
        # What looks like an integer and is a float was an integer too large to be exact.
        return show(value) if isinstance(value, float) and not text.lstrip("-").isdigit() else text

    def reject_repeated(self, field: str) -> None:
        """Raise ApiError if a field is repeated."""
        if len(self.members.get(field, ())) > 1:
            message = f"{field} occurs more than once in the request; send it once"
            raise ApiError("bad_request", message, standard_name(field))


NOTHING_SENT: Final = ParsedRequest(b"{}", {}, {}, repeats=False, nested={})
"""A request without any field."""


def parse(body: bytes) -> ParsedRequest:
    """Parse a request body strictly (RFC 8259: UTF-8, no BOM, one object, nothing behind it).

    Raises ApiError `bad_request` for anything else.
    """
    if holds_too_many_values(body):
        raise ApiError("bad_request", f"The request body holds more than {MAX_VALUES:,} JSON values")
    try:
        value = _read(body)
    except orjson.JSONDecodeError as error:
        message = f"The request body is not valid JSON: {error.msg} (at character {error.pos})"
        raise ApiError("bad_request", message) from None
    if not isinstance(value, dict):
        raise ApiError("bad_request", "The request body must be a JSON object")
    cuts = find_long_strings(body) if len(body) > _LARGE_BYTES else ()
    text = _without(body, cuts) if cuts else body
    if holds_digits(text, MAX_NUMBER_DIGITS):
        message = f"The request body holds a number of more than {MAX_NUMBER_DIGITS} digits"
        raise ApiError("bad_request", message)
    try:
        found = find_members(text, most=MAX_MEMBERS)
    except TooManyMembersError:
        raise ApiError("bad_request", f"The request body holds more than {MAX_MEMBERS} members") from None
    members = group(_moved(found, cuts) if cuts else found)
    return ParsedRequest(body, value, members, len(members) < len(found), {})


def _without(body: bytes, cuts: Sequence[tuple[int, int]]) -> bytes:
    """Return a body with parts cut out."""
    edges = [0, *chain.from_iterable(cuts), len(body)]
    return b"".join([body[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)])


def _moved(members: list[Member], cuts: Sequence[tuple[int, int]]) -> list[Member]:
    """Return members that were found in what is left of a body as they stand in the body itself."""
    lengths = list(accumulate((end - start for start, end in cuts), initial=0))
    places = [start - length for (start, _), length in zip(cuts, lengths, strict=False)]

    def moved(at: int) -> int:
        return at + lengths[bisect_left(places, at)]

    return [Member(name, *map(moved, at)) for name, *at in members]


def _read(body: bytes) -> Any:  # noqa: ANN401 - a JSON value may be anything
    """Read JSON; while a large body is read, values are not searched for cycles, which they have none of.

    Python would do so again and again as they become more, and that takes longer than all the rest.
    """
    if len(body) <= _LARGE_BYTES or not gc.isenabled():
        return orjson.loads(body)
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        gc.enable()


def holds_too_many_values(body: bytes) -> bool:
    """Return whether JSON holds more than MAX_VALUES values."""
    # No valid JSON has more marks in its bytes than an array of empty arrays: two in three.
    may_hold = len(body) * 2 > MAX_VALUES * 3 and sum(map(body.count, _MARKS_OF_VALUES)) > MAX_VALUES
    return may_hold and holds_more_values(body, MAX_VALUES)
