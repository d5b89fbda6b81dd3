"""The application that servers call: request id, in-flight limit, access log, metrics, traces, draining of bodies."""

import time
from collections.abc import Callable, Iterable
from typing import Final
from wsgiref.types import StartResponse, WSGIEnvironment

import flask

from router.admission import early_rejection, release
from router.contract.errors import OVERLOADED
from router.endpoints import CLIENT_CLOSED_REQUEST, InferenceEndpoint, error_response, internal_error_response
from router.pipeline import Services
from router.request import routes
from router.request.context import RequestContext, context_of
from router.request.request import Request, RequestBody, ResponseWriter
from router.response import ProxyResponse, ResponseAbortedError
from router.runtime.semaphore import Semaphore
from router.server.wsgi_adapter import CONTEXT, WsgiResponseWriter, call_app, environ_of, request_of
from router.telemetry import access_log

DRAIN_SECONDS: Final = 5.0
"""Drain timeout for the unread rest of a request body, so that the client can read the response."""
OVERLOADED_DRAIN_SECONDS: Final = 0.5
"""Drain timeout for the body of a rejected request: long enough for what is in transit within one data centre."""
SHORT_DRAIN_SECONDS: Final = 0.02
"""Drain timeout if several bodies are drained already: reads what has arrived, so that closing sends no reset."""
MAX_SLOW_DRAINS: Final = 4
"""Maximum of concurrent drains with the longer timeout; other threads stay free for what is still served."""

_SHORT_DRAIN_CODES: Final = (OVERLOADED, "invalid_api_key")
"""Codes of rejected requests whose bodies are drained only briefly: they must not delay requests that are served."""
_MODEL: Final = f"{routes.MODELS}/"
_BAD_REQUEST: Final = 400
_ERROR_CODE: Final = "x-router-error-code"


class Middleware:
    """The application of one worker: limits the inference requests in flight, and records every request.

    Servers call `serve`; it is also a WSGI app, for servers that know only WSGI.
    """

    def __init__(self, app: flask.Flask, services: Services) -> None:
        self.extensions = app.extensions  # where a Flask app has its services
        self._app = app
        self._inference: InferenceEndpoint = app.extensions["router.endpoints"]
        own = services.settings
        self._routes = frozenset((*own.routes, *routes.HEALTH_ROUTES, *([routes.METRICS] if own.metrics else ())))
        self._has_models = routes.MODELS in own.routes
        self._bounded = self._routes.intersection(routes.INFERENCE)
        self._in_flight = services.in_flight
        self._slow_drains = Semaphore(MAX_SLOW_DRAINS)
        self._access_log = access_log.open_access_log(own)
        self._meter = services.meter
        self._tracer = services.tracer
        self._errors = services.artifact.contract.errors

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve a request of a WSGI server."""
        request = request_of(environ)
        self.serve(request, WsgiResponseWriter(start_response, request.method))
        return ()

    def serve(self, request: Request, writer: ResponseWriter) -> None:
        """Serve a request. Raises OSError when the response cannot be sent, or cannot be completed."""
        context = context_of(request)
        context.route = self._route_of(request.path)
        if self._tracer is not None:
            self._tracer.begin(context, request)
        try:
            response = self._respond(request, context)
            self._send(response, request, context, writer)
        finally:
            context.ended_at = time.monotonic()
            self._end(request, context)

    def flush(self) -> None:
        """Flush metrics, traces and access log before the process ends, with short timeouts."""
        if self._meter is not None:
            self._meter.flush()
        if self._tracer is not None:
            self._tracer.export()
        if self._access_log is not None:
            self._access_log.flush()

    def note_rejected(self, context: RequestContext, target: str | None) -> None:
        """Record a request that the server rejected itself; `target` is its target as far as it was read."""
        context.route = self._route_of((target or "").partition("?")[0])
        if self._access_log is not None:
            self._access_log.note(context)
        if self._meter is not None:
            self._meter.note(context)

    def _route_of(self, path: str) -> str:
        """Return the route of a request by its raw path; empty for an unknown one."""
        if path in self._routes:
            return path
        return routes.MODEL_DETAIL if self._has_models and path.startswith(_MODEL) else ""

    def _respond(self, request: Request, context: RequestContext) -> ProxyResponse:
        try:
            if request.method != "POST" or context.route not in self._bounded:
                return ProxyResponse(*call_app(self._app, environ_of(request) | {CONTEXT: context}))
            error = early_rejection(self._in_flight)
            if error is not None:
                return error_response(error, self._errors, context)
            return self._inference.respond(request, context)
        except Exception as error:  # noqa: BLE001 - any failure is a 500 to the client
            return internal_error_response(error, self._errors, context)

    def _send(self, response: ProxyResponse, request: Request, context: RequestContext, writer: ResponseWriter) -> None:
        """Send a response, and record its status and bytes."""
        status, headers, body, _ = response
        context.status = status
        if status == CLIENT_CLOSED_REQUEST:
            raise ResponseAbortedError("the client left")
        if status >= _BAD_REQUEST and context.code is None:
            # It cannot come from an engine: its headers are filtered.
            context.code = next((value for name, value in headers if name.lower() == _ERROR_CODE), None)
        headers.append(("x-request-id", context.request_id))
        for name in context.protocol.request_id_headers:
            headers.append((name, context.request_id))
        context.response_started_at = time.monotonic()
        if not isinstance(body, bytes):
            self._stream(response, body, context, writer)
            return
        if request.method != "HEAD":
            context.bytes_out = len(body)
        try:
            writer.send(status, headers, body)
        except OSError:
            context.client_gone = True
            raise

    def _stream(
        self,
        response: ProxyResponse,
        write_to: Callable[[ResponseWriter], None],
        context: RequestContext,
        writer: ResponseWriter,
    ) -> None:
        try:
            writer.start(response.status, response.headers)
            write_to(writer)
            writer.end()
        except ResponseAbortedError:
            raise
        except OSError:
            context.client_gone = True
            raise
        finally:
            response.close()

    def _end(self, request: Request, context: RequestContext) -> None:
        release(self._in_flight, context)
        if self._access_log is not None:
            self._access_log.note(context)
        if self._meter is not None:
            self._meter.note(context)
        if self._tracer is not None:
            self._tracer.note(context)
        if context.code in _SHORT_DRAIN_CODES:
            self._drain_briefly(request.body)
        else:
            request.body.drain(DRAIN_SECONDS)

    def _drain_briefly(self, body: RequestBody) -> None:
        if not self._slow_drains.try_acquire():
            body.drain(SHORT_DRAIN_SECONDS)
            return
        try:
            body.drain(OVERLOADED_DRAIN_SECONDS)
        finally:
            self._slow_drains.release()
