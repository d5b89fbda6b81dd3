"""The circuit breaker of one engine: its health as a value, and pure functions that return the next one."""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from router.request.outcome import Outcome, TrialResult

MAX_OPEN_SECONDS: Final = 60.0
"""Longest time that a circuit is open before its next trial, unless the configured first time is longer."""
TRIAL_COOLDOWN_SECONDS: Final = 5.0
"""Time after a trial without another one for 500s alone, so that a client whose requests all get them causes few."""
_JITTER: Final = 0.2
_MAX_DOUBLINGS: Final = 64
_FAILURES: Final = frozenset({Outcome.BROKEN, Outcome.TIMED_OUT, Outcome.UNAVAILABLE})


class HealthState(Enum):
    """What the last health check found, or a request after it."""

    HEALTHY = "healthy"
    DRAINING = "draining"
    """Its health check gets a 503: it takes no new requests and finishes those it has."""
    UNHEALTHY = "unhealthy"
    """Its health check gets no response, or any other status."""


class BreakerConfig(NamedTuple):
    """How many failures in a row open a circuit, and for how long the first time."""

    failures: int
    seconds: float


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """The health of an engine.

    failures: requests in a row that broke, timed out or found it unavailable, since the last success.
    server_errors: requests in a row that got a 500 or similar, whether the engine or the request caused it.
    openings: how often the circuit opened since a request succeeded.
    open_until: when an open circuit becomes half-open; None: the circuit is closed.
    has_trial: whether a half-open trial is running.
    cooldown_until: until when server errors alone cause no trial.
    """

    state: HealthState = HealthState.UNHEALTHY
    failures: int = 0
    server_errors: int = 0
    openings: int = 0
    open_until: float | None = None
    has_trial: bool = False
    cooldown_until: float = -math.inf

    @property
    def is_open(self) -> bool:
        """Whether the circuit is open."""
        return self.open_until is not None

    @property
    def has_no_failures(self) -> bool:
        """Whether no failure is recorded, so that a success changes nothing."""
        return not (self.failures or self.server_errors or self.openings or self.is_open)

    @property
    def takes_requests(self) -> bool:
        """Whether the engine gets requests of clients."""
        return self.state is HealthState.HEALTHY and not self.is_open


def add_jitter(seconds: float, random_number: float) -> float:
    """Return a time with a jitter of 20 %, by a random number from [0, 1), so that processes do not act at once."""
    return seconds * (1 - _JITTER + 2 * _JITTER * random_number)


def record_outcome(
    health: EngineHealth, outcome: Outcome, breaker: BreakerConfig, now: float, random_number: float
) -> EngineHealth:
    """Return the health after a request; `health` itself when nothing changed."""
    if outcome is Outcome.SUCCEEDED:
        return _reset(health)
    if outcome is Outcome.UNREACHABLE:
        return record_health_check(health, HealthState.UNHEALTHY)
    if health.is_open:
        # Late failures of requests that were running must not delay the trial.
        return health
    if outcome in _FAILURES:
        failed = replace(health, failures=health.failures + 1)
        return _open(failed, breaker, now, random_number) if failed.failures >= breaker.failures else failed
    return replace(health, server_errors=health.server_errors + 1)


def record_health_check(health: EngineHealth, state: HealthState) -> EngineHealth:
    """Return the health after a health check. The circuit stays: some engines pass health checks and fail requests."""
    return health if health.state is state else replace(health, state=state)


def half_open_at(health: EngineHealth, breaker: BreakerConfig) -> float:
    """Return when a trial may begin; infinity without a reason for one, or while the health check fails."""
    if health.has_trial or health.state is not HealthState.HEALTHY:
        return math.inf
    if health.open_until is not None:
        return health.open_until
    return health.cooldown_until if health.server_errors >= breaker.failures else math.inf


def begin_trial(health: EngineHealth) -> EngineHealth:
    """Return the health while a trial runs."""
    return replace(health, has_trial=True)


def end_trial(
    health: EngineHealth, result: TrialResult, breaker: BreakerConfig, now: float, random_number: float
) -> EngineHealth:
    """Return the health after a trial; its result is ignored if a request has succeeded meanwhile."""
    ended = replace(health, has_trial=False, cooldown_until=now + TRIAL_COOLDOWN_SECONDS)
    if not health.is_open and health.server_errors < breaker.failures:
        return ended
    if result is TrialResult.WORKS:
        return replace(ended, failures=0, server_errors=0, open_until=None)
    if result is TrialResult.BROKEN:
        return _open(ended, breaker, now, random_number)
    if health.is_open:
        return replace(ended, open_until=now + _open_seconds(health.openings, breaker, random_number))
    return ended


def _reset(health: EngineHealth) -> EngineHealth:
    if health.has_no_failures:
        return health
    return replace(health, failures=0, server_errors=0, openings=0, open_until=None)


def _open(health: EngineHealth, breaker: BreakerConfig, now: float, random_number: float) -> EngineHealth:
    openings = health.openings + 1
    until = now + _open_seconds(openings, breaker, random_number)
    return replace(health, failures=0, server_errors=0, openings=openings, open_until=until)


def _open_seconds(openings: int, breaker: BreakerConfig, random_number: float) -> float:
    doubled = breaker.seconds * 2.0 ** min(openings - 1, _MAX_DOUBLINGS)
    return min(add_jitter(doubled, random_number), max(MAX_OPEN_SECONDS, breaker.seconds))
