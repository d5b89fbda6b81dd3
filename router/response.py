"""An engine's answer brought to the client: buffered so that a cut one is an error, or streamed as it comes."""

import errno
import logging
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from http import HTTPStatus
from itertools import chain
from typing import Final, NamedTuple

from router.content_encoding import IDENTITY_CODINGS, DecodingError, TruncatedError, decode
from router.contract.errors import ApiError
from router.contract.jsonbytes.scanning import Balance
from router.contract.responses.rewrite import is_json
from router.contract.responses.rewrite_plan import AnswerEdits
from router.contract.responses.stream_progress import StreamProgress
from router.contract.responses.upstream_errors import retold
from router.request.context import RequestContext
from router.request.headers import ATTEMPTS, BODY_HEADERS, for_client
from router.request.outcome import Outcome
from router.runtime import cpu_executor
from router.server.disconnect import ClientDisconnectedError, DownstreamClient
from router.upstream.errors import EngineError
from router.upstream.response import EVENT_STREAM, UpstreamResponse

MAX_BUFFERED_BYTES: Final = 8 * 1024 * 1024
"""Longest answer in bytes that is held back until it is whole; a longer one that is cut aborts the connection."""

JSON: Final = "application/json"
_COMMENT: Final = b":\n"
"""An SSE comment: a line that clients skip. Behind an empty line some take it for an event."""
_MAX_EMPTY_BYTES: Final = 64
"""In how many bytes a coding may say nothing, its header and checksum counted; gzip takes 20."""
_LOG = logging.getLogger("router")


def _nothing() -> None:
    return


class ProxyResponse(NamedTuple):
    """An answer for the client: whole, or in pieces, of which `close` has to be called at the end."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes | Iterator[bytes]
    close: Callable[[], None] = _nothing


class ResponseAbortedError(ConnectionResetError):
    """An answer cannot go on although its beginning was sent: gunicorn closes the connection without an end."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ECONNRESET, message)


class ResponseForwarding(NamedTuple):
    """An engine's answer on its way to the client, and what is done to it.

    `comment_seconds` is the silence after which a stream's client gets a comment, None for never; `also_headers` are
    headers of the engine that pass beside the usual ones, as `for_client` takes them.
    """

    answer: UpstreamResponse
    edits: AnswerEdits
    client: DownstreamClient
    context: RequestContext
    keepalive_interval_seconds: float | None = None
    extra_headers: tuple[str, ...] = ()


def forward_response(forwarding: ResponseForwarding) -> ProxyResponse:
    """Return the answer that brings an engine's answer to the client.

    Raises ApiError when the answer is no use to a client: cut off, a redirect, or too slow; ClientDisconnectedError.
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


def _check_status(answer: UpstreamResponse) -> None:
    if answer.status < HTTPStatus.OK or HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        _LOG.error("an engine answered %d, which is not passed on", answer.status)
        raise ApiError("upstream_incomplete", "The engine's answer cannot be passed on")


def _is_stream(answer: UpstreamResponse) -> bool:
    return _media_type(answer) == EVENT_STREAM and answer.status == HTTPStatus.OK


def _media_type(answer: UpstreamResponse) -> str:
    """Return the media type of an answer, which it may say more than once; "" where it says several."""
    if "," not in answer.header("Content-Type"):
        return _without_parameters(answer.header("Content-Type"))
    said = {_without_parameters(value) for name, value in answer.headers if name.lower() == "content-type"}
    return said.pop() if len(said) == 1 else ""


def _without_parameters(value: str) -> str:
    return value.partition(";")[0].strip().lower()


def _is_json_type(media_type: str) -> bool:
    # Types of JSON may say so at their end (RFC 6839, section 3.1).
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
    body = _BufferedBody(b"".join(pieces), answer)
    _check_complete(body, answer)
    answer.report(Outcome.SUCCEEDED)
    told = _map_error(body, forwarding)
    if told is not None:
        return told
    edited = _rewritten_body(body, forwarding)
    headers = for_client(answer.headers, forwarding.extra_headers)
    if edited is not body.sent:
        stale = BODY_HEADERS | ({"content-encoding"} if body.is_coded else set())
        headers = [(name, value) for name, value in headers if name.lower() not in stale]
    return ProxyResponse(answer.status, headers, edited)


class _BufferedBody:
    """The whole body of an answer, as it was sent and, once somebody asks, without its content codings."""

    def __init__(self, sent: bytes, answer: UpstreamResponse) -> None:
        self.sent = sent
        self._codings = answer.header("Content-Encoding").strip().lower()
        self.is_coded = bool(sent) and self._codings not in IDENTITY_CODINGS
        self.is_cut = False
        """Does it end before its codings do? Nobody knows until `plain` was asked for."""

    @cached_property
    def plain(self) -> bytes | None:
        """The body without its codings; None when they are unknown or broken, or unfold to too much."""
        if not self.is_coded:
            return self.sent
        try:
            return cpu_executor.run(MAX_BUFFERED_BYTES, decode, self.sent, self._codings, MAX_BUFFERED_BYTES)
        except TruncatedError:
            self.is_cut = True
        except DecodingError:
            pass
        return None


def _map_error(body: _BufferedBody, forwarding: ResponseForwarding) -> ProxyResponse | None:
    """Return an engine's 400 in the contract's own words, None where it has none or the engine's cannot be read."""
    errors = forwarding.edits.errors
    if forwarding.answer.status != HTTPStatus.BAD_REQUEST or errors.engine_400 is None or body.plain is None:
        return None
    arguments = body.plain, errors, forwarding.context.request_id, forwarding.context.model_asked
    told = cpu_executor.run(len(body.plain), retold, *arguments)
    if told is None:
        return None
    stale = BODY_HEADERS | {"content-encoding", "content-type"}
    passing = for_client(forwarding.answer.headers, forwarding.extra_headers)
    headers = [(name, value) for name, value in passing if name.lower() not in stale]
    return ProxyResponse(told.status, [*headers, ("Content-Type", JSON)], told.body)


