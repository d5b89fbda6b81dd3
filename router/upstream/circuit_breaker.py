"""The health of one engine as a value, and how each sign of it leads to the next: no clock, no chance of its own."""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from router.request.outcome import Outcome, TrialResult

MAX_OPEN_SECONDS: Final = 60.0
"""How long a circuit stays open at most before its next trial, unless the first time is set to be longer."""
TRIAL_COOLDOWN_SECONDS: Final = 5.0
"""How long after a trial none is made for 500s alone: a client whose requests all get them must not buy more."""
_JITTER: Final = 0.2
_MAX_DOUBLINGS: Final = 64
_FAILURES: Final = frozenset({Outcome.BROKEN, Outcome.TIMED_OUT, Outcome.UNAVAILABLE})


class HealthState(Enum):
    """What the last probe found, or a request after it."""

    HEALTHY = "healthy"
    DRAINING = "draining"
    """It answers its probe with 503: it takes no new work, while what runs goes on."""
    UNHEALTHY = "unhealthy"
    """It does not answer its probe, or answers anything else."""


class BreakerConfig(NamedTuple):
    """How many failures in a row open a circuit, and for how long the first time."""

    failures: int
    seconds: float


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """What is known of an engine.

    failures: requests in a row that broke, timed out or found it unavailable, since the last success.
    suspicions: requests in a row that it answered with 500 or the like, whoever's fault that was.
    openings: how often the circuit opened since a request succeeded.
    open_until: when an open circuit may have its trial; None: the circuit is closed.
    trial: whether a trial is under way.
    calm_until: when suspicions may next have a trial.
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
        """Whether another success would tell nothing new."""
        return not (self.failures or self.server_errors or self.openings or self.is_open)

    @property
    def takes_requests(self) -> bool:
        """Whether the engine gets requests of clients."""
        return self.state is HealthState.HEALTHY and not self.is_open


def add_jitter(seconds: float, random_number: float) -> float:
    """Return a time within a fifth of another, by a number drawn from [0, 1), so that processes do not act as one."""
    return seconds * (1 - _JITTER + 2 * _JITTER * random_number)


def record_outcome(
    health: EngineHealth, outcome: Outcome, breaker: BreakerConfig, now: float, random_number: float
) -> EngineHealth:
    """Return the health after a request; `health` itself when it told nothing new."""
    if outcome is Outcome.SUCCEEDED:
        return _reset(health)
    if outcome is Outcome.UNREACHABLE:
        return record_health_check(health, HealthState.UNHEALTHY)
    if health.is_open:
        # Late failures of requests that were under way must not put the trial off.
        return health
    if outcome in _FAILURES:
        failed = replace(health, failures=health.failures + 1)
        return _open(failed, breaker, now, random_number) if failed.failures >= breaker.failures else failed
    return replace(health, server_errors=health.server_errors + 1)


def record_health_check(health: EngineHealth, state: HealthState) -> EngineHealth:
    """Return the health after a probe. Its circuit is another matter: an engine may answer probes and nothing else."""
    return health if health.state is state else replace(health, state=state)


def half_open_at(health: EngineHealth, breaker: BreakerConfig) -> float:
    """Return when a trial of the engine is due: never (infinity) while there is no doubt, or its probe fails anyway."""
    if health.has_trial or health.state is not HealthState.HEALTHY:
        return math.inf
    if health.open_until is not None:
        return health.open_until
    return health.cooldown_until if health.server_errors >= breaker.failures else math.inf


def begin_trial(health: EngineHealth) -> EngineHealth:
    """Return the health while a trial is under way."""
    return replace(health, has_trial=True)


def end_trial(
    health: EngineHealth, result: TrialResult, breaker: BreakerConfig, now: float, random_number: float
) -> EngineHealth:
    """Return the health after a trial, whose verdict counts for nothing once a request has settled the doubt."""
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
