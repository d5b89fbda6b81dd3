"""What a request showed of the engine that it was sent to."""

from enum import Enum
from http import HTTPStatus
from typing import Final

_UNAVAILABLE: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class Outcome(Enum):
    """How an attempt ended, as far as it tells of the engine; one that the client broke off tells nothing."""

    SUCCEEDED = "succeeded"
    """An answer came whole, or the engine refused in a way that shows it at work: anything but what follows."""
    UNREACHABLE = "unreachable"
    """No connection came about: refused, timed out, TLS failed, no such host."""
    BROKEN = "broken"
    """The connection broke, or the answer was malformed or cut."""
    TIMED_OUT = "timed out"
    """The first byte did not come, a stream fell silent, or the whole took too long."""
    UNAVAILABLE = "unavailable"
    """The engine, or what stands in front of it, answered 502, 503 or 504."""
    FAILED = "failed"
    """The engine answered 500 or another 5xx: it is sick, or the request was bad (llama.cpp says 500 to both)."""


def outcome_of(status: int) -> Outcome:
    """Return what a status of an engine's answer shows."""
    if status in _UNAVAILABLE:
        return Outcome.UNAVAILABLE
    return Outcome.FAILED if status >= HTTPStatus.INTERNAL_SERVER_ERROR else Outcome.SUCCEEDED
