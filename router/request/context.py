"""The request context: the facts of one request, which the access log, the metrics and the traces report at its end."""

import time
from typing import Any, Final

from router.contract.protocols import OTHER, Protocol
from router.contract.rules.budget import Tokens
from router.contract.schema.sections import Errors
from router.request.headers import request_id
from router.request.outcome import Outcome
from router.request.request import Request
from router.request.routes import protocol_of
from router.request.trace import Trace

STREAM_ENDS: Final = ("done", "without_done", "encoded", "broken", "client_gone")
"""How a stream may end: with its protocol's last event (`[DONE]` in chat); complete without it; encoded, so that its
end is not visible; broken off; or left by its client."""
RETRY_REASONS: Final = ("unreachable", "refused", "closed", "context")
"""Why a request is retried: no connection, a 429 or 503, a stale kept-alive connection, or a token limit set by the
router that exceeds the engine's context."""


class RequestContext:
    """The facts of one request and its response; each step of the pipeline sets its own.

    What a request does not set keeps the default of the class: most requests set a third.

    It never contains a prompt, a response body or a key. Times are of `time.monotonic()`, in seconds.
    """

    request_id: str
    method: str = ""
    protocol: Protocol = OTHER
    """The protocol of the client, by the request target."""
    route: str = ""
    """The path of the route; empty for an unknown route, so that clients cannot write into the log."""
    key_name: str | None = None
    """The name of the client's API key."""
    model_asked: str | None = None
    model_served: str | None = None
    is_default_model: bool = False
    """Whether the request names no model, and `model_asked` is the contract's default."""
    stream: bool = False
    rule: str | None = None
    """The rule of the contract that rejected the request."""
    violations: tuple[str, ...] = ()
    """All parameters that violated the contract, also if the request was not rejected for them."""
    case: str | None = None
    """The case of the contract that applied to the request."""
    errors: Errors | None = None
    """The error texts of the contract's case, if it has its own."""
    tokens: Tokens | None = None
    """The token limit that was sent to an engine, if the contract sets one."""
    engine: str | None = None
    """The engine that responded, or the last one that was tried."""
    attempts: int = 0
    """Number of attempts: engines, or connections to one, that the request was sent to."""
    retries: tuple[str, ...] = ()
    """The reason of each retry (RETRY_REASONS)."""
    attempted_engines: tuple[str, ...] = ()
    """The engine of each attempt."""
    upstream_errors: tuple[tuple[str, Outcome], ...] = ()
    """The errors of engines in all attempts, each with its engine."""
    trace: Trace | None = None
    """Its trace, if traces are on."""
    stream_end: str | None = None
    """How the stream ended (STREAM_ENDS), if there was one; "client_gone" until it ends otherwise."""
    status: int = 0
    code: str | None = None
    """The router's own error code, if it responded with an error, also within a stream that broke off."""
    slot_acquired: bool = False
    """Whether it is counted as in flight."""
    client_gone: bool = False
    bytes_in: int = 0
    bytes_out: int = 0
    started_at: float
    body_read_seconds: float = 0.0
    """Time to read the body, waiting included."""
    first_attempt_at: float | None = None
    """Time of the first attempt at an engine."""
    sent_at: float | None = None
    """Time of the last attempt: at the engine that responded."""
    first_byte_at: float | None = None
    """Time of the first byte of that engine's response."""
    buffered_at: float | None = None
    """Time when the buffered part of its body was complete: the first piece of a stream, else the whole body."""
    response_started_at: float | None = None
    """Time when the first piece of the response was given to the server."""
    ended_at: float = 0.0
    """Time when the response ended."""

    def __init__(self, request_id: str, method: str = "", protocol: Protocol = OTHER, **known: Any) -> None:  # noqa: ANN401 - any of the above
        self.request_id = request_id
        self.method = method
        self.protocol = protocol
        self.started_at = time.monotonic()
        if known:
            vars(self).update(known)


def context_of(request: Request) -> RequestContext:
    """Return a new context for a request."""
    return RequestContext(request_id(request.header("x-request-id")), request.method, protocol_of(request.path))
