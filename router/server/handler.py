"""The request handler: runs the WSGI app for one request in a task of the event loop."""

import errno
from typing import Any, Final

from router.server.connection import Connection
from router.server.request_parser import Plain
from router.server.response_writer import HttpResponseWriter

_DISCONNECTED: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)


def handle(worker: Any, connection: Connection, request: Plain) -> bool:  # noqa: ANN401 - the worker imports this module
    """Respond to a request; return whether its connection may be reused."""
    sock = connection.sock
    sock.send_seconds = connection.own_send_seconds
    writer = HttpResponseWriter(request, sock, worker.cfg)
    if not _count_request(worker):
        writer.force_close()
    try:
        _respond(worker.wsgi, request, writer)
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
    return not writer.should_close() and (request.rest is None or request.rest.is_read())


def _count_request(worker: Any) -> bool:  # noqa: ANN401 - as above
    """Count a request; return whether the worker accepts more."""
    worker.nr += 1
    if worker.nr >= worker.max_requests and worker.alive:
        worker.log.info("max_requests is reached: this worker drains and another one replaces it")
        worker.alive = False
    return bool(worker.alive)


def _respond(app: Any, request: Plain, writer: HttpResponseWriter) -> None:  # noqa: ANN401 - a WSGI callable
    pieces = app(request.environ, writer.start_response)
    try:
        writer.write_all(pieces)
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
