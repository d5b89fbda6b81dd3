"""The router as an app that also shows, at /loads, what is in flight, and in each answer which worker gave it."""

import json
import os
from collections.abc import Iterable
from typing import Any

from router import lifecycle
from router.wsgi import application as router


class _Showing:
    def __init__(self) -> None:
        self.extensions = router.extensions
        self.flush = router.flush

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/loads":
            engines = router.extensions["router"].registry.engines
            body = json.dumps({engine: lifecycle.in_flight_table().load(engine) for engine in engines}).encode()
            start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
            return [body]

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            return start_response(status, [*headers, ("X-Worker", str(os.getpid()))], exc_info)

        return router(environ, start)


application = _Showing()
