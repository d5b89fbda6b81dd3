"""Errors between the router and an engine, with the codes and messages for the client."""

import errno
from typing import Final

from router.contract.errors import ApiError, overloaded
from router.request.outcome import Outcome

_RESOURCE_ERRNOS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""Errors of the system when no descriptor, memory or port is left for a connection."""
_CODES: Final = {
    Outcome.UNREACHABLE: ("upstream_unreachable", "The engine could not be reached"),
    Outcome.BROKEN: ("upstream_incomplete", "The engine's response was cut off or malformed"),
    Outcome.TIMED_OUT: ("upstream_timeout", "The engine did not respond in time"),
}

_OTHER_MESSAGES: Final = {
    "upstream_unreachable": "The engine closed the connection before it responded",
    "upstream_timeout": "The engine could not be reached in time",
}
"""Messages where a code is not the usual one of its outcome."""


class EngineError(ApiError):
    """A request did not reach an engine, or its response did not arrive completely.

    `outcome` is the outcome that is recorded for the engine. `is_stale_connection`: the engine had closed the reused
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
    """A DNS query failed; the message says how."""


def connect_error(error: OSError) -> ApiError:
    """Return the error for a connection that could not be opened: nothing was sent.

    If the router's own machine lacks resources, the engine is not at fault.
    """
    if error.errno in _RESOURCE_ERRNOS:
        return overloaded()
    code = "upstream_timeout" if isinstance(error, TimeoutError) else "upstream_unreachable"
    return EngineError(Outcome.UNREACHABLE, code, may_have_run=False)


def reason_of(error: ApiError) -> str:
    """Return for the log what failed, with the system's error text."""
    cause = error.__cause__
    reason = str(getattr(cause, "strerror", "") or cause or "")
    return f"{error.message}: {reason}" if reason else error.message
