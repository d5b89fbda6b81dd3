"""Response forwarding: buffered, so that a truncated response is an error, or streamed as it arrives."""

import errno
import logging
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final, NamedTuple

from router.content_encoding import IDENTITY_CODINGS
from router.contract.errors import ApiError
from router.contract.jsonbytes.scanning import JsonScanner
from router.contract.responses.rewrite import is_json
from router.contract.responses.rewrite_plan import ResponseRewrite
from router.contract.responses.stream_progress import StreamProgress
from router.contract.responses.upstream_errors import map_upstream_error
from router.request.context import RequestContext
from router.request.headers import ATTEMPTS, BODY_HEADERS, for_client, plain_for_client
from router.request.outcome import Outcome
from router.request.request import ClientConnection, Headers, ResponseWriter
from router.runtime import cpu_executor
from router.server.disconnect import ClientDisconnectedError
from router.upstream.buffered_body import MAX_BUFFERED_BYTES, BufferedBody
from router.upstream.errors import EngineError
from router.upstream.response import EVENT_STREAM, UpstreamResponse
from router.upstream.whole_response import WholeResponse

JSON: Final = "application/json"
HTTP_OK: Final = 200
_COMMENT: Final = b":\n"
"""An SSE comment, which clients ignore. No empty line follows: some clients take it for the end of an event."""
_MAX_EMPTY_BYTES: Final = 64
"""Longest encoded body in bytes that may be empty; an empty gzip body has 20."""
_LOG = logging.getLogger("router")


def _nothing() -> None:
    return


class ProxyResponse(NamedTuple):
    """A response for the client: a whole body, or a function that writes it piece by piece; then `close` is called.

    The function counts what it writes in the context. It raises ResponseAbortedError, and what writing raises.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes | Callable[[ResponseWriter], None]
    close: Callable[[], None] = _nothing


class ResponseAbortedError(ConnectionResetError):
    """A response that was started cannot be completed: gunicorn closes the connection without its end."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ECONNRESET, message)


class ResponseForwarding(NamedTuple):
    """An upstream response, and how to forward it.

    `keepalive_interval_seconds` is the silence after which a stream's client gets an SSE comment, None for never;
    `extra_headers` are further headers of the engine to forward, as `for_client` takes them.
    """

    answer: UpstreamResponse
    edits: ResponseRewrite
    client: ClientConnection
    context: RequestContext
    keepalive_interval_seconds: float | None = None
    extra_headers: tuple[str, ...] = ()


def forward_response(forwarding: ResponseForwarding) -> ProxyResponse:
    """Return the response for the client.

    Raises ApiError if the upstream response is truncated, a redirect or too slow; ClientDisconnectedError.
    """
    try:
        _check_status(forwarding.answer)
        response = _stream(forwarding) if _is_stream(forwarding.answer) else _buffer(forwarding)
    except EngineError as error:
        forwarding.answer.report(error.outcome)
        forwarding.answer.close()
        raise
    except BaseException:
        forwarding.answer.close()
        raise
    forwarding.client.response_started = True
    if forwarding.context.attempts > 1:
        response.headers.append((ATTEMPTS, str(forwarding.context.attempts)))
    return response


def forward_whole(
    whole: WholeResponse, edits: ResponseRewrite, context: RequestContext, extra_headers: tuple[str, ...] = ()
) -> ProxyResponse:
    """Return the response for the client where the engine's came whole, which is a success."""
    context.buffered_at = time.monotonic()
    headers, body = plain_for_client(whole.headers, extra_headers), whole.body
    edit = edits.body_edit(HTTP_OK)
    if edit is not None:
        buffered = BufferedBody(body, whole.by_name.get("content-encoding", ""))
        headers, body = _edited(buffered, edit, headers)
    if context.attempts > 1:
        headers.append((ATTEMPTS, str(context.attempts)))
    return ProxyResponse(HTTP_OK, headers, body)


