"""What is known of one request while it is served: what the access log and the metrics tell of it when it is over."""

import time
from dataclasses import dataclass, field
from typing import Any, Final

from router.contract.protocols import OTHER, Protocol
from router.contract.rules.budget import Tokens
from router.contract.schema.sections import Errors
from router.request.headers import request_id
from router.request.outcome import Outcome
from router.request.routes import protocol_of, raw_path
from router.request.trace import Trace

STREAM_ENDS: Final = ("done", "without_done", "encoded", "broken", "client_gone")
"""How a stream may end: with its protocol's last event (`[DONE]` in chat), properly without it, so encoded that nobody
sees; or it breaks off."""
RETRY_REASONS: Final = ("unreachable", "refused", "closed", "context")
"""Why a request is sent once more: no connection, a 429 or 503, a kept connection that had been closed, or a budget of
the router's that exceeds the engine's context."""

_IN_ENVIRON: Final = "router.request.context"


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """The facts of one request and its answer, each written by the step of the line that learns it.

    Nothing of a prompt, an answer or a key stands here. Times are of `time.monotonic()`, in seconds.
    """

    request_id: str
    method: str = ""
    protocol: Protocol = OTHER
    """The protocol that its client speaks, by the target."""
    route: str = ""
    """The path of the route; empty where there is none, so that clients cannot write into the log."""
    key_name: str | None = None
    """The name of the API key that the client showed."""
    model_asked: str | None = None
    model_served: str | None = None
    stream: bool = False
    rule: str | None = None
    """The rule of the contract that refused the request."""
    violations: tuple[str, ...] = ()
    """The parameters that violated the contract, all of them, whether it refused the request for that or not."""
    case: str | None = None
    """The case of the contract that was for the request."""
    errors: Errors | None = None
    """How the contract tells errors, where a case of it has other words than the contract at large."""
    tokens: Tokens | None = None
    """The output budget that went to an engine, where the contract sets one."""
    engine: str | None = None
    """The engine that answered, or was tried last."""
    attempts: int = 0
    """How many engines, or connections to one, the request was tried on."""
    retries: tuple[str, ...] = ()
    """Why it was sent once more, each time (RETRY_REASONS)."""
    attempted_engines: tuple[str, ...] = ()
    """The engine of each attempt."""
    upstream_errors: tuple[tuple[str, Outcome], ...] = ()
    """What went wrong at engines, in all attempts, each with its engine."""
    trace: Trace | None = None
    """Its trace, where traces are made."""
    stream_end: str | None = None
    """How the stream ended (STREAM_ENDS), if there was one; until it does, as if the client left."""
    status: int = 0
    code: str | None = None
    """The router's own error code, where it answered itself, also within a stream that broke off."""
    slot_acquired: bool = False
    """Is it counted as in flight?"""
    client_gone: bool = False
    bytes_in: int = 0
    bytes_out: int = 0
    started_at: float = field(default_factory=time.monotonic)
    body_read_seconds: float = 0.0
    """How long the body was waited for and read."""
    first_attempt_at: float | None = None
    """When the request was sent to an engine for the first time."""
    sent_at: float | None = None
    """When the request was sent to the engine that answered."""
    first_byte_at: float | None = None
    """When the first byte of that engine's answer came."""
    buffered_at: float | None = None
    """When as much of its body had come as is held back: the first piece of a stream, else all of it."""
    response_started_at: float | None = None
    """When the first piece of an answer was handed to the server."""
    ended_at: float = 0.0
    """When the answer was over."""


def context_of(environ: dict[str, Any]) -> RequestContext:
    """Return the exchange of a request; the first to ask makes it, which is the edge where there is one."""
    context: RequestContext | None = environ.get(_IN_ENVIRON)
    if context is None:
        protocol = protocol_of(raw_path(environ))
        context = RequestContext(request_id=request_id(environ), method=environ["REQUEST_METHOD"], protocol=protocol)
        environ[_IN_ENVIRON] = context
    return context
