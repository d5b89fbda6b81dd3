"""An engine's answer brought to the client: buffered so that a cut one is an error, or streamed as it comes."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from io import BytesIO
from typing import Final, NamedTuple

import flask
import urllib3

from router.contract.answers import ModelRenamer, rename_model, retype_bad_request
from router.contract.errors import ApiError, body_of
from router.engines.connection import INCOMPLETE, Answer, failures_as_api_errors
from router.headers import OF_THE_BODY, for_client

MAX_BUFFERED_BYTES: Final = 8 * 1024 * 1024
"""Longest answer in bytes that is held back until it is whole; a longer one that is cut aborts the connection."""

PIECE_BYTES: Final = 64 * 1024
EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"

_DONE = re.compile(rb"(?:^|[\r\n])data:[ ]?\[DONE\][ \t]*[\r\n]*\Z")
_DONE_TAIL_BYTES: Final = 64
_UNENCODED: Final = ("", "identity")
_LOG = logging.getLogger("router")


class AnswerEdits(NamedTuple):
    """What the contract changes in an answer: the model name of a 200, the error type of a 400 (None: nothing)."""

    model: str | None = None
    bad_request_type: str | None = None

    def due(self) -> bool:
        """Tell whether an answer may have to be edited."""
        return self.model is not None or self.bad_request_type is not None

    def edit_of(self, status: int) -> Callable[[bytes], bytes] | None:
        """Return what edits the body of an answer of that status, None when nothing does."""
        if status == HTTPStatus.OK and self.model is not None:
            return partial(rename_model, name=self.model)
        if status == HTTPStatus.BAD_REQUEST and self.bad_request_type is not None:
            return partial(retype_bad_request, new_type=self.bad_request_type)
        return None


class RelayedResponse(flask.Response):
    """A response that carries the engine's Content-Type or none."""

    default_mimetype = None


class AbortedAnswerError(Exception):
    """The engine's answer broke off after its beginning was sent: gunicorn closes the connection without an end."""


def relay(answer: Answer, edits: AnswerEdits) -> flask.Response:
    """Return the response that brings an engine's answer to the client.

    Raises ApiError when the answer is no use to a client: cut off, a redirect, or too slow.
    """
    try:
        _refuse_useless(answer)
        if _is_stream(answer):
            return _streamed(answer, edits)
        return _buffered(answer, edits)
    except BaseException:
        answer.close()
        raise


def _refuse_useless(answer: Answer) -> None:
    if answer.status < HTTPStatus.OK or HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        _LOG.error("an engine answered %d, which is not passed on", answer.status)
        raise ApiError("upstream_incomplete", "The engine's answer cannot be passed on")


def _is_stream(answer: Answer) -> bool:
    return _media_type(answer) == EVENT_STREAM and answer.status == HTTPStatus.OK


def _media_type(answer: Answer) -> str:
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _is_framed(answer: Answer) -> bool:
    """Tell whether the answer says where it ends; else the end of the connection has to stand for it."""
    return answer.chunked or "Content-Length" in answer.headers


def _buffered(answer: Answer, edits: AnswerEdits) -> flask.Response:
    pieces = []
    length = 0
    with failures_as_api_errors():
        for piece in _pieces(answer):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_BUFFERED_BYTES:
                return _too_long_to_hold(answer, pieces)
    body = b"".join(pieces)
    _refuse_cut(body, answer)
    edited, decoded = _edit(body, answer, edits)
    headers = for_client(answer.headers.items())
    if edited is not body:
        stale = OF_THE_BODY | ({"content-encoding"} if decoded else set())
        headers = [(name, value) for name, value in headers if name.lower() not in stale]
    return RelayedResponse(edited, answer.status, headers)


