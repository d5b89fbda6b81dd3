"""What may go wrong between the router and an engine, as errors for the client."""

import errno
from typing import Final

from router.contract.errors import ApiError, overloaded
from router.request.outcome import Outcome

_RESOURCE_ERRNOS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""What the system says when it has no descriptor, memory or port left for another connection."""
_CODES: Final = {
    Outcome.UNREACHABLE: ("upstream_unreachable", "The engine could not be reached"),
    Outcome.BROKEN: ("upstream_incomplete", "The engine's answer was cut off or malformed"),
    Outcome.TIMED_OUT: ("upstream_timeout", "The engine did not answer in time"),
}

_OTHER_MESSAGES: Final = {
    "upstream_unreachable": "The engine closed the connection before it answered",
    "upstream_timeout": "The engine could not be reached in time",
}
"""What is said where a code is not the usual one of what happened."""


class EngineError(ApiError):
    """A request did not reach an engine, or its response did not come back.

    `outcome` is what the failure says about the engine. `is_stale_connection`: the engine had closed the reused
    connection before the request arrived, so it is safe to send the request again.
    """

    def __init__(
        self,
        outcome: Outcome,
        code: str | None = None,
        *,
        may_have_run: bool = True,
        is_stale_connection: bool = False,
    ) -> None:
        usual, message = _CODES[outcome]
        if code is not None and code != usual:
            message = _OTHER_MESSAGES.get(code, message)
        super().__init__(code or usual, message, may_have_run=may_have_run)
        self.outcome = outcome
        self.is_stale_connection = is_stale_connection


class DnsError(Exception):
    """A name server did not answer, or not with an answer; the message says how."""


def connect_error(error: OSError) -> ApiError:
    """Return the error for a connection that did not come about: nothing was sent.

    Where the router's own machine has no room for one, nothing is wrong with the engine.
    """
    if error.errno in _RESOURCE_ERRNOS:
        return overloaded()
    code = "upstream_timeout" if isinstance(error, TimeoutError) else "upstream_unreachable"
    return EngineError(Outcome.UNREACHABLE, code, may_have_run=False)


def reason_of(error: ApiError) -> str:
    """Return for the log why an engine could not be talked to, as the system says it."""
    cause = error.__cause__
    reason = str(getattr(cause, "strerror", "") or cause or "")
    return f"{error.message}: {reason}" if reason else error.message
