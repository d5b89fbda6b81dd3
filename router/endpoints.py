"""The inference routes as a WSGI callable, without Flask: it is on the hot path."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from werkzeug.http import HTTP_STATUS_CODES

from router import pipeline
from router.contract.errors import ApiError, build_error_response, without_frames
from router.contract.schema.sections import Errors
from router.pipeline import Services
from router.request import headers, routes
from router.request.context import RequestContext, context_of
from router.request_filter import RequestFilter
from router.response import ProxyResponse
from router.server.disconnect import ClientDisconnectedError

CLIENT_CLOSED_REQUEST: Final = 499
"""The status in logs for a client that disconnected (nginx's); it is never sent."""

_STATUS_LINES: Final = {status: f"{status} {phrase.upper()}" for status, phrase in HTTP_STATUS_CODES.items()}
_BODILESS: Final = 204
_LOG = logging.getLogger("router")


class InferenceEndpoint:
    """The inference routes of one worker; they take POST only."""

    def __init__(self, services: Services, request_filter: RequestFilter) -> None:
        self._services = services
        self._admission = request_filter
        self._errors = services.artifact.contract.errors

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve a request."""
        context = context_of(environ)
        try:
            self._services.discovery.start()
            self._admission.check(environ)
            response = self.serve(environ, context)
        except ApiError as error:
            response = error_response(error, self._errors, context)
        except ClientDisconnectedError:
            response = client_closed_response(context)
        except Exception as error:  # noqa: BLE001 - any failure is a 500 to the client
            response = internal_error_response(error, self._errors, context)
        return _send(response, start_response)

    def serve(self, environ: dict[str, Any], context: RequestContext) -> ProxyResponse:
        """Run the pipeline for a request. Raises ApiError, ClientDisconnectedError."""
        route = environ["PATH_INFO"]
        step = pipeline.chat if route == routes.CHAT else pipeline.pass_through
        return step(self._services, environ, route, context)


def error_response(error: ApiError, errors: Errors, context: RequestContext) -> ProxyResponse:
    """Return the response for an error, with the error texts of the contract's case if there is one."""
    without_frames(error)
    error.details.setdefault("model", context.model_asked)
    status, own_headers, body = build_error_response(
        error, context.errors or errors, context.request_id, context.protocol
    )
    if context.attempts > 1:
        own_headers.append((headers.ATTEMPTS, str(context.attempts)))
    return ProxyResponse(status, own_headers, body)


def internal_error_response(error: Exception, errors: Errors, context: RequestContext) -> ProxyResponse:
    """Log an unexpected exception and return the response for it."""
    _LOG.error("request %s failed", context.request_id, exc_info=error)
    without_frames(error)
    return error_response(ApiError("internal_error", "The router failed to handle this request"), errors, context)


def client_closed_response(context: RequestContext) -> ProxyResponse:
    """Return the response that logs show for a client that disconnected."""
    context.client_gone = True
    return ProxyResponse(CLIENT_CLOSED_REQUEST, [], b"")


def status_line(status: int) -> str:
    """Return the status line of a status."""
    return _STATUS_LINES.get(status) or f"{status} UNKNOWN"


class _StreamedBody:
    """A streamed body with its `close`."""

    __slots__ = ("_pieces", "close")

    def __init__(self, pieces: Iterator[bytes], close: Callable[[], None]) -> None:
        self._pieces = pieces
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces


def _send(response: ProxyResponse, start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = response.body
    if isinstance(body, bytes):
        length = [] if response.status == _BODILESS else [("Content-Length", str(len(body)))]
        start_response(status_line(response.status), [*response.headers, *length])
        return [body]
    start_response(status_line(response.status), response.headers)
    return _StreamedBody(body, response.close)