def _refuse_cut(body: bytes, answer: Answer) -> None:
    """Raise ApiError when an answer that ends with its connection is not whole, as far as its JSON can tell."""
    if _is_framed(answer) or answer.status != HTTPStatus.OK:
        return
    plain = _decoded(body, answer)
    if not body or (_media_type(answer) == JSON and plain is not None and not _is_json(plain)):
        raise ApiError("upstream_incomplete", INCOMPLETE, may_have_run=True)


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _too_long_to_hold(answer: Answer, pieces: list[bytes]) -> flask.Response:
    def everything() -> Iterator[bytes]:
        yield from pieces
        try:
            with failures_as_api_errors():
                yield from _pieces(answer)
        except ApiError as error:
            raise AbortedAnswerError(error.message) from error

    headers = for_client(answer.headers.items())
    if not answer.chunked and "Content-Length" in answer.headers:
        headers.append(("Content-Length", answer.headers["Content-Length"]))
    response = RelayedResponse(everything(), answer.status, headers)
    response.call_on_close(answer.close)
    return response


def _edit(body: bytes, answer: Answer, edits: AnswerEdits) -> tuple[bytes, bool]:
    """Return the body for the client and whether it was decoded; undecodable bodies stay as they are."""
    edit = edits.edit_of(answer.status)
    plain = _decoded(body, answer) if edit is not None else None
    if edit is None or plain is None:
        return body, False
    edited = edit(plain)
    return (body, False) if edited is plain else (edited, plain is not body)


def _decoded(body: bytes, answer: Answer) -> bytes | None:
    """Return a body without its content coding; None when that is unknown, broken or unfolds to too much."""
    encoding = answer.headers.get("Content-Encoding", "").strip().lower()
    if encoding in _UNENCODED or not body:
        return body
    if any(name.strip() not in urllib3.HTTPResponse.CONTENT_DECODERS for name in encoding.split(",")):
        return None
    compressed = urllib3.HTTPResponse(BytesIO(body), {"Content-Encoding": encoding}, preload_content=False)
    try:
        plain = compressed.read(MAX_BUFFERED_BYTES + 1, decode_content=True)
    except urllib3.exceptions.HTTPError:
        return None
    return plain if len(plain) <= MAX_BUFFERED_BYTES else None


def _streamed(answer: Answer, edits: AnswerEdits) -> flask.Response:
    headers = for_client(answer.headers.items())
    headers.append(("X-Accel-Buffering", "no"))
    if "Cache-Control" not in answer.headers:
        headers.append(("Cache-Control", "no-cache"))
    response = RelayedResponse(_events(answer, edits), answer.status, headers)
    response.call_on_close(answer.close)
    return response


def _events(answer: Answer, edits: AnswerEdits) -> Iterator[bytes]:
    encoded = answer.headers.get("Content-Encoding", "").strip().lower() not in _UNENCODED
    renamer = ModelRenamer(edits.model) if edits.model is not None and not encoded else None
    tail = b""
    try:
        with failures_as_api_errors():
            for piece in _pieces(answer):
                tail = (tail + piece)[-_DONE_TAIL_BYTES:]
                leaving = renamer.feed(piece) if renamer else piece
                if leaving:
                    yield leaving
            _refuse_bare_end(answer, tail)
    except ApiError as error:
        _LOG.warning("a stream broke off: %s", error.code)
        if encoded:
            # Plain bytes behind compressed ones would be garbage.
            raise AbortedAnswerError(error.message) from error
        rest = renamer.flush() if renamer else b""
        # Behind [DONE] nothing is missing any more, and nobody listens.
        yield rest if _DONE.search(tail) else rest + b"\n\ndata: " + body_of(error) + b"\n\n"
    else:
        yield renamer.flush() if renamer else b""


def _refuse_bare_end(answer: Answer, tail: bytes) -> None:
    """Raise ApiError when only the end of the connection tells that the stream is over, and `[DONE]` did not come."""
    if not _is_framed(answer) and not _DONE.search(tail):
        raise ApiError("upstream_incomplete", INCOMPLETE, may_have_run=True)


def _pieces(answer: Answer) -> Iterator[bytes]:
    while piece := answer.read1(PIECE_BYTES, decode_content=False):
        yield piece
