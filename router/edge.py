"""The edge: a WSGI callable around the app that surrounds every request, from its id to its line in the access log."""

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import flask

from router import access_log, intake, routes
from router.contract.errors import ApiError, answer
from router.exchange import Exchange, exchange_of
from router.line import Gateway

OVERLOADED_DRAIN_SECONDS: Final = 0.5
"""How long the body of an overloaded worker's client is read: long enough for what is on its way in one data centre."""
HURRIED_DRAIN_SECONDS: Final = 0.02
"""The same where several are being read already: only what has come, which would let closing reset the answer."""
MOST_PATIENT_DRAINS: Final = 4
"""How many threads at most wait for such bodies; the others are there for what an overloaded worker still answers."""

_A_STRANGERS: Final = "invalid_api_key"
_MODEL: Final = f"{routes.MODELS}/"
_LOG = logging.getLogger("router")

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class Edge:
    """The app of one worker, with its bound of inference requests in flight and its access log."""

    def __init__(self, app: flask.Flask, gateway: Gateway) -> None:
        self.extensions = app.extensions  # what looks for the gateway in a Flask app finds it here too
        self._app = app
        own = gateway.settings
        self._routes = frozenset((*own.routes, routes.HEALTHZ, routes.READYZ))
        self._has_models = routes.MODELS in own.routes
        self._bounded = self._routes.intersection(routes.INFERENCE)
        self._in_flight = Places(own.max_in_flight)
        self._patient_drains = Places(MOST_PATIENT_DRAINS)
        self._access_log = access_log.open_log(own)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        exchange = exchange_of(environ)
        exchange.route = self._route_of(environ)
        if exchange.method != "POST" or exchange.route not in self._bounded:
            return Crossing(exchange, start_response, partial(self._end, environ)).run(self._app, environ)
        if not self._in_flight.take():
            return Crossing(exchange, start_response, partial(self._end_refused, environ)).run(_refuse, environ)
        return Crossing(exchange, start_response, partial(self._end_in_flight, environ)).run(self._app, environ)

    def flush(self) -> None:
        """Have the access log written as far as it goes, without waiting long: the process is about to end."""
        if self._access_log is not None:
            self._access_log.flush()

    def _route_of(self, environ: WSGIEnvironment) -> str:
        """Return the route that a target names, as it was sent; empty for anything else."""
        path = routes.path_as_sent(environ)
        if path in self._routes:
            return path
        return routes.ONE_MODEL if self._has_models and path.startswith(_MODEL) else ""

    def _end(self, environ: WSGIEnvironment, exchange: Exchange) -> None:
        self._log(exchange)
        intake.drain(environ)

    def _end_in_flight(self, environ: WSGIEnvironment, exchange: Exchange) -> None:
        if exchange.code == _A_STRANGERS:
            # Who has no key must not take places from those who have.
            self._in_flight.give_back()
            self._end_refused(environ, exchange)
            return
        try:
            self._end(environ, exchange)
        finally:
            # Only now: a body that is still being drained holds a thread as well.
            self._in_flight.give_back()

    def _end_refused(self, environ: WSGIEnvironment, exchange: Exchange) -> None:
        self._log(exchange)
        if not self._patient_drains.take():
            intake.drain(environ, HURRIED_DRAIN_SECONDS)
            return
        try:
            intake.drain(environ, OVERLOADED_DRAIN_SECONDS)
        finally:
            self._patient_drains.give_back()

    def _log(self, exchange: Exchange) -> None:
        if self._access_log is not None:
            self._access_log.note(exchange)


class Places:
    """So many places, of which each taken one is given back."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a place if one is free, and tell whether there was one."""
        with self._lock:
            if self._free == 0:
                return False
            self._free -= 1
            return True

    def give_back(self) -> None:
        """Free a place again."""
        with self._lock:
            self._free += 1


class Crossing:
    """One answer on its way out: learns of it what the exchange does not know, and ends the exchange exactly once."""

    __slots__ = ("_close", "_end", "_exchange", "_is_ended", "_is_whole", "_next", "_start_response")

    def __init__(self, exchange: Exchange, start_response: StartResponse, end: Callable[[Exchange], None]) -> None:
        self._exchange = exchange
        self._start_response = start_response
        self._end = end
        self._next: Callable[[], bytes]
        self._close: Callable[[], None] | None = None
        self._is_whole = False
        self._is_ended = False

    def run(self, app: WSGIApplication, environ: WSGIEnvironment) -> Self:
        """Let an app answer and return its answer. What an app itself cannot handle is an `internal_error`."""
        try:
            pieces = self._answer_of(app, environ)
            self._close = getattr(pieces, "close", None)
            self._next = iter(pieces).__next__
        except BaseException:
            self._is_whole = True
            self.close()
            raise
        return self

    def _answer_of(self, app: WSGIApplication, environ: WSGIEnvironment) -> Iterable[bytes]:
        try:
            return app(environ, self.start)
        except Exception as error:
            if self._exchange.status:
                raise
            _LOG.error("request %s failed", self._exchange.request_id, exc_info=error)
            failure = ApiError("internal_error", "The router failed to handle this request")
            return _answer_with(failure, self.start)

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: _ExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        """Note the status and the router's own error code, and send the head on with the request's id."""
        exchange = self._exchange
        exchange.status = int(status[:3])
        if exchange.status >= HTTPStatus.BAD_REQUEST and exchange.code is None:
            # No engine's answer carries this header: it is taken out on the way.
            exchange.code = next((value for name, value in headers if name.lower() == "x-router-error-code"), None)
        return self._start_response(status, [*headers, ("x-request-id", exchange.request_id)], exc_info)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        try:
            piece = self._next()
        except BaseException:
            # It came to its own end, or broke off by itself: not for want of a client.
            self._is_whole = True
            raise
        self._exchange.bytes_out += len(piece)
        return piece

    def close(self) -> None:
        """End the answer and the exchange; a server does so also when its client is gone before all is sent."""
        if self._is_ended:
            return
        self._is_ended = True
        if not self._is_whole:
            self._exchange.client_gone = True
        try:
            if self._close is not None:
                self._close()
        finally:
            self._end(self._exchange)


def _refuse(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:  # noqa: ARG001 - as WSGI says
    return _answer_with(ApiError("overloaded", "Too many requests are being answered; try again soon"), start_response)


def _answer_with(error: ApiError, start_response: Any) -> Iterable[bytes]:  # noqa: ANN401 - wsgiref's own is narrower
    status, headers, body = answer(error)
    start_response(f"{status} {HTTPStatus(status).phrase}", [*headers, ("Content-Length", str(len(body)))])
    return [body]
