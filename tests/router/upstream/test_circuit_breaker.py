"""The health of one engine: every sign of it, in every order."""

import math
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.request.outcome import Outcome, TrialResult, outcome_of, trial_result_of
from router.upstream.circuit_breaker import (
    MAX_OPEN_SECONDS,
    TRIAL_COOLDOWN_SECONDS,
    BreakerConfig,
    EngineHealth,
    HealthState,
    add_jitter,
    begin_trial,
    end_trial,
    half_open_at,
    record_health_check,
    record_outcome,
)

BREAKER = BreakerConfig(failures=3, seconds=2.0)
NOW = 1000.0
HALF = 0.5
COUNTED = (Outcome.BROKEN, Outcome.TIMED_OUT, Outcome.UNAVAILABLE)
HEALTHY = EngineHealth(HealthState.HEALTHY)
SUSPECTED = EngineHealth(HealthState.HEALTHY, server_errors=BREAKER.failures)
OPEN = EngineHealth(HealthState.HEALTHY, openings=1, open_until=NOW)


Happening = Outcome | HealthState | TrialResult | float
"""A request's outcome, what a probe found, a look for a due trial or its end, seconds that pass."""
HAPPENINGS: tuple[Happening, ...] = (*Outcome, *HealthState, *TrialResult, 30.0, 70.0)


def _after(health: EngineHealth, *outcomes: Outcome, now: float = NOW) -> EngineHealth:
    for outcome in outcomes:
        health = record_outcome(health, outcome, BREAKER, now, HALF)
    return health


def _tried(health: EngineHealth, verdict: TrialResult, now: float = NOW) -> EngineHealth:
    assert half_open_at(health, BREAKER) <= now
    return end_trial(begin_trial(health), verdict, BREAKER, now, HALF)


def _step(health: EngineHealth, happens: Happening) -> EngineHealth:
    match happens:
        case Outcome():
            return _after(health, happens)
        case HealthState():
            return record_health_check(health, happens)
        case TrialResult() if health.has_trial:
            return end_trial(health, happens, BREAKER, NOW, HALF)
        case TrialResult():
            return begin_trial(health) if half_open_at(health, BREAKER) <= NOW else health
        case _:
            return _later(health, happens)


def _later(health: EngineHealth, seconds: float) -> EngineHealth:
    """Return a health after some time, told as if it were still NOW: all times have come nearer."""
    until = None if health.open_until is None else max(health.open_until - seconds, NOW)
    return replace(health, open_until=until, cooldown_until=max(health.cooldown_until - seconds, NOW))


def _without_what_makes_no_difference(health: EngineHealth) -> EngineHealth:
    """Return a health with counts that have grown so far that more is the same, so that there are few of them."""
    return replace(
        health, server_errors=min(health.server_errors, BREAKER.failures + 1), openings=min(health.openings, 7)
    )


@cache
def _every_step() -> list[tuple[EngineHealth, Happening, EngineHealth]]:
    """Return whatever can happen to an engine in whatever state it can get into: before, what happens, after."""
    steps: list[tuple[EngineHealth, Happening, EngineHealth]] = []
    reached, waiting = {EngineHealth()}, [EngineHealth()]
    while waiting:
        before = waiting.pop()
        for happens in HAPPENINGS:
            after = _without_what_makes_no_difference(_step(before, happens))
            steps.append((before, happens, after))
            if after not in reached:
                reached.add(after)
                waiting.append(after)
    return steps


def test_a_success_always_closes() -> None:
    """Whatever happened before, a request that succeeded closes the circuit and makes every count start anew."""
    for before, happens, after in _every_step():
        if happens is Outcome.SUCCEEDED:
            assert after == replace(before, failures=0, server_errors=0, openings=0, open_until=None)


def test_500s_alone_never_open() -> None:
    """A circuit opens by a counted failure that is one too many, or by a trial that found the engine broken."""
    opened = [(before, happens) for before, happens, after in _every_step() if after.is_open and not before.is_open]
    assert {happens for _, happens in opened} == {*COUNTED, TrialResult.BROKEN}
    for before, happens in opened:
        if happens is TrialResult.BROKEN:
            assert before.has_trial
            assert before.server_errors >= BREAKER.failures
        else:
            assert before.failures == BREAKER.failures - 1


def test_only_a_success_or_a_good_trial_closes() -> None:
    """Neither time nor a probe closes a circuit."""
    closed = [(before, happens) for before, happens, after in _every_step() if before.is_open and not after.is_open]
    assert {happens for _, happens in closed} == {Outcome.SUCCEEDED, TrialResult.WORKS}
    assert all(before.has_trial for before, happens in closed if happens is TrialResult.WORKS)