def _check_complete(body: _BufferedBody, answer: UpstreamResponse) -> None:
    """Raise EngineError when an answer is not whole, as far as its bytes can tell.

    A 200 without content is none; for the rest, an answer that says where it ends is taken at its word.
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


def _is_empty(body: _BufferedBody) -> bool:
    """Tell whether there is nothing in a body but white space, encoded or not."""
    return len(body.sent) <= _MAX_EMPTY_BYTES and body.plain is not None and not body.plain.strip()


def _rewritten_body(body: _BufferedBody, forwarding: ResponseForwarding) -> bytes:
    """Return the body for the client, the same object where nothing is to be edited or nobody can decode it."""
    edit = forwarding.edits.edit_of(forwarding.answer.status)
    plain = body.plain if edit is not None else None
    if edit is None or plain is None:
        return body.sent
    edited = cpu_executor.run(len(plain), edit, plain)
    return body.sent if edited is plain else edited


def _stream_oversized(forwarding: ResponseForwarding, pieces: list[bytes]) -> ProxyResponse:
    answer = forwarding.answer
    balance = Balance() if _is_framed_by_json_alone(answer) else None

    def all_chunks() -> Iterator[bytes]:
        while pieces:
            yield pieces.pop(0)
        yield from _chunks(answer)

    def stream_body() -> Iterator[bytes]:
        try:
            for piece in all_chunks():
                if balance is not None:
                    balance.feed(piece)
                yield piece
            _check_balanced(balance)
            answer.report(Outcome.SUCCEEDED)
        except EngineError as error:
            answer.report(error.outcome)
            forwarding.context.code = error.code
            _LOG.warning("a long answer broke off: %s", error.code)
            raise ResponseAbortedError(error.message) from error
        except ClientDisconnectedError as error:
            forwarding.context.client_gone = True
            raise ResponseAbortedError("the client left") from error

    headers = for_client(answer.headers, forwarding.extra_headers)
    length = answer.header("Content-Length")
    if length and not answer.chunked:
        headers.append(("Content-Length", length))
    return ProxyResponse(answer.status, headers, stream_body(), answer.close)


def _check_balanced(balance: Balance | None) -> None:
    if balance is not None and not balance.is_kept():
        raise EngineError(Outcome.BROKEN)


def _is_framed_by_json_alone(answer: UpstreamResponse) -> bool:
    """Tell whether nothing but its JSON tells that an answer is whole: it ends with its connection."""
    is_plain = answer.header("Content-Encoding").strip().lower() in IDENTITY_CODINGS
    return not answer.is_framed and _is_json_type(_media_type(answer)) and is_plain


def _stream(forwarding: ResponseForwarding) -> ProxyResponse:
    answer = forwarding.answer
    events = _events(forwarding)
    # What fails before anything has left still gets its own status.
    first = next(events)
    forwarding.context.buffered_at = time.monotonic()
    headers = for_client(answer.headers, forwarding.extra_headers)
    headers.append(("X-Accel-Buffering", "no"))
    if not answer.header("Cache-Control"):
        headers.append(("Cache-Control", "no-cache"))
    return ProxyResponse(answer.status, headers, chain((first,), events), answer.close)


def _events(forwarding: ResponseForwarding) -> Iterator[bytes]:
    """Yield what leaves of a stream. Raises EngineError and ClientDisconnectedError only before anything has left."""
    stream = _Stream(forwarding)
    try:
        while (piece := forwarding.answer.read_chunk(forwarding.keepalive_interval_seconds)) != b"":
            if leaving := stream.take(piece):
                yield leaving
        yield stream.end()
    except EngineError as error:
        yield stream.fail(error)
    except ClientDisconnectedError as error:
        if not stream.has_left:
            raise
        forwarding.context.client_gone = True
        raise ResponseAbortedError("the client left") from error


class _Stream:
    """One stream on its way: what of it leaves, and how it ended."""

    def __init__(self, forwarding: ResponseForwarding) -> None:
        self._forwarding = forwarding
        self._is_encoded = forwarding.answer.header("Content-Encoding").strip().lower() not in IDENTITY_CODINGS
        self._lines = forwarding.edits.of_stream(forwarding.context.protocol)
        self._progress = StreamProgress(forwarding.context.protocol)
        self._is_at_line_start = True
        self._left: tuple[bytes, bytes] | None = None
        self.has_left = False
        """Has any byte of it left for the client?"""

    def take(self, piece: bytes | None) -> bytes:
        """Return what can leave once a piece came; None for a piece stands for a silence in which a comment is due."""
        if piece is None:
            leaving = _COMMENT if self._is_at_line_start and not self._is_encoded else b""
        elif self._is_encoded:
            leaving = piece
        else:
            leaving = cpu_executor.run(self._lines.held_bytes() + len(piece), self._lines.feed, piece)
        if not leaving:
            return leaving
        if not self.has_left:
            self.has_left = True
            # Until it ends otherwise.
            self._forwarding.context.stream_end = "client_gone"
        self._is_at_line_start = leaving.endswith(b"\n")
        if not self._is_encoded:
            self._progress.note(leaving)
            if self._progress.has_failed:
                # vLLM says so under a 200 when its engine process has died.
                self._forwarding.answer.report(Outcome.FAILED)
        return leaving

    def end(self) -> bytes:
        """Return what is left of a stream that the engine ended. Raises EngineError where it is not complete."""
        whole, rest = self._flush()
        is_framed = self._forwarding.answer.is_framed
        if not (is_framed and self.has_left if self._is_encoded else self._progress.is_complete(is_framed=is_framed)):
            raise EngineError(Outcome.BROKEN)
        self._forwarding.answer.report(Outcome.FAILED if self._progress.has_failed else Outcome.SUCCEEDED)
        end = "done" if self._progress.is_whole else "without_done"
        self._forwarding.context.stream_end = "encoded" if self._is_encoded else end
        return whole + rest

    def fail(self, error: EngineError) -> bytes:
        """Return what a client gets of a stream that broke off. Raises the error itself where nothing has left."""
        self._forwarding.answer.report(error.outcome)
        whole, rest = self._flush()
        context = self._forwarding.context
        if not self.has_left and not self._progress.is_whole:
            raise error
        _LOG.warning("a stream broke off: %s", error.code)
        context.code = error.code
        if self._progress.is_whole:
            # Nothing is missing any more.
            context.stream_end = "done"
            return whole + rest
        context.stream_end = "broken"
        if self._is_encoded:
            # Plain bytes behind compressed ones would be garbage.
            raise ResponseAbortedError(error.message) from error
        model = context.model_asked or context.model_served
        return whole + self._progress.failure(error, self._forwarding.edits.errors, context.request_id, model)

    def _flush(self) -> tuple[bytes, bytes]:
        """Return what was held at the end: whole events, and the rest."""
        if self._left is None:
            self._left = (b"", b"") if self._is_encoded else self._progress.note_end(self._lines.flush())
        return self._left


def _chunks(answer: UpstreamResponse) -> Iterator[bytes]:
    while (piece := answer.read_chunk()) != b"":
        if piece:
            yield piece
