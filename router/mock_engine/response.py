"""What the mock engine can say: answers as values, down to the bytes on the wire and the way the connection ends."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from threading import Event
from typing import Final, Literal, Self

Headers = Iterable[tuple[str, str]]
"""Header fields in wire order, names spelled as they are sent."""

Piece = bytes | Event
"""A part of an answer: bytes to send at once, or a pause until the event is set."""

Ending = Literal["keep", "close", "reset"]
"""What becomes of the connection: kept for the next request, closed (FIN) or reset (RST)."""

JSON: Final = (("Content-Type", "application/json"),)
EVENT_STREAM: Final = (("Content-Type", "text/event-stream; charset=utf-8"),)
LAST_CHUNK: Final = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class MockResponse:
    """One HTTP response.

    headers: sent as written; one named Content-Length or Transfer-Encoding replaces what the framing would send, true
        or not.
    body: bytes, sent in one write with the head; or pieces, each sent alone (under `chunked` as one chunk each).
        A generator serves once, and not under `length`, which has to know the sum before it sends.
    framing: how the end of the body is marked: `length`, `chunked`, `close` (by EOF, announced with Connection: close),
        or `none` (not marked, as for 204 and 304).
    last_chunk: whether a chunked body ends with its terminal chunk.
    cut_after: bytes of the framed body (those after the head) that are sent before the connection ends.
    then: how the connection ends; `close` is not announced unless the headers do. A cut answer is never kept.
    hold: nothing at all is sent until this event is set.
    before_body: answers on the request's head alone, leaves its body unread and ends the connection; only for answers
        queued with `answer_next`.
    """

    status: int = 200
    headers: Headers = ()
    body: bytes | Iterable[Piece] = b""
    framing: Literal["length", "chunked", "close", "none"] = "length"
    last_chunk: bool = True
    cut_after: int | None = None
    then: Ending = "keep"
    hold: Event | None = None
    before_body: bool = False

    @classmethod
    def json(cls, value: object, status: int = 200, headers: Headers = ()) -> Self:
        """Return an answer that carries a value as JSON."""
        # Half a surrogate pair has no UTF-8, but what backslashreplace makes of it is its JSON escape.
        body = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
        return cls(status, (*JSON, *headers), body)

    @classmethod
    def sse(cls, *pieces: Piece, headers: Headers = ()) -> Self:
        """Return a chunked event stream, one chunk per piece, each sent as it stands (write the blank lines)."""
        return cls(headers=(*EVENT_STREAM, *headers), body=pieces, framing="chunked")

    @property
    def ending(self) -> Ending:
        """What happens to the connection after this response."""
        if self.then == "keep" and (self.framing == "close" or self.cut_after is not None or self.before_body):
            return "close"
        return self.then

    def wire(self, *, headers_only: bool = False) -> Iterator[Piece]:
        """Yield what goes over the wire, pauses included; `head_only` answers a HEAD request."""
        if self.hold is not None:
            yield self.hold
        head = self._head()
        if headers_only:
            yield head
            return
        framed = _cut(self._framed(), self.cut_after)
        if isinstance(self.body, bytes):
            yield head + b"".join(piece for piece in framed if isinstance(piece, bytes))
            return
        yield head
        yield from framed

    def _head(self) -> bytes:
        fields = list(self.headers)
        if not {name.lower() for name, _ in fields} & {"content-length", "transfer-encoding"}:
            fields += self._framing_fields()
        lines = [f"HTTP/1.1 {self.status} {_reason(self.status)}", *(f"{name}: {value}" for name, value in fields)]
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1")

    def _framing_fields(self) -> list[tuple[str, str]]:
        match self.framing:
            case "length":
                return [
                    ("Content-Length", str(sum(len(piece) for piece in self._pieces() if isinstance(piece, bytes))))
                ]
            case "chunked":
                return [("Transfer-Encoding", "chunked")]
            case "close":
                return [("Connection", "close")]
            case "none":
                return []

    def _pieces(self) -> Iterable[Piece]:
        return (self.body,) if isinstance(self.body, bytes) else self.body

    def _framed(self) -> Iterator[Piece]:
        if self.framing != "chunked":
            yield from self._pieces()
            return
        for piece in self._pieces():
            if isinstance(piece, Event):
                yield piece
            elif piece:  # an empty chunk would be the last one
                yield b"%x\r\n%b\r\n" % (len(piece), piece)
        if self.last_chunk:
            yield LAST_CHUNK


@dataclass(frozen=True, slots=True)
class RawResponse:
    """An answer given as its whole wire bytes, status line included (or nothing at all), and the connection's end."""

    data: bytes | Iterable[Piece] = b""
    then: Ending = "close"

    @property
    def ending(self) -> Ending:
        """What happens to the connection after this response."""
        return self.then

    def wire(self, *, headers_only: bool = False) -> Iterator[Piece]:  # noqa: ARG002  # raw bytes have no head to cut at
        """Yield the bytes and pauses as they were given."""
        yield from (self.data,) if isinstance(self.data, bytes) else self.data


ScriptedResponse = MockResponse | RawResponse
"""Any response that can be scripted."""


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # a status of a test's own making
        return "Scripted"


def _cut(pieces: Iterator[Piece], limit: int | None) -> Iterator[Piece]:
    if limit is None:
        yield from pieces
        return
    left = limit
    for piece in pieces:
        if isinstance(piece, Event):
            yield piece
            continue
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return
