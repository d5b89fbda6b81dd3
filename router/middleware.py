"""The edge: a WSGI callable around the app that surrounds every request, from its id to its line in the access log."""

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

from router.contract.errors import NO_WORDS, OVERLOADED, ApiError, ErrorAnswer, answer, overloaded, without_frames
from router.contract.schema.sections import Errors
from router.pipeline import Services
from router.request import routes
from router.request.context import RequestContext, context_of
from router.runtime.semaphore import Semaphore
from router.server import request_body
from router.telemetry import access_log

OVERLOADED_DRAIN_SECONDS: Final = 0.5
"""How long the body of an overloaded worker's client is read: long enough for what is on its way in one data centre."""
SHORT_DRAIN_SECONDS: Final = 0.02
"""The same where several are being read already: only what has come, which would let closing reset the answer."""
MAX_SLOW_DRAINS: Final = 4
"""How many threads at most wait for such bodies; the others are there for what an overloaded worker still answers."""

_SHORT_DRAIN_CODES: Final = (OVERLOADED, "invalid_api_key")
"""Refusals whose clients get little time for the rest of their body: who is not served must not hold up who is."""
_MODEL: Final = f"{routes.MODELS}/"
_LOG = logging.getLogger("router")

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class Middleware:
    """The app of one worker, with its bound of inference requests in flight and its access log."""

    def __init__(self, app: flask.Flask, services: Services) -> None:
        self.extensions = app.extensions  # what looks for the gateway in a Flask app finds it here too
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
        """Answer a request."""
        context = context_of(environ)
        # No other protocol is spoken here; Werkzeug would refuse who asks for one (RFC 9110, section 7.8).
        environ.pop("HTTP_UPGRADE", None)
        context.route = self._route_of(environ)
        if self._tracer is not None:
            self._tracer.begin(context, environ)
        is_bounded = context.method == "POST" and context.route in self._bounded
        app: WSGIApplication = self._app
        if is_bounded:
            app = self._reject_overloaded if self._in_flight.is_exhausted() else self._inference
        return LoggedResponse(context, start_response, partial(self._end, environ), self._errors).run(app, environ)

    def _reject_overloaded(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        context = context_of(environ)
        refused = answer(overloaded(), self._errors, context.request_id, context.protocol)
        return _send_error(refused, start_response)

    def flush(self) -> None:
        """Have all counted, and the access log written as far as it goes without waiting long: the process ends."""
        if self._meter is not None:
            self._meter.flush()
        if self._tracer is not None:
            self._tracer.export()
        if self._access_log is not None:
            self._access_log.flush()

    def count_rejected(self, error: ApiError) -> None:
        """Count a request that the server refused before the app heard of it."""
        if self._meter is not None:
            self._meter.note(RequestContext(request_id="", status=error.status, code=error.code))

    def _route_of(self, environ: WSGIEnvironment) -> str:
        """Return the route that a target names, as it was sent; empty for anything else."""
        path = routes.raw_path(environ)
        if path in self._routes:
            return path
        return routes.MODEL_DETAIL if self._has_models and path.startswith(_MODEL) else ""

    def _end(self, environ: WSGIEnvironment, context: RequestContext) -> None:
        if context.slot_acquired:
            self._in_flight.release()
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
    """One answer on its way out: learns of it what the exchange does not know, and ends the exchange exactly once."""

    __slots__ = ("_close", "_context", "_end", "_errors", "_is_ended", "_is_whole", "_next", "_start_response")

    def __init__(
        self,
        context: RequestContext,
        start_response: StartResponse,
        end: Callable[[RequestContext], None],
        errors: Errors = NO_WORDS,
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
        """Let an app answer and return its answer. What an app itself cannot handle is an `internal_error`."""
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
            return _send_error(answer(failure, self._errors, context.request_id, context.protocol), self.start)

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: _ExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        """Note the status and the router's own error code, and send the head on with the request's id."""
        context = self._context
        context.status = int(status[:3])
        if context.status >= HTTPStatus.BAD_REQUEST and context.code is None:
            # No engine's answer carries this header: it is taken out on the way.
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
            # It came to its own end, or broke off by itself: not for want of a client.
            self._is_whole = True
            raise
        context = self._context
        if context.response_started_at is None:
            context.response_started_at = time.monotonic()
        context.bytes_out += len(piece)
        return piece

    def close(self) -> None:
        """End the answer and the exchange; a server does so also when its client is gone before all is sent."""
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
    told: ErrorAnswer,
    start_response: Any,  # noqa: ANN401 - wsgiref's own is narrower
) -> Iterable[bytes]:
    status, headers, body = told
    # A contract may answer with a status that has no phrase, as 529 is to some vendors.
    phrase = responses.get(status, "Unknown")
    start_response(f"{status} {phrase}", [*headers, ("Content-Length", str(len(body)))])
    return [body]
