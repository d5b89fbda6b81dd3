"""A plain request served in a turn of the worker's loop, as gunicorn's worker serves the others in a thread."""

import errno
from typing import Any, Final

from router.server.connection import Connection
from router.server.request_parser import Plain
from router.server.response_writer import Reply

_LEFT: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)


def serve(worker: Any, connection: Connection, request: Plain) -> bool:  # noqa: ANN401 - the worker knows this module
    """Answer a request and tell whether its connection may carry another one."""
    sock = connection.sock
    sock.send_seconds = connection.own_send_seconds
    reply = Reply(request, sock, worker.cfg)
    if not _may_go_on(worker):
        reply.force_close()
    try:
        _answer(worker.wsgi, request, reply)
    except OSError as error:
        if error.errno not in _LEFT:
            worker.log.exception("a request could not be answered")
        return False
    except Exception as error:
        if reply.headers_sent:
            worker.log.exception("an answer broke off")
        else:
            worker.handle_error(None, sock, connection.client, error)
        return False
    return not reply.should_close() and (request.rest is None or request.rest.is_read())


def _may_go_on(worker: Any) -> bool:  # noqa: ANN401 - as above
    """Count a request that begins; tell whether the worker takes more."""
    worker.nr += 1
    if worker.nr >= worker.max_requests and worker.alive:
        worker.log.info("enough requests were served: another worker takes over")
        worker.alive = False
    return bool(worker.alive)


def _answer(app: Any, request: Plain, reply: Reply) -> None:  # noqa: ANN401 - a WSGI callable
    pieces = app(request.environ, reply.start_response)
    try:
        reply.write_all(pieces)
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
