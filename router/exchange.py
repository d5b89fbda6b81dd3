"""What is known of one request while it is served: what the access log tells of it when it is over."""

import time
from dataclasses import dataclass, field
from typing import Any, Final

from router.headers import request_id

_IN_ENVIRON: Final = "router.exchange"


@dataclass(slots=True, kw_only=True)
class Exchange:
    """The facts of one request and its answer; each is written once, by the step of the line that learns it.

    Nothing of a prompt, an answer or a key stands here. Times are of `time.monotonic()`, in seconds.
    """

    request_id: str
    method: str = ""
    route: str = ""
    """The path of the route; empty where there is none, so that clients cannot write into the log."""
    key_name: str | None = None
    """The name of the API key that the client showed."""
    model_asked: str | None = None
    model_served: str | None = None
    stream: bool = False
    rule: str | None = None
    """The rule of the contract that refused the request."""
    engine: str | None = None
    """The engine that answered, or was tried last."""
    attempts: int = 0
    """How many engines, or connections to one, the request was tried on."""
    status: int = 0
    code: str | None = None
    """The router's own error code, where it answered itself, also within a stream that broke off."""
    has_place: bool = False
    """Is it counted as in flight?"""
    client_gone: bool = False
    bytes_in: int = 0
    bytes_out: int = 0
    started: float = field(default_factory=time.monotonic)
    sent: float | None = None
    """When the request was sent to the engine that answered."""
    first_byte: float | None = None
    """When the first byte of that engine's answer came."""


def exchange_of(environ: dict[str, Any]) -> Exchange:
    """Return the exchange of a request; the first to ask makes it, which is the edge where there is one."""
    exchange: Exchange | None = environ.get(_IN_ENVIRON)
    if exchange is None:
        exchange = environ[_IN_ENVIRON] = Exchange(request_id=request_id(environ), method=environ["REQUEST_METHOD"])
    return exchange
