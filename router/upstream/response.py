"""An engine's answer as it comes off a connection: head first, then the body piece by piece."""

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple, NoReturn

import httptools

from router.request.outcome import Outcome
from router.upstream.connection import Connection
from router.upstream.errors import EngineError
from router.upstream.poller import Watch
from router.upstream.quarantine import BEHIND, EARLY, FOREIGN

EVENT_STREAM: Final = "text/event-stream"
MAX_HEAD_BYTES: Final = 64 * 1024
MAX_BODILESS_BYTES: Final = 4 * MAX_HEAD_BYTES
"""How much may come without any of the body: a head and interim answers before it, the lines of chunks, trailers."""
MAX_HEADERS: Final = 100
_SUCCESS: Final = 2
"""The class of a 2xx."""
MAX_INTERIM_ANSWERS: Final = 32
"""How many interim answers (1xx, RFC 9110, section 15.2) an engine may send before its answer."""


class Times(NamedTuple):
    """How long an engine may take, in seconds: to be connected to, to its first byte, between bytes, and in all."""

    connect: float
    first_byte: float
    idle: float
    total: float


class _MalformedError(Exception):
    """The answer breaks HTTP, or a bound of ours."""


class _Message:
    """What the parser calls back: collects a head, passes interim answers over, keeps the body until it is fetched."""

    __slots__ = (
        "_head_bytes",
        "headers",
        "interim",
        "is_complete",
        "is_followed",
        "is_headed",
        "is_overrun",
        "may_be_followed",
        "parser",
        "pieces",
        "status",
    )

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []
        self.pieces: list[bytes] = []
        self.status = 0
        self.is_headed = False
        self.is_complete = False
        self.is_followed = False
        """Has more come than one answer? Then nobody knows what the connection carries."""
        self.is_overrun = False
        """Is that by bytes of the engine's, and not by an end or another protocol?"""
        self.may_be_followed = False
        """May the connection carry another answer after this one, by its own word?"""
        self._head_bytes = 0
        self.interim = 0
        self.parser: Any = httptools.HttpResponseParser(self)
        """Holds this message too: whoever needs neither any more has to let go of it."""
        # A length beside chunks is overridden by them (RFC 9112, section 6.3).
        self.parser.set_dangerous_leniencies(lenient_chunked_length=True, lenient_headers=True)

    def on_message_begin(self) -> None:
        self.is_followed = self.is_overrun = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_headed:  # a trailer
            return
        self._head_bytes += len(name) + len(value)
        if len(self.headers) >= MAX_HEADERS or self._head_bytes > MAX_HEAD_BYTES:
            raise _MalformedError("too many headers")
        # Of white space before the colon, a header is rid before it is passed on (RFC 9112, section 5.1).
        self.headers.append((name.rstrip(b" \t").decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        status = self.status = self.parser.get_status_code()
        if status < HTTPStatus.CONTINUE:
            raise _MalformedError("no status")
        if status < HTTPStatus.OK and status != HTTPStatus.SWITCHING_PROTOCOLS:
            self.interim += 1
            if self.interim > MAX_INTERIM_ANSWERS:
                raise _MalformedError("too many interim answers")
            return
        self.is_headed = True

    def on_body(self, body: bytes) -> None:
        if self.is_headed and not self.is_complete:
            self.pieces.append(body)

    def on_message_complete(self) -> None:
        if self.is_headed:
            self.is_complete = True
            self.may_be_followed = self.parser.should_keep_alive()
        else:
            self.headers = []


class Answer:
    """Status and headers of an engine's answer, and its body as it comes.

    However it ends, `close` has to be called; a connection whose answer came whole goes back to its pool by itself.
    `on_end` learns once how the body ended, as far as that says of the engine: by the answer itself when it failed, by
    whoever read it when that was all there has to be. `on_close` is called once, when the engine has no more to do with
    the answer. `on_unsolicited` is called where the engine sent what the request did not ask for, with how that came
    (see `distrust`); `is_foreign` tells by the first bytes of a body whether it is another request's.
    """

    __slots__ = (
        "_by_name",
        "_connection",
        "_give_back",
        "_has_begun",
        "_has_body",
        "_in_vain",
        "_is_early",
        "_is_sent_whole",
        "_last_byte",
        "_malformation",
        "_message",
        "_times",
        "_watch",
        "chunked",
        "headers",
        "is_foreign",
        "is_framed",
        "on_close",
        "on_end",
        "on_unsolicited",
        "status",
    )

    def __init__(
        self,
        connection: Connection,
        watch: Watch,
        times: Times,
        give_back: Callable[[Connection], None],
        *,
        is_sent_whole: bool,
    ) -> None:
        self._connection: Connection | None = connection
        self._watch = watch
        self._times = times
        self._give_back = give_back
        self._is_sent_whole = is_sent_whole
        self._message = _Message()
        self._has_begun = False
        self._is_early = False
        self._in_vain = 0
        self._malformation: httptools.HttpParserError | None = None
        self._has_body = False
        self._last_byte = time.monotonic()
        self.on_end: Callable[[Outcome], None] | None = None
        self.on_close: Callable[[], None] | None = None
        self.on_unsolicited: Callable[[str], None] | None = None
        self.is_foreign: Callable[[bytes], bool] | None = None
        self.status = 0
        self._by_name: dict[str, str] | None = None
        self.headers: list[tuple[str, str]] = []
        self.chunked = False
        self.is_framed = False
        """Does the answer say where it ends? Else the end of the connection has to stand for it."""

    def header(self, name: str) -> str:
        """Return the value of a header, several joined by commas; "" when there is none."""
        if self._by_name is None:
            by_name: dict[str, str] = {}
            for key, value in self.headers:
                lower = key.lower()
                by_name[lower] = f"{by_name[lower]}, {value}" if lower in by_name else value
            self._by_name = by_name
        return self._by_name.get(name.lower(), "")

    def replace_headers(self, headers: list[tuple[str, str]]) -> None:
        """Let these be the headers."""
        self.headers = headers
        self._by_name = None

    def read_head(self) -> None:
        """Read up to the body. Raises EngineError, ClientGoneError."""
        message = self._message
        while not message.is_headed:
            self._receive(None)
        self.status = message.status
        self.headers = message.headers
        if self._is_early and self.status // 100 == _SUCCESS and not message.interim:
            self._fail_as_unsolicited(EARLY)
        coding = self.header("Transfer-Encoding").strip().lower()
        if coding not in ("", "chunked"):
            self._fail(EngineError(Outcome.BROKEN))
        self.chunked = bool(coding)
        self.is_framed = self.chunked or message.is_complete or bool(self.header("Content-Length"))

    def read_piece(self, patience: float | None = None) -> bytes | None:
        """Return more of the body, b"" at its end; None when the client should be written to, latest after `patience`.

        Raises EngineError, ClientGoneError.
        """
        message = self._message
        while not message.pieces:
            if message.is_complete:
                self._finish()
                return b""
            if not self._receive(patience):
                return None
        pieces, message.pieces = message.pieces, []
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if not self._has_body:
            self._has_body = True
            if self.is_foreign is not None and self.is_foreign(piece):
                self._fail_as_unsolicited(FOREIGN)
        return piece

    def read(self, most_bytes: int) -> bytes:
        """Return the whole body, or the beginning of one that is longer. Raises EngineError, ClientGoneError."""
        body = b""
        while len(body) < most_bytes and (piece := self.read_piece()) != b"":
            body += piece or b""
        return body[:most_bytes]

    def peek(self, most_bytes: int) -> bytes:
        """Return the body, or the beginning of one that is longer, and leave it to be read.

        Raises EngineError, ClientGoneError.
        """
        pieces = []
        length = 0
        while length < most_bytes and (piece := self.read_piece()) != b"":
            pieces.append(piece or b"")
            length += len(pieces[-1])
        self._message.pieces[:0] = [piece for piece in pieces if piece]
        return b"".join(pieces)

    def close(self) -> None:
        """Let go of the connection; one that may still carry something is closed, not kept."""
        connection = self._let_go()
        if connection is not None:
            connection.close()

    def _let_go(self) -> Connection | None:
        """Return the connection, of which this answer knows no more, unless that was done before."""
        connection, self._connection = self._connection, None
        self._message.parser = None
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()
        return connection

    def _receive(self, patience: float | None) -> bool:
        """Read once and parse; False when the client should be written to. Raises EngineError, ClientGoneError."""
        if self._malformation is not None:
            self._fail(EngineError(Outcome.BROKEN), self._malformation)
        now = time.monotonic()
        limit = self._times.idle if self._has_body else self._times.first_byte
        seconds = min(self._last_byte + limit, self._watch.deadline) - now
        is_patient = patience is None or seconds <= patience
        if now >= self._watch.deadline:  # poll would not tell while more is there
            self._fail(EngineError(Outcome.TIMED_OUT))
        connection = self._open_connection()
        try:
            data = connection.receive(self._watch, seconds if is_patient else patience or 0.0)
        except TimeoutError as error:
            if not is_patient:
                return False
            self._fail(EngineError(Outcome.TIMED_OUT), error)
        except OSError as error:
            self._fail(self._broken(), error)
        if data is None:
            return False
        self._last_byte = time.monotonic()
        if not self._has_begun and connection.is_reused:
            self._is_early = not self._is_sent_whole or connection.has_unacknowledged()
        if data:
            self._parse(data)
        else:
            self._end()
        return True

    def _parse(self, data: bytes) -> None:
        message = self._message
        self._has_begun = True
        try:
            message.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            message.is_complete = message.is_followed = True
        except httptools.HttpParserError as error:
            message.is_followed = True
            message.is_overrun = message.is_complete
            if message.is_complete:
                return
            # What came whole before goes to the client first.
            self._malformation = error
        self._in_vain = 0 if message.pieces or message.is_complete else self._in_vain + len(data)
        if self._in_vain > MAX_BODILESS_BYTES:
            self._fail(EngineError(Outcome.BROKEN))

    def _end(self) -> None:
        message = self._message
        if not message.is_headed or self.is_framed:
            self._fail(self._broken())
        message.is_complete = message.is_followed = True

    def _broken(self) -> EngineError:
        """Return the error of a connection that ended or was reset, before the answer or within it."""
        if self._has_begun:
            return EngineError(Outcome.BROKEN)
        is_unread = self._open_connection().was_unread()
        return EngineError(Outcome.BROKEN, "upstream_unreachable", may_have_run=not is_unread, is_unread=is_unread)

    def _fail(self, failure: EngineError, cause: BaseException | None = None) -> NoReturn:
        self.close()
        self.tell(failure.outcome)
        try:
            raise failure from cause
        finally:
            # The error holds this frame, which must not hold the error.
            del failure, cause

    def _fail_as_unsolicited(self, how: str) -> NoReturn:
        self._note_unsolicited(how)
        self._fail(EngineError(Outcome.BROKEN))

    def _note_unsolicited(self, how: str) -> None:
        if self.on_unsolicited is not None:
            self.on_unsolicited(how)

    def _finish(self) -> None:
        """Give the connection back if it is certain that nothing more comes over it."""
        connection = self._let_go()
        if connection is None:
            return
        if self._message.is_overrun:
            self._note_unsolicited(BEHIND)
        if self._may_be_kept():
            self._give_back(connection)
        else:
            connection.close()

    def _may_be_kept(self) -> bool:
        if not self._is_sent_whole or self._message.is_followed or not self._message.may_be_followed:
            return False
        # llama.cpp promises `Keep-Alive` with each stream and closes behind it: the next request would meet that.
        return not self.header("Content-Type").lower().startswith(EVENT_STREAM)

    def tell(self, outcome: Outcome) -> None:
        """Tell `on_end` what the body showed, unless it was told before."""
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(outcome)

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise EngineError(Outcome.BROKEN)
        return self._connection