def _check_status(answer: UpstreamResponse) -> None:
    if answer.status < HTTPStatus.OK or HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        _LOG.error("an engine returned status %d, which is not forwarded", answer.status)
        raise ApiError("upstream_incomplete", "The engine's answer cannot be passed on")


def _is_stream(answer: UpstreamResponse) -> bool:
    return _media_type(answer) == EVENT_STREAM and answer.status == HTTPStatus.OK


def _media_type(answer: UpstreamResponse) -> str:
    """Return the media type of a response, which may repeat it; "" if it has several."""
    if "," not in answer.header("Content-Type"):
        return _without_parameters(answer.header("Content-Type"))
    said = {_without_parameters(value) for name, value in answer.headers if name.lower() == "content-type"}
    return said.pop() if len(said) == 1 else ""


def _without_parameters(value: str) -> str:
    return value.partition(";")[0].strip().lower()


def _is_json_type(media_type: str) -> bool:
    # The structured suffix of media types (RFC 6839, section 3.1).
    return media_type == JSON or media_type.endswith("+json")


def _buffer(forwarding: ResponseForwarding) -> ProxyResponse:
    answer = forwarding.answer
    pieces = []
    length = 0
    for piece in _chunks(answer):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_BUFFERED_BYTES:
            forwarding.context.buffered_at = time.monotonic()
            return _stream_oversized(forwarding, pieces)
    forwarding.context.buffered_at = time.monotonic()
    body = BufferedBody(b"".join(pieces), answer.header("Content-Encoding"))
    _check_complete(body, answer)
    answer.report(Outcome.SUCCEEDED)
    told = _map_error(body, forwarding)
    if told is not None:
        return told
    headers = for_client(answer.headers, forwarding.extra_headers)
    edit = forwarding.edits.body_edit(answer.status)
    if edit is None:
        return ProxyResponse(answer.status, headers, body.sent)
    return ProxyResponse(answer.status, *_edited(body, edit, headers))


def _map_error(body: BufferedBody, forwarding: ResponseForwarding) -> ProxyResponse | None:
    """Return an engine's 400 mapped to the contract's errors; None without a mapping, or if the body cannot be read."""
    errors = forwarding.edits.errors
    if forwarding.answer.status != HTTPStatus.BAD_REQUEST or errors.engine_400 is None or body.plain is None:
        return None
    arguments = body.plain, errors, forwarding.context.request_id, forwarding.context.model_asked
    told = cpu_executor.run(len(body.plain), map_upstream_error, *arguments)
    if told is None:
        return None
    stale = BODY_HEADERS | {"content-encoding", "content-type"}
    passing = for_client(forwarding.answer.headers, forwarding.extra_headers)
    headers = [(name, value) for name, value in passing if name.lower() not in stale]
    return ProxyResponse(told.status, [*headers, ("Content-Type", JSON)], told.body)


def _check_complete(body: BufferedBody, answer: UpstreamResponse) -> None:
    """Raise EngineError if a response is truncated, as far as its bytes show.

    An empty 200 counts as truncated. A response with a Content-Length or chunks is complete if its framing is.
    """
    if answer.status == HTTPStatus.OK and _is_empty(body):
        raise EngineError(Outcome.BROKEN)
    if answer.is_framed or not body.sent:
        return
    plain = body.plain
    if body.is_cut:
        raise EngineError(Outcome.BROKEN)
    if plain is not None and _is_json_type(_media_type(answer)) and not cpu_executor.run(len(plain), is_json, plain):
        raise EngineError(Outcome.BROKEN)


def _is_empty(body: BufferedBody) -> bool:
    """Return whether a body is only white space, encoded or not."""
    return len(body.sent) <= _MAX_EMPTY_BYTES and body.plain is not None and not body.plain.strip()


def _edited(body: BufferedBody, edit: Callable[[bytes], bytes], headers: Headers) -> tuple[Headers, bytes]:
    """Return headers and body for the client; unchanged if nothing is edited or the body cannot be decoded."""
    plain = body.plain
    edited = plain if plain is None else cpu_executor.run(len(plain), edit, plain)
    if edited is None or edited is plain:
        return headers, body.sent
    stale = BODY_HEADERS | ({"content-encoding"} if body.is_coded else set())
    return [(name, value) for name, value in headers if name.lower() not in stale], edited


