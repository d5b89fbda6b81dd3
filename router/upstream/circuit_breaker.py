"""The health of one engine as a value, and how each sign of it leads to the next: no clock, no chance of its own."""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from router.request.outcome import Outcome, TrialResult

LONGEST_OPEN_SECONDS: Final = 60.0
"""How long a circuit stays open at most before its next trial, unless the first time is set to be longer."""
CALM_SECONDS: Final = 5.0
"""How long after a trial none is made for 500s alone: a client whose requests all get them must not buy more."""
_SPREAD: Final = 0.2
_MOST_DOUBLINGS: Final = 64
_COUNTED: Final = frozenset({Outcome.BROKEN, Outcome.TIMED_OUT, Outcome.UNAVAILABLE})


class State(Enum):
    """What the last probe found, or a request after it."""

    HEALTHY = "healthy"
    DRAINING = "draining"
    """It answers its probe with 503: it takes no new work, while what runs goes on."""
    UNHEALTHY = "unhealthy"
    """It does not answer its probe, or answers anything else."""


class Breaker(NamedTuple):
    """How many failures in a row open a circuit, and for how long the first time."""

    failures: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of an engine.

    failures: requests in a row that broke, timed out or found it unavailable, since the last success.
    suspicions: requests in a row that it answered with 500 or the like, whoever's fault that was.
    openings: how often the circuit opened since a request succeeded.
    open_until: when an open circuit may have its trial; None: the circuit is closed.
    trial: whether a trial is under way.
    calm_until: when suspicions may next have a trial.
    """

    state: State = State.UNHEALTHY
    failures: int = 0
    suspicions: int = 0
    openings: int = 0
    open_until: float | None = None
    trial: bool = False
    calm_until: float = -math.inf

    @property
    def is_open(self) -> bool:
        """Whether the circuit is open."""
        return self.open_until is not None

    @property
    def is_beyond_doubt(self) -> bool:
        """Whether another success would tell nothing new."""
        return not (self.failures or self.suspicions or self.openings or self.is_open)

    @property
    def takes_requests(self) -> bool:
        """Whether the engine gets requests of clients."""
        return self.state is State.HEALTHY and not self.is_open


def jittered(seconds: float, chance: float) -> float:
    """Return a time within a fifth of another, by a number drawn from [0, 1), so that processes do not act as one."""
    return seconds * (1 - _SPREAD + 2 * _SPREAD * chance)


def noted(health: Health, outcome: Outcome, breaker: Breaker, now: float, chance: float) -> Health:
    """Return the health after a request; `health` itself when it told nothing new."""
    if outcome is Outcome.SUCCEEDED:
        return _cleared(health)
    if outcome is Outcome.UNREACHABLE:
        return seen(health, State.UNHEALTHY)
    if health.is_open:
        # Late failures of requests that were under way must not put the trial off.
        return health
    if outcome in _COUNTED:
        failed = replace(health, failures=health.failures + 1)
        return _opened(failed, breaker, now, chance) if failed.failures >= breaker.failures else failed
    return replace(health, suspicions=health.suspicions + 1)


def seen(health: Health, state: State) -> Health:
    """Return the health after a probe. Its circuit is another matter: an engine may answer probes and nothing else."""
    return health if health.state is state else replace(health, state=state)


def trial_at(health: Health, breaker: Breaker) -> float:
    """Return when a trial of the engine is due: never (infinity) while there is no doubt, or its probe fails anyway."""
    if health.trial or health.state is not State.HEALTHY:
        return math.inf
    if health.open_until is not None:
        return health.open_until
    return health.calm_until if health.suspicions >= breaker.failures else math.inf


def trial_begun(health: Health) -> Health:
    """Return the health while a trial is under way."""
    return replace(health, trial=True)


def trial_ended(health: Health, verdict: TrialResult, breaker: Breaker, now: float, chance: float) -> Health:
    """Return the health after a trial, whose verdict counts for nothing once a request has settled the doubt."""
    ended = replace(health, trial=False, calm_until=now + CALM_SECONDS)
    if not health.is_open and health.suspicions < breaker.failures:
        return ended
    if verdict is TrialResult.WORKS:
        return replace(ended, failures=0, suspicions=0, open_until=None)
    if verdict is TrialResult.BROKEN:
        return _opened(ended, breaker, now, chance)
    if health.is_open:
        return replace(ended, open_until=now + _open_seconds(health.openings, breaker, chance))
    return ended


def _cleared(health: Health) -> Health:
    if health.is_beyond_doubt:
        return health
    return replace(health, failures=0, suspicions=0, openings=0, open_until=None)


def _opened(health: Health, breaker: Breaker, now: float, chance: float) -> Health:
    openings = health.openings + 1
    until = now + _open_seconds(openings, breaker, chance)
    return replace(health, failures=0, suspicions=0, openings=openings, open_until=until)


def _open_seconds(openings: int, breaker: Breaker, chance: float) -> float:
    doubled = breaker.seconds * 2.0 ** min(openings - 1, _MOST_DOUBLINGS)
    return min(jittered(doubled, chance), max(LONGEST_OPEN_SECONDS, breaker.seconds))
