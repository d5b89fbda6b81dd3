"""The adapter between WSGI (PEP 3333) and the pipeline's own request and response writer, in both directions.

A WSGI server reaches the pipeline through `request_of` and `WsgiResponseWriter`; the pipeline reaches Flask's routes
through `environ_of` and `call_app`.
"""

import io
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from router.request.context import RequestContext, context_of
from router.request.request import Address, Headers, Request, RequestBody, ResponseWriter, WholeBody
from router.server.disconnect import DownstreamClient
from router.server.request_body import StreamedBody
from router.server.response_writer import status_line

REQUEST: Final = "router.request"
CONTEXT: Final = "router.request.context"
"""The keys of the environ with the request, and with its context."""

_PREFIX: Final = "HTTP_"
_CONTENT_HEADERS: Final = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
_NOT_FOR_APPS: Final = frozenset({"upgrade", "transfer-encoding", "content-length"})
"""Upgrades are ignored (RFC 9110, section 7.8), and Werkzeug would reject them; an app gets no body."""
_HAS_NO_BODY: Final = (204, 304)
_LENGTH: Final = "content-length"


class AppResponse(NamedTuple):
    """The whole response of a WSGI app, without a Content-Length."""

    status: int
    headers: Headers
    body: bytes


# --- a WSGI server calls the pipeline ---


def request_of(environ: WSGIEnvironment) -> Request:
    """Return the request of an environ. Its body is read from `wsgi.input`, its client from gunicorn's socket."""
    sock = environ.get("gunicorn.socket")
    protocol = environ.get("SERVER_PROTOCOL", "")
    client = DownstreamClient(sock, accepts_interim=protocol == "HTTP/1.1", peer=_peer_of(environ))
    return Request(
        environ["REQUEST_METHOD"],
        environ.get("RAW_URI") or environ["PATH_INFO"],
        [*_headers_of(environ)],
        _body_of(environ, sock),
        client,
        (1, 0) if protocol == "HTTP/1.0" else (1, 1),
    )


def _peer_of(environ: WSGIEnvironment) -> Address | None:
    host, port = environ.get("REMOTE_ADDR", ""), environ.get("REMOTE_PORT", "")
    return (host, int(port)) if host and port.isdecimal() else None


def _headers_of(environ: WSGIEnvironment) -> Iterable[tuple[str, str]]:
    for name, variable in _CONTENT_HEADERS.items():
        if environ.get(variable):
            yield name, environ[variable]
    for variable, value in environ.items():
        if variable.startswith(_PREFIX):
            yield variable.removeprefix(_PREFIX).replace("_", "-").lower(), value


def _body_of(environ: WSGIEnvironment, sock: Any) -> RequestBody:  # noqa: ANN401 - a client's socket
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length == 0 and "HTTP_TRANSFER_ENCODING" not in environ:
        return WholeBody()
    return StreamedBody(environ["wsgi.input"], length or None, sock)


class WsgiResponseWriter:
    """Writes a response through `start_response` and the `write` that it returns.

    The iterable of the app stays empty: the response is on its way before the rest of the request is drained.
    """

    def __init__(self, start_response: StartResponse, method: str) -> None:
        self._start_response = start_response
        self._sends_body = method != "HEAD"
        self._write: Callable[[bytes], object]

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response."""
        length = [] if status in _HAS_NO_BODY else [("Content-Length", str(len(body)))]
        self.start(status, [*headers, *length])
        self.write(body)

    def start(self, status: int, headers: Headers) -> None:
        """Start a response whose body comes in pieces."""
        self._write = self._start_response(status_line(status), headers)

    def write(self, piece: bytes) -> None:
        """Send the next piece of the body."""
        if self._sends_body:
            self._write(piece)

    def chunk_sender(self) -> None:
        """Return None: the server frames the pieces."""

    def end(self) -> None:
        """Do nothing: the server sends the end of the body when the app returns."""


def request_in(environ: WSGIEnvironment) -> Request:
    """Return the request of an environ, which is the same one each time."""
    request: Request | None = environ.get(REQUEST)
    if request is None:
        request = environ[REQUEST] = request_of(environ)
    return request


def context_in(environ: WSGIEnvironment) -> RequestContext:
    """Return the context of an environ's request; the first call creates it where no server has."""
    context: RequestContext | None = environ.get(CONTEXT)
    if context is None:
        context = environ[CONTEXT] = context_of(request_in(environ))
    return context


# --- the pipeline calls a WSGI app ---


def environ_of(request: Request) -> WSGIEnvironment:
    """Return the environ of a request, with an empty body."""
    local, peer = request.client.local or ("", 0), request.peer
    environ: WSGIEnvironment = {
        # The writer drops the body of a response to HEAD (RFC 9110, section 9.3.2), and needs its length.
        "REQUEST_METHOD": "GET" if request.method == "HEAD" else request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(request.path.encode("latin-1")).decode("latin-1"),
        "QUERY_STRING": request.query,
        "RAW_URI": request.target,
        "SERVER_NAME": local[0],
        "SERVER_PORT": str(local[1]),
        "SERVER_PROTOCOL": "HTTP/{}.{}".format(*request.version),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        REQUEST: request,
    }
    if peer is not None:
        environ |= {"REMOTE_ADDR": peer[0], "REMOTE_PORT": str(peer[1])}
    for name, value in request.by_name().items():
        if name not in _NOT_FOR_APPS:
            environ[_CONTENT_HEADERS.get(name) or _PREFIX + name.upper().replace("-", "_")] = value
    return environ


def call_app(app: WSGIApplication, environ: WSGIEnvironment) -> AppResponse:
    """Return the response of an app. Raises what the app raises."""
    started: list[Any] = []
    pieces: list[bytes] = []

    def start_response(status: str, headers: Headers, exc_info: Any = None, /) -> Callable[[bytes], object]:  # noqa: ANN401, ARG001 - PEP 3333
        started[:] = [int(status[:3]), headers]
        return pieces.append

    found = app(environ, start_response)
    try:
        pieces.extend(found)
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()
    status, headers = started
    return AppResponse(status, [field for field in headers if field[0].lower() != _LENGTH], b"".join(pieces))


def run_app(app: WSGIApplication, request: Request, writer: ResponseWriter) -> None:
    """Serve a request by an app that knows only WSGI."""
    writer.send(*call_app(app, environ_of(request)))
