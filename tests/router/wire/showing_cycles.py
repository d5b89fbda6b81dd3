"""The router as an app that also shows, at /cycles, what only Python's search for cycles would have freed so far."""

import gc
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

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
        self.async_routes = router.async_routes
        self.count_rejected = router.count_rejected
        self.flush = router.flush

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/cycles":
            return router(environ, start_response)
        body = json.dumps(_found()).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


application = _Showing()
