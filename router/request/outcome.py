"""The outcome of an attempt at an engine, and the result of a half-open trial."""

from enum import Enum
from http import HTTPStatus
from typing import Final

_UNAVAILABLE: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class Outcome(Enum):
    """How an attempt ended, as a sign of the engine's health; an attempt that the client aborted has none."""

    SUCCEEDED = "succeeded"
    """A complete response, also an error that a healthy engine gives: everything but the following."""
    UNREACHABLE = "unreachable"
    """No connection: refused, timed out, TLS failed, unknown host."""
    BROKEN = "broken"
    """The connection broke, or the response was malformed or truncated."""
    TIMED_OUT = "timed out"
    """A timeout: of the first byte, between two reads, or of the whole request."""
    UNAVAILABLE = "unavailable"
    """The engine, or a proxy in front of it, returned 502, 503 or 504."""
    FAILED = "failed"
    """The engine returned 500 or another 5xx: it is unhealthy, or the request was bad (llama.cpp uses 500 for both)."""


_SERVER_ERROR: Final = 500
_SUCCEEDED: Final = Outcome.SUCCEEDED  # reading a member of an enumeration takes longer than a call


def outcome_of(status: int) -> Outcome:
    """Return the outcome of a response by its status."""
    if status < _SERVER_ERROR:
        return _SUCCEEDED
    return Outcome.UNAVAILABLE if status in _UNAVAILABLE else Outcome.FAILED


class TrialResult(Enum):
    """The result of a half-open trial: a request of the router's own, which is known to be valid."""

    WORKS = "works"
    BROKEN = "broken"
    UNCLEAR = "unclear"
    """It returned 429: it is overloaded, which shows neither."""


def trial_result_of(status: int) -> TrialResult:
    """Return the result of a trial by its status; 400, 404 and 501 mean that the engine does not chat, but works.

    llama.cpp returns 501 for a route that it was not started for; as broken, it would never get requests again.
    """
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return TrialResult.UNCLEAR
    works = status < HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.NOT_IMPLEMENTED
    return TrialResult.WORKS if works else TrialResult.BROKEN
