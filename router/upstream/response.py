"""A streaming response of an engine: first the headers, then the body in chunks."""

import select
import time
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

import httptools

from router.request.outcome import Outcome
from router.runtime.event_loop import poll_fds_until
from router.upstream.chunks import content_of
from router.upstream.connection import ReceiveError, UpstreamConnection
from router.upstream.errors import EngineError
from router.upstream.parser_callbacks import MAX_HEADER_BYTES, ParserCallbacks
from router.upstream.poller import Poller
from router.upstream.quarantine import AFTER_RESPONSE, BEFORE_REQUEST, FOREIGN_ID

EVENT_STREAM: Final = "text/event-stream"
MAX_NON_BODY_BYTES: Final = 4 * MAX_HEADER_BYTES
"""Most bytes between parts of the body: headers, interim responses, lines of chunks, trailers."""
_SUCCESS: Final = 2
"""The class of a 2xx."""


class Timeouts(NamedTuple):
    """Timeouts in seconds: to connect, to the first byte, between bytes, and in all."""

    connect: float
    first_byte: float
    idle: float
    total: float


class UpstreamResponse:
    """Status, headers and streaming body of an engine's response.

    `close` has to be called in every case; after a complete response the connection is back in its pool by then.
    `on_outcome` is called once with the outcome: by this object after a failure, else by the reader after the whole
    body. `on_close` is called once, when the response uses its connection no more. `on_unsolicited` is called with how
    unsolicited bytes arrived (see `quarantine`). `is_foreign` returns whether a body's first bytes belong to another
    request.
    """

    on_outcome: Callable[[Outcome], None] | None = None
    on_close: Callable[[], None] | None = None
    on_unsolicited: Callable[[str], None] | None = None
    is_foreign: Callable[[bytes], bool] | None = None
    status = 0
    chunked = False
    is_framed = False
    """Whether the response is framed; otherwise it ends with the connection."""
    _has_started = False
    _is_early = False
    _non_body_bytes = 0
    _parse_error: httptools.HttpParserError | None = None
    _has_body_started = False
    _is_before_chunk = False
    """Whether the next byte that arrives begins a chunk."""
    passed_bytes = 0
    """Bytes of content that `pass_chunks` sent."""
    _by_name: dict[str, str] | None = None

    def __init__(
        self,
        connection: UpstreamConnection,
        poller: Poller,
        timeouts: Timeouts,
        release: Callable[[UpstreamConnection], None],
        *,
        is_request_sent: bool,
    ) -> None:
        self._connection: UpstreamConnection | None = connection
        self._poller = poller
        self._timeouts = timeouts
        self._release = release
        self._is_request_sent = is_request_sent
        self._parsed = ParserCallbacks()
        self._last_byte_time = time.monotonic()
        self.headers: list[tuple[str, str]] = []

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
        """Replace all headers."""
        self.headers = headers
        self._by_name = None

    def read_headers(self, first: bytes | None = None, *, is_early: bool = False) -> None:
        """Read up to the body. Raises EngineError, ClientDisconnectedError.

        `first` is what was received already; `is_early` says that it came before the engine had received the request.
        """
        message = self._parsed
        if first is not None:
            self._is_early = is_early
            self._take_received(first)
        while not message.has_headers:
            self._receive_and_parse(None)
        self.status = message.status
        self.headers = message.headers
        if self._is_early and self.status // 100 == _SUCCESS and not message.interim_responses:
            self._fail_as_unsolicited(BEFORE_REQUEST)
        coding = self.header("Transfer-Encoding").strip().lower()
        if coding not in ("", "chunked"):
            self._fail(EngineError(Outcome.BROKEN))
        self.chunked = bool(coding)
        self.is_framed = self.chunked or message.is_complete or bool(self.header("Content-Length"))

    def read_chunk(self, write_interval: float | None = None) -> bytes | None:
        """Return more of the body, b"" at its end; None when the client should be written to, latest after `patience`.

        Raises EngineError, ClientDisconnectedError.
        """
        message = self._parsed
        while not message.chunks:
            if message.is_complete:
                self._finish()
                return b""
            if not self._receive_and_parse(write_interval):
                return None
        chunks, message.chunks = message.chunks, []
        chunk = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if not self._has_body_started:
            self._has_body_started = True
            if self.is_foreign is not None and self.is_foreign(chunk):
                self._fail_as_unsolicited(FOREIGN_ID)
        return chunk

    def pass_chunks(
        self, accepts: Callable[[bytes], bool], send: Callable[[bytes], object], write_interval: float | None = None
    ) -> bytes | None:
        """Send chunks that arrive whole, as they are, as long as `accepts` takes their content.

        Then return as `read_chunk` does. `passed_bytes` counts the content that was sent. Raises EngineError,
        ClientDisconnectedError, and what `send` raises.
        """
        connection = self._connection
        if connection is None or not (self._is_before_chunk and connection.is_plain()) or self._parsed.chunks:
            return self.read_chunk(write_interval)
        # Local names: with a thousand streams each object that is touched is a miss of the cache.
        fd, receive, deadline = connection.fd, connection.receive_available, self._poller.deadline
        masks = self._poller.masks_of(fd, select.POLLIN)
        idle = self._timeouts.idle
        patience = idle if write_interval is None else min(idle, write_interval)
        passed, last_byte_time, now = 0, self._last_byte_time, time.monotonic()
        end = min(last_byte_time + idle, now + patience)
        try:
            while now < deadline:
                ready = poll_fds_until(masks, end if end < deadline else deadline)  # noqa: FURB136 - on the hot path
                if not ready:
                    if write_interval is not None and write_interval < min(last_byte_time + idle, deadline) - now:
                        return None
                    break
                data = receive() if ready[0][0] == fd else None
                if data is None:
                    # An event of the client: the general code waits again and gets it.
                    break
                last_byte_time = now = time.monotonic()
                end = now + patience
                content = content_of(data)
                if content is None:
                    self._take_received(data)
                    break
                if not accepts(content):
                    return content
                send(data)
                passed += len(content)
        except ReceiveError as error:
            self._fail(self._connection_error(), error)
        finally:
            self.passed_bytes += passed
            self._last_byte_time = last_byte_time
            self._non_body_bytes = 0 if passed else self._non_body_bytes
        return self.read_chunk(write_interval)

    def read(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` of the body, fewer only at its end. Raises EngineError, ClientDisconnectedError."""
        body = self._take(max_bytes)
        if len(body) > max_bytes:
            self._parsed.chunks.insert(0, body[max_bytes:])
        return body[:max_bytes]

    def peek(self, min_bytes: int) -> bytes:
        """Return at least `min_bytes` of the body, fewer only at its end, and leave it unread.

        Raises EngineError, ClientDisconnectedError.
        """
        body = self._take(min_bytes)
        if body:
            self._parsed.chunks.insert(0, body)
        return body

    def _take(self, min_bytes: int) -> bytes:
        chunks = []
        length = 0
        while length < min_bytes and (chunk := self.read_chunk()) != b"":
            chunks.append(chunk or b"")
            length += len(chunks[-1])
        return b"".join(chunks)

    def close(self) -> None:
        """Close the connection, unless the response was read to its end."""
        connection = self._detach()
        if connection is not None:
            connection.close()

    def _detach(self) -> UpstreamConnection | None:
        """Detach and return the connection; None if that was done before."""
        connection, self._connection = self._connection, None
        self._parsed.parser = None
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()
        return connection

    def _receive_and_parse(self, write_interval: float | None) -> bool:
        """Read once and parse; False to write to the client first. Raises EngineError, ClientDisconnectedError."""
        data = self._receive(write_interval)
        if data is None:
            return False
        self._take_received(data)
        return True

    def _receive(self, write_interval: float | None) -> bytes | None:
        """Read once, b"" at the end; None to write to the client first. Raises EngineError, ClientDisconnectedError."""
        if self._parse_error is not None:
            self._fail(EngineError(Outcome.BROKEN), self._parse_error)
        now = time.monotonic()
        limit = self._timeouts.idle if self._has_body_started else self._timeouts.first_byte
        seconds = min(self._last_byte_time + limit, self._poller.deadline) - now
        is_patient = write_interval is None or seconds <= write_interval
        if now >= self._poller.deadline:  # poll reports no timeout while there is more to read
            self._fail(EngineError(Outcome.TIMED_OUT))
        connection = self._connection or self._require_connection()
        try:
            data = connection.receive(self._poller, seconds if is_patient else write_interval or 0.0)
        except TimeoutError as error:
            if not is_patient:
                return None
            self._fail(EngineError(Outcome.TIMED_OUT), error)
        except OSError as error:
            self._fail(self._connection_error(), error)
        if data is None:
            return None
        self._last_byte_time = time.monotonic()
        if not self._has_started and connection.is_reused:
            self._is_early = not self._is_request_sent or connection.has_unacknowledged()
        return data

    def _take_received(self, data: bytes) -> None:
        """Parse what was received; b"" is the end of the connection. Raises EngineError."""
        if not data:
            self._on_eof()
            return
        self._parse(data)
        message = self._parsed
        self._is_before_chunk = (
            self.chunked
            # The line with the size of a chunk may have begun.
            and data.endswith(b"\n")
            and not (message.is_in_chunk or message.is_complete or self._parse_error)
        )

    def _parse(self, data: bytes) -> None:
        message = self._parsed
        self._has_started = True
        try:
            message.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            message.is_complete = message.has_surplus = True
        except httptools.HttpParserError as error:
            message.has_surplus = True
            message.has_surplus_bytes = message.is_complete
            if message.is_complete:
                return
            # What was complete before goes to the client first.
            self._parse_error = error
        self._non_body_bytes = 0 if message.chunks or message.is_complete else self._non_body_bytes + len(data)
        if self._non_body_bytes > MAX_NON_BODY_BYTES:
            self._fail(EngineError(Outcome.BROKEN))

    def _on_eof(self) -> None:
        message = self._parsed
        if not message.has_headers or self.is_framed:
            self._fail(self._connection_error())
        message.is_complete = message.has_surplus = True

    def _connection_error(self) -> EngineError:
        """Return the error of a connection that ended or was reset, before or within the response."""
        if self._has_started:
            return EngineError(Outcome.BROKEN)
        is_stale = self._require_connection().was_stale()
        return EngineError(
            Outcome.BROKEN, "upstream_unreachable", may_have_run=not is_stale, is_stale_connection=is_stale
        )

    def _fail(self, failure: EngineError, cause: BaseException | None = None) -> NoReturn:
        self.close()
        self.report(failure.outcome)
        try:
            raise failure from cause
        finally:
            # The error holds this frame, which must not hold the error.
            del failure, cause

    def _fail_as_unsolicited(self, how: str) -> NoReturn:
        self._report_unsolicited(how)
        self._fail(EngineError(Outcome.BROKEN))

    def _report_unsolicited(self, how: str) -> None:
        if self.on_unsolicited is not None:
            self.on_unsolicited(how)

    def _finish(self) -> None:
        """Return the connection to the pool if it can be reused."""
        connection = self._detach()
        if connection is None:
            return
        if self._parsed.has_surplus_bytes:
            self._report_unsolicited(AFTER_RESPONSE)
        if self._is_reusable():
            self._release(connection)
        else:
            connection.close()

    def _is_reusable(self) -> bool:
        if not self._is_request_sent or self._parsed.has_surplus or not self._parsed.keep_alive:
            return False
        # llama.cpp sends `Keep-Alive` with each stream and closes the connection after it.
        return not self.header("Content-Type").lower().startswith(EVENT_STREAM)

    def report(self, outcome: Outcome) -> None:
        """Call `on_outcome` with the outcome, once."""
        on_outcome, self.on_outcome = self.on_outcome, None
        if on_outcome is not None:
            on_outcome(outcome)

    def _require_connection(self) -> UpstreamConnection:
        if self._connection is None:
            raise EngineError(Outcome.BROKEN)
        return self._connection
