"""Protocol errors: responses in the router's error shape to what is rejected before the app runs."""

import ssl
from http.client import responses

from gunicorn import util

from router.contract.errors import NO_ERROR_TEXT, ApiError, build_error_response
from router.contract.schema.sections import Errors
from router.request.context import RequestContext
from router.server.request_parser import RequestError


def late_headers(seconds: float) -> ApiError:
    """Return the error of headers that did not arrive within a time in seconds."""
    return ApiError("bad_request", f"The headers of the request did not arrive within {seconds:g} s")


def tls_error(error: ssl.SSLError) -> ApiError:
    """Return the error of a handshake that failed; the client cannot read it, but the log has it."""
    reason = error.reason or type(error).__name__
    return RequestError("bad_request", "The request could not be understood", f"TLS failed: {reason}")


def redacted(error: ApiError) -> str:
    """Return the text of an error for the log: no byte that a client sent, which may be a key or a prompt."""
    return f"{error} ({error.reason})" if isinstance(error, RequestError) else str(error)


def wire_bytes(error: ApiError, context: RequestContext, errors: Errors = NO_ERROR_TEXT) -> bytes:
    """Return a complete error response for a request that the app does not get; it closes the connection.

    Its status and length are recorded in the context.
    """
    status, headers, body = build_error_response(error, errors, context.request_id, context.protocol)
    context.status, context.code, context.bytes_out = status, error.code, len(body)
    fields = [
        ("Date", util.http_date()),
        ("Connection", "close"),
        *headers,
        *((name, context.request_id) for name in ("x-request-id", *context.protocol.request_id_headers)),
        ("Content-Length", str(len(body))),
    ]
    # A contract may use a status without a reason phrase, such as 529.
    phrase = responses.get(status, "Unknown")
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
