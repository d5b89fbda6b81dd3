"""Checks: a request and the result that a contract requires. All values are immutable."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self

Member = tuple[str, str]
"""A key of a request object and its value as JSON text, as it is sent."""

Fields = dict[str, Any]

FILL: Final = "~letters:"
"""Start of the marker for a run of letters; it keeps megabytes out of memory until the request is sent."""

_encode: Final = json.JSONEncoder(ensure_ascii=False).encode
"""As `json.dumps` with this option, which makes an encoder at each call."""

_RUN: Final = re.compile(f"{FILL}([0-9]+)~")


class ChatRequest(NamedTuple):
    """One chat completion request, exact to the byte.

    members: the members of the request object, in order; names may repeat.
    length: the size of the body in bytes, padded with blanks after the object; None: no padding.
    text: the whole body, if it is not an object.
    engine: the name of the error that the engine shall return (see `ENGINE_ANSWERS`); None: no error is requested.
    """

    members: tuple[Member, ...]
    length: int | None = None
    text: str | None = None
    engine: str | None = None

    @classmethod
    def of(cls, fields: Fields) -> Self:
        """Return the request that has these fields."""
        return cls(tuple((name, written(value)) for name, value in fields.items()))

    def body(self) -> bytes:
        """Return the bytes of the body."""
        sent = filled(self._unfilled() if self.text is None else self.text).encode()
        return sent if self.length is None else sent.ljust(self.length)

    def fields(self) -> Fields:
        """Return the fields as engines read them: of a repeated key the last."""
        return {name: json.loads(value) for name, value in self.members}

    def size(self) -> int:
        """Return how many bytes are sent."""
        if self.length is not None:
            return self.length
        if self.text is not None:
            return len(self.text.encode())
        return size_of(self._unfilled())

    def _unfilled(self) -> str:
        """Return the object as JSON, with the markers for its runs of letters."""
        return f"{{{', '.join([f'{written(name)}: {value}' for name, value in self.members])}}}"

    def key(self) -> str:
        """Return a key that equal requests share, so that each is sent only once."""
        return hashlib.sha256(written(self).encode()).hexdigest()[:32]

    def request_id(self) -> str:
        """Return the id under which the request is sent."""
        return f"verify-{self.key()}"

    def replaced(self, name: str, *values: str) -> Self:
        """Return the request with one occurrence of a member for each of these JSON values; none removes it."""
        there = [member for member in self.members if member[0] != name]
        return self._replace(members=(*there, *((name, value) for value in values)))


def run_of_letters(count: int) -> str:
    """Return the marker for a run of `count` letters."""
    return f"{FILL}{count}~"


def filled(text: str) -> str:
    """Return a text with its runs of letters written out."""
    return _RUN.sub(lambda run: "A" * int(run[1]), text) if FILL in text else text


def size_of(text: str) -> int:
    """Return how many bytes a text has once its runs of letters are written out."""
    return len(text.encode()) + (sum(int(run[1]) - len(run[0]) for run in _RUN.finditer(text)) if FILL in text else 0)


def written(value: object) -> str:
    """Return a value as JSON text."""
    return _encode(value)


class Wildcard(NamedTuple):
    """Placeholder in an expected body for any value, or any text within a text, that a contract leaves open."""


WILDCARD: Final = Wildcard()


class TextPattern(NamedTuple):
    """An expected text: literal pieces with any text between them."""

    pieces: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Whether any text is meant."""
        return not any(self.pieces)

    def holds(self, text: object) -> bool:
        """Return whether a value is a text that matches."""
        if not isinstance(text, str) or not text.startswith(self.pieces[0]):
            return False
        if len(self.pieces) == 1:
            return text == self.pieces[0]
        at = len(self.pieces[0])
        for piece in self.pieces[1:-1]:
            found = text.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return len(text) - at >= len(self.pieces[-1]) and text.endswith(self.pieces[-1])

    def __str__(self) -> str:
        return "…".join(self.pieces)


ANY_TEXT: Final = TextPattern(("", ""))
"""Placeholder in an expected body for any text."""


class ExpectedRejection(NamedTuple):
    """The request is rejected with this status and a body like this one; `exact`: the body has no other members.

    rule: the rule that rejects. An engine never receives the request.
    """

    rule: str
    status: int
    body: Any
    exact: bool


class ExpectedAcceptance(NamedTuple):
    """The request is valid and an engine responds.

    engine: the request that the engine receives, as engines read it.
    untouched: whether the engine receives the client's bytes unchanged.
    model: the model name in the response; None: the engine's own.
    streamed: whether the response is a stream of events.
    usage: where a stream reports its usage: `end_frame`, `tail_frame`, `both`, `nowhere`; None: not fixed.
    changed: the members of the request that the router changes.
    once: the members that were sent more than once and must reach the engine only once.
    doubt: why an engine may reject the request by itself; such a rejection does not violate the contract.
    """

    engine: Fields
    untouched: bool
    model: str | None = None
    streamed: bool = False
    usage: str | None = None
    changed: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    doubt: str | None = None


class ExpectedEngineError(NamedTuple):
    """The engine rejects with a 400, and the client receives this status and a body like this one.

    if_rejected: the engine was not instructed to reject, so any other response is inconclusive.
    """

    status: int
    body: Any
    exact: bool
    if_rejected: bool = False


class Check(NamedTuple):
    """One statement of a contract that a response can confirm.

    id: stable over runs. rule: the rule under test. case: the case of the contract (None: outside all cases).
    model: the requested name. description: what is tested. wants_engine: whether only the engine's request can show it.
    """

    id: str
    rule: str
    case: str | None
    model: str
    description: str
    request: ChatRequest
    expected: ExpectedRejection | ExpectedAcceptance | ExpectedEngineError
    wants_engine: bool = False


class SkippedCheck(NamedTuple):
    """A test that is skipped, and the reason."""

    rule: str
    case: str | None
    description: str
    reason: str


class CheckSuite(NamedTuple):
    """The checks of a contract in the order of execution, and the skipped ones."""

    checks: tuple[Check, ...]
    skipped: tuple[SkippedCheck, ...]

    def only(self, rules: Iterable[str]) -> Self:
        """Return the checks of some rules."""
        wanted = frozenset(rules)
        kept = (check for check in self.checks if check.rule in wanted)
        return self._replace(checks=tuple(kept), skipped=tuple(each for each in self.skipped if each.rule in wanted))