def test_there_are_never_two_trials_at_once() -> None:
    """While a trial is under way none is due, and each begins at its time and for an engine whose probe succeeds."""
    for before, _, after in _every_step():
        if after.has_trial:
            assert half_open_at(after, BREAKER) == math.inf
        if after.has_trial and not before.has_trial:
            assert before.state is HealthState.HEALTHY
            assert (before.open_until or before.cooldown_until) <= NOW


def test_after_a_trial_there_is_a_calm() -> None:
    """When a trial is over, whatever it showed, no 500s bring about another one for some seconds."""
    for before, _, after in _every_step():
        if before.has_trial and not after.has_trial:
            assert after.cooldown_until == NOW + TRIAL_COOLDOWN_SECONDS
            assert after.is_open or half_open_at(after, BREAKER) > NOW


def test_an_engine_that_works_comes_back() -> None:
    """From whatever happened, good probes and a good trial in time bring an engine back, without any request."""
    for health in {after for _, _, after in _every_step()}:
        well = _later(record_health_check(replace(health, has_trial=False), HealthState.HEALTHY), MAX_OPEN_SECONDS)
        if half_open_at(well, BREAKER) <= NOW:
            well = _tried(well, TrialResult.WORKS)
        assert well.takes_requests


def test_every_state_of_an_engine_is_reached() -> None:
    """The steps above cover open and closed circuits, in a trial and not, in every state of the probe."""
    reached = {(health.state, health.is_open, health.has_trial) for health, _, _ in _every_step()}
    assert len(reached) == 3 * 2 * 2


@settings(deadline=None)
@given(st.integers(0, 5000), st.floats(0.01, 600), st.floats(0, 1, exclude_max=True))
def test_the_time_to_the_trial_is_bounded(openings: int, seconds: float, random_number: float) -> None:
    """However often a circuit opened, it opens for most of the time that is set at least, and for a minute at most."""
    breaker = BreakerConfig(1, seconds)
    opened = record_outcome(
        EngineHealth(HealthState.HEALTHY, openings=openings), Outcome.BROKEN, breaker, 0.0, random_number
    )
    assert opened.open_until is not None
    assert 0.79 * seconds <= opened.open_until <= max(MAX_OPEN_SECONDS, seconds)


@pytest.mark.parametrize("outcome", COUNTED)
def test_counted_failures_in_a_row_open(outcome: Outcome) -> None:
    """As many failures in a row as are set open the circuit, and one fewer does not."""
    almost = _after(HEALTHY, *[outcome] * (BREAKER.failures - 1))
    assert almost.takes_requests
    opened = _after(almost, outcome)
    assert not opened.takes_requests
    assert half_open_at(opened, BREAKER) == NOW + BREAKER.seconds


def test_failures_of_different_kinds_count_together() -> None:
    """A row of failures may be of any kinds that count, and a 500 between does not end it."""
    failures = (Outcome.BROKEN, Outcome.TIMED_OUT, Outcome.FAILED, Outcome.UNAVAILABLE)
    assert _after(HEALTHY, *failures).is_open


@pytest.mark.parametrize("outcome", [*COUNTED, Outcome.FAILED])
def test_a_success_between_ends_the_row(outcome: Outcome) -> None:
    """Failures that are not in a row neither open a circuit nor make a doubt."""
    health = HEALTHY
    for _ in range(10):
        health = _after(health, *[outcome] * (BREAKER.failures - 1), Outcome.SUCCEEDED)
    assert health == HEALTHY


def test_late_failures_do_not_put_the_trial_off() -> None:
    """Requests that were under way when the circuit opened may fail without making it longer."""
    opened = _after(HEALTHY, *[Outcome.BROKEN] * BREAKER.failures)
    assert _after(opened, *COUNTED, Outcome.FAILED, now=NOW + 1.5) == opened


def test_unreachable_takes_out_at_once() -> None:
    """One request without a connection is enough, until a probe; the circuit has no part in it."""
    lost = _after(HEALTHY, Outcome.UNREACHABLE)
    assert (lost.state, lost.is_open) == (HealthState.UNHEALTHY, False)
    assert record_health_check(lost, HealthState.HEALTHY) == HEALTHY


def test_500s_in_a_row_are_a_doubt_only() -> None:
    """An engine that answers 500 goes on getting requests, and is to be tried at once."""
    doubted = _after(HEALTHY, *[Outcome.FAILED] * 100)
    assert doubted.takes_requests
    assert half_open_at(doubted, BREAKER) <= NOW


@pytest.mark.parametrize("state", [HealthState.DRAINING, HealthState.UNHEALTHY])
@pytest.mark.parametrize("health", [OPEN, SUSPECTED])
def test_no_trial_while_the_probe_fails(health: EngineHealth, state: HealthState) -> None:
    """An engine whose probe fails is not sent a trial; it has one as soon as its probe succeeds."""
    out = record_health_check(health, state)
    assert half_open_at(out, BREAKER) == math.inf
    assert half_open_at(record_health_check(out, HealthState.HEALTHY), BREAKER) <= NOW