def _stream_oversized(forwarding: ResponseForwarding, pieces: list[bytes]) -> ProxyResponse:
    answer = forwarding.answer
    balance = JsonScanner() if _is_framed_by_json_alone(answer) else None

    def all_chunks() -> Iterator[bytes]:
        while pieces:
            yield pieces.pop(0)
        yield from _chunks(answer)

    def write_to(writer: ResponseWriter) -> None:
        try:
            for piece in all_chunks():
                if balance is not None:
                    balance.feed(piece)
                forwarding.context.bytes_out += len(piece)
                writer.write(piece)
            _check_balanced(balance)
            answer.report(Outcome.SUCCEEDED)
        except EngineError as error:
            answer.report(error.outcome)
            forwarding.context.code = error.code
            _LOG.warning("a long response broke off: %s", error.code)
            raise ResponseAbortedError(error.message) from error
        except ClientDisconnectedError as error:
            forwarding.context.client_gone = True
            raise ResponseAbortedError("the client left") from error

    headers = for_client(answer.headers, forwarding.extra_headers)
    length = answer.header("Content-Length")
    if length and not answer.chunked:
        headers.append(("Content-Length", length))
    return ProxyResponse(answer.status, headers, write_to, answer.close)


def _check_balanced(balance: JsonScanner | None) -> None:
    if balance is not None and not balance.is_kept():
        raise EngineError(Outcome.BROKEN)


def _is_framed_by_json_alone(answer: UpstreamResponse) -> bool:
    """Return whether only its JSON shows that a response is complete: it ends with its connection."""
    is_plain = answer.header("Content-Encoding").strip().lower() in IDENTITY_CODINGS
    return not answer.is_framed and _is_json_type(_media_type(answer)) and is_plain


def _stream(forwarding: ResponseForwarding) -> ProxyResponse:
    answer = forwarding.answer
    stream = _Stream(forwarding)
    # A failure before the first byte still gets its own status.
    stream.begin()
    forwarding.context.buffered_at = time.monotonic()
    headers = for_client(answer.headers, forwarding.extra_headers)
    headers.append(("X-Accel-Buffering", "no"))
    if not answer.header("Cache-Control"):
        headers.append(("Cache-Control", "no-cache"))
    return ProxyResponse(answer.status, headers, stream.write_to, answer.close)


