"""Protocol errors: responses in the router's error shape to what gunicorn rejects before the app runs."""

import ssl
from http.client import responses
from typing import Final

from gunicorn import util
from gunicorn.http import errors as parsing

from router.contract.errors import NO_ERROR_TEXT, ApiError, build_error_response
from router.contract.schema.sections import Errors
from router.request.headers import new_request_id
from router.request.routes import protocol_of

_NOT_UNDERSTOOD: Final = ("bad_request", "The request could not be understood")
_BAD_CHUNKS: Final = ("bad_request", "The chunked body is malformed")
_BAD_HEADER: Final = ("bad_request", "A header of the request is malformed or ambiguous")
_REFUSALS: Final[dict[type[Exception], tuple[str, str]]] = {
    parsing.LimitRequestLine: ("uri_too_long", "The request line is too long"),
    parsing.LimitRequestHeaders: ("headers_too_large", "The headers of the request are too large or too many"),
    parsing.ExpectationFailed: ("expectation_failed", "The only supported expectation is 100-continue"),
    parsing.InvalidRequestLine: ("bad_request", "The request line is malformed"),
    parsing.InvalidRequestMethod: ("bad_request", "The method of the request is malformed"),
    parsing.InvalidHTTPVersion: ("bad_request", "The HTTP version of the request is not supported"),
    parsing.InvalidHeader: _BAD_HEADER,
    parsing.InvalidHeaderName: _BAD_HEADER,
    parsing.ObsoleteFolding: _BAD_HEADER,
    parsing.UnsupportedTransferCoding: ("bad_request", "The only supported transfer coding is chunked"),
    parsing.InvalidChunkSize: _BAD_CHUNKS,
    parsing.InvalidChunkExtension: _BAD_CHUNKS,
    parsing.ChunkMissingTerminator: _BAD_CHUNKS,
}


class LateHeadError(parsing.ParseException):  # type: ignore[misc] # gunicorn has no types
    """The headers of a request did not arrive in time. `answer` is the error response for the client."""

    def __init__(self, answer: ApiError) -> None:
        super().__init__(answer.message)
        self.answer = answer


def late_head(seconds: float) -> ApiError:
    """Return the error of headers that did not arrive in so many seconds."""
    return ApiError("bad_request", f"The headers of the request did not arrive within {seconds:g} s")


def refusal(error: Exception) -> ApiError | None:
    """Return the error for a client that sent an invalid request; None when the error is not the client's."""
    if isinstance(error, parsing.InvalidResponseHeader | parsing.InvalidResponseHeaderName):
        return None
    if isinstance(error, LateHeadError):
        return error.answer
    if isinstance(error, parsing.ParseException | ssl.SSLError):
        return ApiError(*_REFUSALS.get(type(error), _NOT_UNDERSTOOD))
    return None


def told_of(error: Exception) -> str:
    """Return the redacted text of an error for the log: no byte that a client sent, which may be a key or a prompt."""
    if isinstance(error, ApiError | LateHeadError):
        return str(error)
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or type(error).__name__})"
    _, message = _REFUSALS.get(type(error), _NOT_UNDERSTOOD)
    return f"{message} ({type(error).__name__})"


def wire_bytes(error: ApiError, errors: Errors = NO_ERROR_TEXT, target: str | None = None) -> bytes:
    """Return a complete error response for a request that could not be parsed; it closes the connection.

    `target` is the path of the request, as far as it could be read.
    """
    request_id = new_request_id()
    protocol = protocol_of(target)
    status, headers, body = build_error_response(error, errors, request_id, protocol)
    fields = [
        ("Date", util.http_date()),
        ("Connection", "close"),
        *headers,
        *((name, request_id) for name in ("x-request-id", *protocol.request_id_headers)),
        ("Content-Length", str(len(body))),
    ]
    # A contract may use a status without a reason phrase, such as 529.
    phrase = responses.get(status, "Unknown")
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
