"""The router as an app that also shows, at /cycles, what only Python's search for cycles would have freed so far."""

import gc
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from router.request.request import Request, ResponseWriter
from router.server.wsgi_adapter import WsgiResponseWriter, request_of
from router.wsgi import application as router


def _found() -> dict[str, int]:
    """Return how many objects of each type were left in cycles since the last time."""
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    found = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    gc.garbage.clear()
    gc.freeze()
    return dict(found)


class _Showing:
    def __init__(self) -> None:
        self.extensions = router.extensions
        self.note_rejected = router.note_rejected
        self.flush = router.flush

    def serve(self, request: Request, writer: ResponseWriter) -> None:
        if request.path == "/cycles":
            writer.send(200, [("Content-Type", "application/json")], json.dumps(_found()).encode())
        else:
            router.serve(request, writer)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = request_of(environ)
        self.serve(request, WsgiResponseWriter(start_response, request.method))
        return ()


application = _Showing()
