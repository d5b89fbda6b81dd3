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


class TrialResult(Enum):
    """What a trial showed of an engine in doubt: a request of the router's own, which nobody can have made bad."""

    WORKS = "works"
    BROKEN = "broken"
    UNCLEAR = "unclear"
    """It answered 429: it has too much to do, which proves neither."""


def trial_result_of(status: int) -> TrialResult:
    """Return what the status of the answer to a trial shows; a 400, 404 or 501 is that of an engine that does not chat.

    501 is how llama.cpp refuses a route that it was not started for; taken as broken, an engine would never come back.
    """
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return TrialResult.UNCLEAR
    works = status < HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.NOT_IMPLEMENTED
    return TrialResult.WORKS if works else TrialResult.BROKEN