class _Stream:
    """One stream: what the client gets of it, and how it ended."""

    def __init__(self, forwarding: ResponseForwarding) -> None:
        self._forwarding = forwarding
        self._is_encoded = forwarding.answer.header("Content-Encoding").strip().lower() not in IDENTITY_CODINGS
        self._lines = forwarding.edits.stream_rewriter(forwarding.context.protocol)
        self._progress = StreamProgress(forwarding.context.protocol)
        self._is_at_line_start = True
        self._interval = forwarding.keepalive_interval_seconds
        self._first = b""
        self._is_over = False
        self._left: tuple[bytes, bytes] | None = None
        self.has_left = False
        """Whether any byte was given to the client."""

    def begin(self) -> None:
        """Read up to the first bytes for the client. Raises EngineError, ClientDisconnectedError."""
        while not (self._first or self._is_over):
            self._first = self._next()

    def write_to(self, writer: ResponseWriter) -> None:
        """Write the stream, piece by piece. Raises ResponseAbortedError, and what writing raises."""
        context, answer = self._forwarding.context, self._forwarding.answer
        leaving = self._first
        try:
            while True:
                if leaving:
                    context.bytes_out += len(leaving)
                    writer.write(leaving)
                if self._is_over:
                    return
                leaving = self._next(self._acceptor(), writer.chunk_sender())
        except ClientDisconnectedError as error:
            context.client_gone = True
            raise ResponseAbortedError("the client left") from error
        finally:
            context.bytes_out += answer.passed_bytes

    def _acceptor(self) -> Callable[[bytes], bool] | None:
        """Return what takes content that passes on as it came, and returns whether it does.

        None where the next piece needs the general code. So does each piece that may be the last event, or an error.
        """
        passes = None if self._is_encoded else self._lines.passing()
        return None if passes is None else self._progress.acceptor(passes)

    def _next(
        self, accepts: Callable[[bytes], bool] | None = None, send: Callable[[bytes], object] | None = None
    ) -> bytes:
        """Read up to what the general code has to see; return what to send, also where the stream ends.

        Chunks that `accepts` takes are given to `send` as they came. Raises EngineError before the first byte.
        """
        answer = self._forwarding.answer
        try:
            if accepts is None or send is None:
                piece = answer.read_chunk(self._interval)
            else:
                piece = answer.pass_chunks(accepts, send, self._interval)
            if piece != b"":
                return self.take(piece)
            self._is_over = True
            return self.end()
        except ApiError as error:
            self._is_over = True
            return self.fail(error)

    def take(self, piece: bytes | None) -> bytes:
        """Return what to send after a piece arrived; None as a piece stands for a silence that needs a comment."""
        if piece is None:
            leaving = _COMMENT if self._is_at_line_start and not self._is_encoded else b""
        elif self._is_encoded or self._lines.passes(piece):
            leaving = piece
        elif (size := self._lines.held_bytes() + len(piece)) <= cpu_executor.INLINE_BYTES:
            leaving = self._lines.feed(piece)
        else:
            leaving = cpu_executor.run(size, self._lines.feed, piece)
        if not leaving:
            return leaving
        if not self.has_left:
            self.has_left = True
            # Until it ends otherwise.
            self._forwarding.context.stream_end = "client_gone"
        self._is_at_line_start = leaving.endswith(b"\n")
        if not self._is_encoded:
            self._progress.observe(leaving)
            if self._progress.has_failed:
                # vLLM sends such an error after a 200 if its engine process has died.
                self._forwarding.answer.report(Outcome.FAILED)
        return leaving

    def end(self) -> bytes:
        """Return the rest of a stream that the engine ended. Raises EngineError if it is not complete."""
        whole, rest = self._flush()
        is_framed = self._forwarding.answer.is_framed
        if not (is_framed and self.has_left if self._is_encoded else self._progress.is_complete(is_framed=is_framed)):
            raise EngineError(Outcome.BROKEN)
        self._forwarding.answer.report(Outcome.FAILED if self._progress.has_failed else Outcome.SUCCEEDED)
        end = "done" if self._progress.is_whole else "without_done"
        self._forwarding.context.stream_end = "encoded" if self._is_encoded else end
        return whole + rest

    def fail(self, error: ApiError) -> bytes:
        """Return the end of a stream that broke off. Raises the error itself if no byte was sent."""
        if isinstance(error, EngineError):
            self._forwarding.answer.report(error.outcome)
        whole, rest = self._flush()
        context = self._forwarding.context
        if not self.has_left and not self._progress.is_whole:
            raise error
        _LOG.warning("a stream broke off: %s", error.code)
        context.code = error.code
        if self._progress.is_whole:
            # Its last event was sent: nothing is missing.
            context.stream_end = "done"
            return whole + rest
        context.stream_end = "broken"
        if self._is_encoded:
            # Plain bytes after compressed ones cannot be decoded.
            raise ResponseAbortedError(error.message) from error
        model = context.model_asked or context.model_served
        return whole + self._progress.failure(error, self._forwarding.edits.errors, context.request_id, model)

    def _flush(self) -> tuple[bytes, bytes]:
        """Return what is buffered at the end: whole events, and the rest."""
        if self._left is None:
            self._left = (b"", b"") if self._is_encoded else self._progress.finish(self._lines.flush())
        return self._left


def _chunks(answer: UpstreamResponse) -> Iterator[bytes]:
    while (piece := answer.read_chunk()) != b"":
        if piece:
            yield piece