@pytest.mark.parametrize("health", [OPEN, SUSPECTED])
def test_a_good_trial_clears(health: EngineHealth) -> None:
    """After a trial that worked the engine gets requests, and its failures count from nothing."""
    cleared = _tried(health, TrialResult.WORKS)
    assert cleared.takes_requests
    assert (cleared.failures, cleared.server_errors) == (0, 0)


@pytest.mark.parametrize("health", [OPEN, SUSPECTED])
def test_a_bad_trial_opens(health: EngineHealth) -> None:
    """After a trial that found it broken the engine gets nothing until the next trial."""
    assert _tried(health, TrialResult.BROKEN).open_until == NOW + BREAKER.seconds * 2.0**health.openings


def test_the_time_doubles_until_a_request_succeeds() -> None:
    """Each opening is twice as long as the one before, up to a minute; good trials do not end that, a success does."""
    health, lengths = HEALTHY, []
    for _ in range(7):
        health = _after(health, *[Outcome.BROKEN] * BREAKER.failures)
        assert health.open_until is not None
        lengths.append(health.open_until - NOW)
        health = _tried(replace(health, open_until=NOW), TrialResult.WORKS)
    assert lengths == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    again = _after(health, Outcome.SUCCEEDED, *[Outcome.BROKEN] * BREAKER.failures)
    assert again.open_until == NOW + 2.0


def test_a_longer_time_than_a_minute_may_be_set() -> None:
    """Where the first time is set to more than a minute it holds, and does not grow."""
    patient = BreakerConfig(failures=1, seconds=300.0)
    opened = record_outcome(
        record_outcome(HEALTHY, Outcome.BROKEN, patient, NOW, HALF), Outcome.BROKEN, patient, NOW, HALF
    )
    assert opened.open_until == NOW + 300.0


def test_a_busy_engine_is_neither_cleared_nor_condemned() -> None:
    """A trial that got 429 leaves an open circuit open for the same time again, and a closed one closed."""
    assert _tried(OPEN, TrialResult.UNCLEAR).open_until == NOW + BREAKER.seconds
    doubted = _tried(SUSPECTED, TrialResult.UNCLEAR)
    assert doubted.takes_requests
    assert half_open_at(doubted, BREAKER) == NOW + TRIAL_COOLDOWN_SECONDS


@pytest.mark.parametrize("health", [OPEN, SUSPECTED])
@pytest.mark.parametrize("verdict", TrialResult)
def test_a_request_that_succeeds_during_a_trial_outweighs_it(health: EngineHealth, verdict: TrialResult) -> None:
    """A trial that waits in a queue too long opens nothing when clients were served meanwhile."""
    vouched = record_outcome(begin_trial(health), Outcome.SUCCEEDED, BREAKER, NOW, HALF)
    assert end_trial(vouched, verdict, BREAKER, NOW, HALF).takes_requests


def test_nothing_new_is_the_same_value() -> None:
    """A success where nothing was wrong, and a probe that finds the same, give the very value back."""
    assert record_outcome(HEALTHY, Outcome.SUCCEEDED, BREAKER, NOW, HALF) is HEALTHY
    assert record_health_check(HEALTHY, HealthState.HEALTHY) is HEALTHY


@settings(deadline=None)
@given(st.floats(0, 1, exclude_max=True))
def test_jitter_stays_within_a_fifth(random_number: float) -> None:
    """A jittered time is at least four fifths and at most six fifths of what is set."""
    assert 8.0 <= add_jitter(10.0, random_number) <= 12.0


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ((200, 206, 301, 400, 401, 404, 413, 422, 429, 499), Outcome.SUCCEEDED),
        ((502, 503, 504), Outcome.UNAVAILABLE),
        ((500, 501, 505, 507, 529, 599), Outcome.FAILED),
    ],
)
def test_a_status_shows_an_outcome(statuses: tuple[int, ...], outcome: Outcome) -> None:
    """What a client did wrong is no failure of the engine, and a 500 is another than a 503."""
    assert {outcome_of(status) for status in statuses} == {outcome}


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ((200, 302, 400, 401, 404, 422, 501), TrialResult.WORKS),
        ((429,), TrialResult.UNCLEAR),
        ((500, 502, 503, 504, 599), TrialResult.BROKEN),
    ],
)
def test_a_status_gives_a_verdict(statuses: tuple[int, ...], verdict: TrialResult) -> None:
    """An engine that refuses the trial as one that does not chat works, one that answers another 5xx is broken."""
    assert {trial_result_of(status) for status in statuses} == {verdict}
