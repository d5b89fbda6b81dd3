"""The outermost WSGI middleware: request id, in-flight limit, access log, metrics, traces and draining of bodies."""

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from http.client import responses
from types import TracebackType
from typing import Any, Final, Self
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import flask

from router.admission import early_rejection, release
from router.contract.errors import (
    NO_ERROR_TEXT,
    OVERLOADED,
    ApiError,
    ErrorResponse,
    build_error_response,
    without_frames,
)
from router.contract.schema.sections import Errors
from router.pipeline import Services
from router.request import routes
from router.request.context import RequestContext, context_of
from router.runtime.semaphore import Semaphore
from router.server import request_body
from router.telemetry import access_log

OVERLOADED_DRAIN_SECONDS: Final = 0.5
"""Drain timeout for the body of a rejected request: long enough for what is in transit within one data centre."""
SHORT_DRAIN_SECONDS: Final = 0.02
"""Drain timeout if several bodies are drained already: reads what has arrived, so that closing sends no reset."""
MAX_SLOW_DRAINS: Final = 4
"""Maximum of concurrent drains with the longer timeout; other threads stay free for what is still served."""

_SHORT_DRAIN_CODES: Final = (OVERLOADED, "invalid_api_key")
"""Codes of rejected requests whose bodies are drained only briefly: they must not delay requests that are served."""
_MODEL: Final = f"{routes.MODELS}/"
_LOG = logging.getLogger("router")

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class Middleware:
    """The WSGI app of one worker: limits the inference requests in flight, and records every request."""

    def __init__(self, app: flask.Flask, services: Services) -> None:
        self.extensions = app.extensions  # where a Flask app has its services
        self._app = app
        self._inference = app.extensions["router.endpoints"]
        own = services.settings
        self._routes = frozenset((*own.routes, *routes.HEALTH_ROUTES, *([routes.METRICS] if own.metrics else ())))
        self._has_models = routes.MODELS in own.routes
        self._bounded = self._routes.intersection(routes.INFERENCE)
        self.async_routes = self._bounded
        self._in_flight = services.in_flight
        self._slow_drains = Semaphore(MAX_SLOW_DRAINS)
        self._access_log = access_log.open_access_log(own)
        self._meter = services.meter
        self._tracer = services.tracer
        self._errors = services.artifact.contract.errors

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve a request."""
        context = context_of(environ)
        # Upgrades are ignored (RFC 9110, section 7.8); Werkzeug would reject the request.
        environ.pop("HTTP_UPGRADE", None)
        context.route = self._route_of(environ)
        if self._tracer is not None:
            self._tracer.begin(context, environ)
        is_bounded = context.method == "POST" and context.route in self._bounded
        app: WSGIApplication = self._app
        if is_bounded:
            error = early_rejection(self._in_flight)
            app = self._inference if error is None else partial(self._reject, error)
        return LoggedResponse(context, start_response, partial(self._end, environ), self._errors).run(app, environ)

    def _reject(self, error: ApiError, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        context = context_of(environ)
        response = build_error_response(error, self._errors, context.request_id, context.protocol)
        return _send_error(response, start_response)

    def flush(self) -> None:
        """Flush metrics, traces and access log before the process ends, with short timeouts."""
        if self._meter is not None:
            self._meter.flush()
        if self._tracer is not None:
            self._tracer.export()
        if self._access_log is not None:
            self._access_log.flush()

    def count_rejected(self, error: ApiError) -> None:
        """Count a request that the server rejected before it reached the app."""
        if self._meter is not None:
            self._meter.note(RequestContext(request_id="", status=error.status, code=error.code))

    def _route_of(self, environ: WSGIEnvironment) -> str:
        """Return the route of a request by its raw path; empty for an unknown one."""
        path = routes.raw_path(environ)
        if path in self._routes:
            return path
        return routes.MODEL_DETAIL if self._has_models and path.startswith(_MODEL) else ""

    def _end(self, environ: WSGIEnvironment, context: RequestContext) -> None:
        release(self._in_flight, context)
        if self._access_log is not None:
            self._access_log.note(context)
        if self._meter is not None:
            self._meter.note(context)
        if self._tracer is not None:
            self._tracer.note(context)
        if context.code in _SHORT_DRAIN_CODES:
            self._drain_briefly(environ)
        else:
            request_body.drain(environ)

    def _drain_briefly(self, environ: WSGIEnvironment) -> None:
        if not self._slow_drains.try_acquire():
            request_body.drain(environ, SHORT_DRAIN_SECONDS)
            return
        try:
            request_body.drain(environ, OVERLOADED_DRAIN_SECONDS)
        finally:
            self._slow_drains.release()


class LoggedResponse:
    """A response iterator that records status, code and bytes in the context, and ends the request exactly once."""

    __slots__ = ("_close", "_context", "_end", "_errors", "_is_ended", "_is_whole", "_next", "_start_response")

    def __init__(
        self,
        context: RequestContext,
        start_response: StartResponse,
        end: Callable[[RequestContext], None],
        errors: Errors = NO_ERROR_TEXT,
    ) -> None:
        self._context = context
        self._start_response = start_response
        self._end = end
        self._errors = errors
        self._next: Callable[[], bytes]
        self._close: Callable[[], None] | None = None
        self._is_whole = False
        self._is_ended = False

    def run(self, app: WSGIApplication, environ: WSGIEnvironment) -> Self:
        """Call an app and return its response. An exception of the app is an `internal_error`."""
        try:
            pieces = self._call_app(app, environ)
            self._close = getattr(pieces, "close", None)
            self._next = iter(pieces).__next__
        except BaseException:
            self._is_whole = True
            self.close()
            raise
        return self

    def _call_app(self, app: WSGIApplication, environ: WSGIEnvironment) -> Iterable[bytes]:
        try:
            return app(environ, self.start)
        except Exception as error:
            if self._context.status:
                raise
            _LOG.error("request %s failed", self._context.request_id, exc_info=error)
            without_frames(error)
            failure = ApiError("internal_error", "The router failed to handle this request")
            context = self._context
            return _send_error(
                build_error_response(failure, self._errors, context.request_id, context.protocol), self.start
            )

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: _ExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        """Record the status and the router's own error code, and add the request id to the headers."""
        context = self._context
        context.status = int(status[:3])
        if context.status >= HTTPStatus.BAD_REQUEST and context.code is None:
            # It cannot come from an engine: its headers are filtered.
            context.code = next((value for name, value in headers if name.lower() == "x-router-error-code"), None)
        headers = [*headers, ("x-request-id", context.request_id)]
        for name in context.protocol.request_id_headers:
            headers.append((name, context.request_id))
        return self._start_response(status, headers, exc_info)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        try:
            piece = self._next()
        except BaseException:
            # The response ended or failed by itself: the client did not leave.
            self._is_whole = True
            raise
        context = self._context
        if context.response_started_at is None:
            context.response_started_at = time.monotonic()
        context.bytes_out += len(piece)
        return piece

    def close(self) -> None:
        """End the response and the request; the server also calls it if the client left early."""
        if self._is_ended:
            return
        self._is_ended = True
        if not self._is_whole:
            self._context.client_gone = True
        try:
            if self._close is not None:
                self._close()
        finally:
            self._context.ended_at = time.monotonic()
            self._end(self._context)


def _send_error(
    told: ErrorResponse,
    start_response: Any,  # noqa: ANN401 - wsgiref's own is narrower
) -> Iterable[bytes]:
    status, headers, body = told
    # A contract may use a status without a standard phrase, such as 529.
    phrase = responses.get(status, "Unknown")
    start_response(f"{status} {phrase}", [*headers, ("Content-Length", str(len(body)))])
    return [body]
