"""The router as an app that also shows, at /loads, what is in flight, and in each answer which worker gave it."""

import os
from collections.abc import Iterable
from typing import Any

import orjson

from router import lifecycle
from router.request.request import Headers, Request, ResponseWriter
from router.server.wsgi_adapter import WsgiResponseWriter, request_of
from router.wsgi import application as router


class _MarkingWriter:
    """A response writer that adds which worker wrote the response."""

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self.write = writer.write
        self.end = writer.end

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        self._writer.send(status, [*headers, ("X-Worker", str(os.getpid()))], body)

    def start(self, status: int, headers: Headers) -> None:
        self._writer.start(status, [*headers, ("X-Worker", str(os.getpid()))])


class _Showing:
    def __init__(self) -> None:
        self.extensions = router.extensions
        self.flush = router.flush

    def serve(self, request: Request, writer: ResponseWriter) -> None:
        if request.path == "/loads":
            engines = router.extensions["router"].registry.engines
            body = orjson.dumps({engine: lifecycle.in_flight_table().load(engine) for engine in engines})
            writer.send(200, [("Content-Type", "application/json")], body)
        else:
            router.serve(request, _MarkingWriter(writer))

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = request_of(environ)
        self.serve(request, WsgiResponseWriter(start_response, request.method))
        return ()


application = _Showing()
