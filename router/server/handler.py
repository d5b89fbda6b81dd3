"""The request handler: lets the application serve one request, in a task of the event loop."""

import errno
from contextlib import suppress
from typing import Any, Final

from router.contract.errors import ApiError
from router.request.context import context_of
from router.request.request import Request
from router.server import draining, parse_errors
from router.server.connection import Connection
from router.server.response_writer import HttpResponseWriter
from router.server.wsgi_adapter import run_app

_DISCONNECTED: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)


def handle(worker: Any, connection: Connection, request: Request) -> bool:  # noqa: ANN401 - the worker imports this module
    """Respond to a request; return whether its connection may be reused."""
    _count_request(worker)

    def begin_response() -> bool:
        is_kept = worker.alive and worker.cfg.keepalive > 0 and not draining.is_draining()
        return connection.begin_response() and is_kept

    writer = HttpResponseWriter(request, connection.sock, begin_response)
    try:
        _serve(worker.wsgi, request, writer)
    except OSError as error:
        if error.errno not in _DISCONNECTED:
            worker.log.exception("could not send a response")
    except Exception as error:
        if writer.headers_sent:
            worker.log.exception("a response was cut off")
        else:
            _send_internal_error(worker, request, connection, error)
    else:
        return writer.keep_alive
    # Without Content-Length, an HTTP/1.0 client takes the end of the connection for the end of the response.
    connection.is_cut = writer.headers_sent and request.version < (1, 1)
    return False


def _serve(app: Any, request: Request, writer: HttpResponseWriter) -> None:  # noqa: ANN401 - ours, or a WSGI callable
    serve = getattr(app, "serve", None)
    if serve is None:
        run_app(app, request, writer)
    else:
        serve(request, writer)


def _count_request(worker: Any) -> None:  # noqa: ANN401 - as above
    worker.nr += 1
    if worker.nr >= worker.max_requests and worker.alive:
        worker.log.info("max_requests is reached: this worker drains and another one replaces it")
        worker.alive = False


def _send_internal_error(worker: Any, request: Request, connection: Connection, error: Exception) -> None:  # noqa: ANN401 - as above
    worker.log.error("error handling a request", exc_info=error)
    failure = ApiError("internal_error", "The router failed to handle this request")
    with suppress(OSError):
        connection.sock.sendall(parse_errors.wire_bytes(failure, context_of(request), worker.errors))
