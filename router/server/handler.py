"""The request handler: lets the application serve one request, in a task of the event loop."""

import errno
from typing import Any, Final

from router.request.request import Request
from router.server.connection import Connection
from router.server.request_parser import Plain
from router.server.response_writer import HttpResponseWriter
from router.server.wsgi_adapter import request_of, run_app

_DISCONNECTED: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)


def handle(worker: Any, connection: Connection, plain: Plain) -> bool:  # noqa: ANN401 - the worker imports this module
    """Respond to a request; return whether its connection may be reused."""
    sock = connection.sock
    sock.send_seconds = connection.own_send_seconds
    request = request_of(plain.environ)
    request.keep_alive = plain.keeps
    writer = HttpResponseWriter(request, sock, keep_alive=_count_request(worker))
    try:
        _serve(worker.wsgi, request, writer)
    except OSError as error:
        if error.errno not in _DISCONNECTED:
            worker.log.exception("could not send a response")
        return False
    except Exception as error:
        if writer.headers_sent:
            worker.log.exception("a response was cut off")
        else:
            worker.handle_error(None, sock, connection.client, error)
        return False
    return writer.keep_alive and (plain.rest is None or plain.rest.is_read())


def _serve(app: Any, request: Request, writer: HttpResponseWriter) -> None:  # noqa: ANN401 - ours, or a WSGI callable
    serve = getattr(app, "serve", None)
    if serve is None:
        run_app(app, request, writer)
    else:
        serve(request, writer)


def _count_request(worker: Any) -> bool:  # noqa: ANN401 - as above
    """Count a request; return whether the worker accepts more."""
    worker.nr += 1
    if worker.nr >= worker.max_requests and worker.alive:
        worker.log.info("max_requests is reached: this worker drains and another one replaces it")
        worker.alive = False
    return bool(worker.alive)
