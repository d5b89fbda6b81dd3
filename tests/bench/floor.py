"""The least that a WSGI app under gunicorn can do with a request; the router is measured beside it."""

from collections.abc import Callable, Iterable
from typing import Any

ANSWER = b'{"object": "chat.completion"}'


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Read the body and answer with a fixed one."""
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(ANSWER)))])
    return [ANSWER]
