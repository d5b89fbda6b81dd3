"""The fleet: what is known of each engine, which may be chosen, and what the log says of it."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from router.contract.decide import ServedIds
from router.request.outcome import Outcome, TrialResult
from router.upstream.circuit_breaker import BreakerConfig, HealthState
from router.upstream.engine_state import HealthCheckResult
from router.upstream.registry import EngineRegistry

A, B, C = "http://a", "http://b", "http://c"
FAILURES = 3


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _cards(*names: str) -> tuple[dict[str, str], ...]:
    return tuple({"id": name} for name in names)


def _registry(
    *healthy: str, ids: tuple[str, ...] = (), has_aliases: bool = False, clock: _Clock | None = None
) -> EngineRegistry:
    breaker = BreakerConfig(FAILURES, seconds=2.0)
    registry = EngineRegistry(
        (A, B, C), ids, has_aliases=has_aliases, breaker=breaker, clock=clock or _Clock(), rng=lambda: 0.5
    )
    for engine in healthy:
        registry.record_health_check(engine, HealthCheckResult(HealthState.HEALTHY, _cards("m")))
    return registry


def _note(registry: EngineRegistry, engine: str, outcome: Outcome, times: int = FAILURES) -> None:
    for _ in range(times):
        registry.record_outcome(engine, outcome)


def _picked(registry: EngineRegistry, model: str = "m", excluding: tuple[str, ...] = ()) -> set[str]:
    return set(registry.candidates(model, excluding))


def test_nothing_is_known_at_first() -> None:
    """Before any probe no engine is healthy, no id is known, and none may be chosen."""
    registry = _registry()
    assert registry.healthy_engines() == ()
    assert registry.served_ids() == ServedIds((), routes_aliases=False, is_complete=False)
    assert registry.candidates("m") == ()


def test_healthy_engines_are_the_candidates() -> None:
    """Candidates are the healthy engines, in the configured order."""
    assert _registry(C, A).candidates("m") == (A, C)


def test_an_unreachable_engine_is_left_out_until_it_is_learnt_anew() -> None:
    """An engine that was found unreachable is not picked before a probe finds it healthy."""
    registry = _registry(A, B)
    registry.record_outcome(A, Outcome.UNREACHABLE)
    assert _picked(registry) == {B}
    registry.record_outcome(A, Outcome.SUCCEEDED)  # begun before
    assert _picked(registry) == {B}
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("m")))
    assert _picked(registry) == {A, B}


def test_a_draining_engine_gets_nothing_new() -> None:
    """An engine that drains is not picked."""
    registry = _registry(A, B)
    registry.record_health_check(A, HealthCheckResult(HealthState.DRAINING))
    assert _picked(registry) == {B}


def test_an_engine_that_keeps_failing_is_left_out_until_its_trial() -> None:
    """Behind an open circuit an engine gets nothing, whatever its probes say, until a trial after the cool-down."""
    clock = _Clock()
    registry = _registry(A, B, clock=clock)
    _note(registry, A, Outcome.UNAVAILABLE)
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY))
    assert _picked(registry) == {B}
    assert not registry.begin_trial(A)
    clock.now += 2.0
    assert _picked(registry) == {B}
    assert registry.begin_trial(A)
    assert not registry.begin_trial(A)
    registry.end_trial(A, TrialResult.WORKS, "it works")
    assert _picked(registry) == {A, B}


def test_one_of_many_threads_gets_the_trial() -> None:
    """Of all that look at an engine at once, one is told to try it, and every failure they note is counted."""
    clock = _Clock()
    registry = _registry(A, clock=clock)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: registry.record_outcome(A, Outcome.BROKEN), range(FAILURES)))
        assert registry.state_counts()["open"] == 1
        clock.now += 60.0
        assert sum(pool.map(lambda _: registry.begin_trial(A), range(100))) == 1


def test_a_fleet_that_failed_altogether_has_nothing_to_pick() -> None:
    """Where every circuit is open the router says so, rather than to bother engines that fail."""
    registry = _registry(A, B)
    for engine in (A, B):
        _note(registry, engine, Outcome.BROKEN)
    assert registry.candidates("m") == ()
    assert registry.not_ready_reason() == "every healthy engine failed too often and waits for its trial"


def test_what_was_tried_already_is_not_picked_again() -> None:
    """Engines that are excluded are passed over, and whether another is left can be asked."""
    registry = _registry(A, B)
    assert _picked(registry, excluding=(A,)) == {B}
    assert registry.has_candidates("m", {A})
    assert not registry.has_candidates("m", {A, B})
    assert registry.candidates("m", {A, B}) == ()


def test_engines_are_counted_by_state() -> None:
    """The counts tell the engines of each state, and the open circuits among them all."""
    registry = _registry(A, B)
    registry.record_health_check(B, HealthCheckResult(HealthState.DRAINING))
    _note(registry, A, Outcome.TIMED_OUT)
    assert registry.state_counts() == {"configured": 3, "healthy": 1, "draining": 1, "unhealthy": 1, "open": 1}


def test_a_model_is_asked_of_those_that_list_it() -> None:
    """Engines that list other models are passed over, and so is one that has given no list."""
    registry = _registry()
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("x")))
    registry.record_health_check(B, HealthCheckResult(HealthState.HEALTHY, _cards("y")))
    registry.record_health_check(C, HealthCheckResult(HealthState.HEALTHY))
    assert (_picked(registry, "x"), _picked(registry, "y"), _picked(registry, "z")) == ({A}, {B}, set())


def test_a_model_is_not_asked_of_another_while_those_that_list_it_are_out() -> None:
    """An engine that lists other models would answer 404; the client is told that none is healthy instead."""
    registry = _registry()
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("x")))
    registry.record_health_check(B, HealthCheckResult(HealthState.HEALTHY, _cards("y")))
    assert not registry.has_candidates("x", (A,))
    registry.record_outcome(A, Outcome.UNREACHABLE)
    assert registry.candidates("x") == ()


def test_a_model_is_absent_once_every_engine_has_given_its_list() -> None:
    """While one has not, a model may still turn out to be served; a list counts that was given before a failure."""
    registry = _registry(A, B, ids=("m", "given"))
    assert (_picked(registry, "given"), registry.served_ids().absent) == (set(), set())
    registry.record_health_check(C, HealthCheckResult(HealthState.HEALTHY, ()))
    registry.record_outcome(A, Outcome.UNREACHABLE)
    assert (registry.served_ids().absent, registry.served_ids().present) == ({"given"}, ("m",))
    registry.set_engines(())
    assert not registry.served_ids().absent


def test_an_engine_gives_its_list_again_after_a_failure() -> None:
    """After a failed check or request an engine gets nothing for its old list, which it may no longer serve."""
    for failure in (HealthState.UNHEALTHY, HealthState.DRAINING, Outcome.UNREACHABLE):
        registry = _registry(A)
        registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY))
        assert _picked(registry) == {A}
        if isinstance(failure, HealthState):
            registry.record_health_check(A, HealthCheckResult(failure))
        else:
            registry.record_outcome(A, failure)
        registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, problem="/v1/models returns 500"))
        assert (_picked(registry), registry.available_count(), registry.served_ids().ids) == (set(), 0, ("m",))
        assert "/v1/models returns 500, so it gets no requests" in registry.problems()[A]
        registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("n")))
        assert (_picked(registry), _picked(registry, "n")) == (set(), {A})


def test_what_other_processes_saw_decides_what_exists_and_not_what_is_asked() -> None:
    """A list seen elsewhere makes its ids known, whose engine gets no request before it gives its list here."""
    registry = _registry(A, B)
    registry.restore_model_lists({A: _cards("old"), C: _cards("c"), "http://gone": _cards("gone")})
    assert registry.served_ids() == ServedIds(("m", "c"), routes_aliases=False)
    registry.record_health_check(C, HealthCheckResult(HealthState.UNHEALTHY))
    assert (_picked(registry, "c"), registry.served_ids().is_complete) == (set(), True)
    assert not registry.record_health_check(C, HealthCheckResult(HealthState.HEALTHY, _cards("c")))
    assert registry.record_health_check(C, HealthCheckResult(HealthState.HEALTHY, _cards("d")))
    assert (_picked(registry, "c"), _picked(registry, "d")) == (set(), {C})


def test_given_ids_count_in_place_of_a_list() -> None:
    """An engine with ids of the settings gets requests for them while it is healthy, whatever it lists or does not."""
    registry = _registry()
    registry.set_engines((A, B), {A: ("x", "y")})
    assert registry.served_ids().ids == ("x", "y")
    assert _picked(registry, "x") == set()
    for cards in (None, _cards("other")):
        registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, cards, "/v1/models returns 401"))
        assert (_picked(registry, "x"), _picked(registry, "other"), A in registry.problems()) == ({A}, set(), False)
    assert registry.trial_model(A) == "x"


@pytest.mark.parametrize(
    ("ids", "lists", "default"),
    [
        ((), [("m",), ("m",)], "m"),
        ((), [("m",), ("n",)], None),
        ((), [("m", "lora")], None),
        (("m",), [("m",), ("n",)], "m"),
        (("m",), [("m", "n")], None),
        (("m",), [], "m"),
        (("m", "n"), [("m",), ("n",)], None),
        ((), [], None),
    ],
)
def test_a_request_without_a_model_means_the_only_one(
    ids: tuple[str, ...], lists: list[tuple[str, ...]], default: str | None
) -> None:
    """One served id is the default, unless an engine lists others beside it, of which one may be its own default."""
    registry = _registry(ids=ids)
    for engine, listed in zip((A, B, C), lists, strict=False):
        registry.record_health_check(engine, HealthCheckResult(HealthState.HEALTHY, _cards(*listed)))
    assert registry.served_ids().default == default


def test_what_is_wrong_with_an_engine_is_said_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    """Of each engine that gets no requests the log and /readyz say why, and what to do where it lists no served id."""
    caplog.set_level(logging.WARNING, "router")
    registry = _registry(ids=("given", "other"))
    assert registry.problems() == dict.fromkeys((A, B, C), "not healthy: not checked yet")
    for _ in range(2):
        registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("m", "n")))
        registry.record_health_check(B, HealthCheckResult(HealthState.HEALTHY, None, "/v1/models returns 401"))
        registry.record_health_check(C, HealthCheckResult(HealthState.DRAINING, problem="/health returns 503"))
    assert registry.not_ready_reason() == "no healthy engine lists any of ROUTER_MODEL_ID (given, other)"
    to_do = "so it gets no requests; what it serves can be given in ROUTER_ENGINES: http://b models=ID"
    problems = {
        A: "it lists m, n, none of ROUTER_MODEL_ID (given, other), so it gets no requests",
        B: f"/v1/models returns 401, {to_do}",
        C: "draining: /health returns 503",
    }
    assert registry.problems() == problems
    said = [f"engine {A} is healthy: {problems[A]}", f"engine {B} is healthy: {problems[B]}"]
    assert caplog.messages == [*said, f"engine {C} is draining: /health returns 503"]
    registry.record_health_check(B, HealthCheckResult(HealthState.HEALTHY, ()))
    assert registry.problems()[B] == f"/v1/models lists no model, {to_do}"
    registry.record_health_check(B, HealthCheckResult(HealthState.HEALTHY, _cards("given")))
    assert (registry.not_ready_reason(), registry.available_count(), B in registry.problems()) == (None, 1, False)
    _note(registry, B, Outcome.BROKEN)
    assert registry.problems()[B] == "it failed too often and waits for its trial"
    registry.record_outcome(B, Outcome.UNREACHABLE)
    assert registry.problems()[B] == "not healthy: a request could not reach it"


def test_cards_outlive_a_probe_that_found_none() -> None:
    """An engine that lists nothing at the moment keeps the ids that it listed before."""
    registry = _registry(A)
    registry.record_health_check(A, HealthCheckResult(HealthState.UNHEALTHY))
    assert registry.served_ids() == ServedIds(("m",), is_complete=False, default="m")
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("n")))
    assert registry.served_ids().ids == ("n",)


def test_ids_are_the_union_in_the_order_of_the_engines() -> None:
    """Ids of all engines are served once each; more than one makes aliases ambiguous."""
    registry = _registry()
    registry.record_health_check(B, HealthCheckResult(HealthState.HEALTHY, _cards("y", "x")))
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("x")))
    assert registry.served_ids() == ServedIds(("x", "y"), routes_aliases=False, is_complete=False)


def test_given_ids_win_over_learnt_ones() -> None:
    """Configured ids are what is served, whatever engines list, and aliases mean the first."""
    assert _registry(A, ids=("p", "q")).served_ids() == ServedIds(("p", "q"), routes_aliases=True)


def test_an_engine_is_tried_with_what_it_lists() -> None:
    """The model of a trial is the first that the engine lists, else the first configured, else none."""
    registry = _registry(A, ids=("p", "q"))
    assert (registry.trial_model(A), registry.trial_model(B)) == ("m", "p")
    assert _registry().trial_model(A) is None


@pytest.mark.parametrize(
    ("registry", "obstacle"),
    [
        (_registry(), "no engine is healthy"),
        (_registry(A), None),
        (_registry(A, has_aliases=True), None),
        (_registry(ids=("m",)), "no engine is healthy"),
    ],
)
def test_what_stands_in_the_way_is_said(registry: EngineRegistry, obstacle: str | None) -> None:
    """A fleet is ready when an engine is healthy and ids are known."""
    assert registry.not_ready_reason() == obstacle


def test_a_healthy_engine_without_ids_is_not_enough() -> None:
    """Health alone does not make ready: somebody has to have said what is served."""
    registry = _registry()
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY))
    assert registry.not_ready_reason() == "no engine has listed a model yet"


def test_several_ids_are_in_the_way_of_aliases_alone() -> None:
    """Several learnt ids are an obstacle only where aliases need one of them."""
    for has_aliases in (False, True):
        registry = _registry(has_aliases=has_aliases)
        registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("x", "y")))
        assert ("ROUTER_MODEL_ID" in str(registry.not_ready_reason())) is has_aliases


@pytest.mark.parametrize(
    ("outcome", "asked"),
    [
        (Outcome.SUCCEEDED, False),
        (Outcome.UNREACHABLE, True),
        (Outcome.BROKEN, True),
        (Outcome.TIMED_OUT, True),
        (Outcome.UNAVAILABLE, False),
        (Outcome.FAILED, False),
    ],
)
def test_a_look_is_asked_for_where_a_probe_may_tell_more(outcome: Outcome, *, asked: bool) -> None:
    """One request without an answer makes the prober look at its engine; one with an answer does not."""
    registry = _registry(A)
    looks: list[str] = []
    registry.on_suspect(looks.append)
    registry.record_outcome(A, outcome)
    assert looks == [A] * asked


def test_a_circuit_that_opens_asks_for_a_look() -> None:
    """The prober is told of a circuit that opened, lest it sleep beyond the trial, and not of failures after that."""
    registry = _registry(A)
    looks: list[str] = []
    registry.on_suspect(looks.append)
    _note(registry, A, Outcome.UNAVAILABLE, 10 * FAILURES)
    assert looks == [A]


def test_only_so_many_500s_ask_for_a_trial_and_not_again_at_once() -> None:
    """500s in a row ask for one look, and after a trial that succeeded for none before some seconds have passed."""
    clock = _Clock()
    registry = _registry(A, clock=clock)
    looks: list[str] = []
    registry.on_suspect(looks.append)
    _note(registry, A, Outcome.FAILED, FAILURES - 1)
    assert looks == []
    registry.record_outcome(A, Outcome.FAILED)
    assert looks == [A]
    assert registry.begin_trial(A)
    registry.end_trial(A, TrialResult.WORKS, "it works")
    _note(registry, A, Outcome.FAILED, 100)
    assert looks == [A]
    assert not registry.begin_trial(A)
    clock.now += 60.0
    registry.record_outcome(A, Outcome.FAILED)
    assert looks == [A, A]


def test_the_next_look_comes_no_later_than_the_trial() -> None:
    """A healthy engine is looked at seldom, another often, one behind an open circuit when its trial is due."""
    clock = _Clock()
    registry = _registry(A, B, clock=clock)
    assert registry.seconds_until_check(A, 10.0, 1.0) == 10.0
    assert registry.seconds_until_check(C, 10.0, 1.0) == 1.0
    _note(registry, A, Outcome.BROKEN)
    assert registry.seconds_until_check(A, 10.0, 1.0) == 2.0
    clock.now += 5.0
    assert registry.seconds_until_check(A, 10.0, 1.0) == 0.0
    registry.record_health_check(A, HealthCheckResult(HealthState.UNHEALTHY))
    assert registry.seconds_until_check(A, 10.0, 1.0) == 1.0
    registry.record_health_check(C, HealthCheckResult(HealthState.HEALTHY))
    assert registry.seconds_until_check(C, 10.0, 1.0) == 1.0
    registry.record_health_check(C, HealthCheckResult(HealthState.HEALTHY, ()))
    assert registry.seconds_until_check(C, 10.0, 1.0) == 10.0


def test_each_change_of_state_is_said_once_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """The log tells when a state changes and why, not each request or probe that finds the same."""
    caplog.set_level(logging.INFO, "router")
    registry = _registry()
    for _ in range(2):
        registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("m")))
    _note(registry, A, Outcome.UNREACHABLE)
    for _ in range(2):
        registry.record_health_check(A, HealthCheckResult(HealthState.UNHEALTHY, problem="refused"))
    for _ in range(2):
        registry.record_health_check(A, HealthCheckResult(HealthState.DRAINING, problem="/health returns 503"))
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("m")))
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, problem="/v1/models returns 401"))
    assert caplog.messages == [
        "engine http://a is healthy",
        "engine http://a is not healthy: a request could not reach it",
        "engine http://a is draining: /health returns 503",
        "engine http://a is healthy",
        "engine http://a is healthy: /v1/models returns 401",
    ]


def test_an_open_circuit_is_said_once_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """The log tells when an engine gets no more requests, and when it gets them again, and nothing between."""
    clock = _Clock()
    registry = _registry(A, clock=clock)
    caplog.set_level(logging.INFO, "router")
    _note(registry, A, Outcome.TIMED_OUT, 10 * FAILURES)
    for verdict in (TrialResult.BROKEN, TrialResult.UNCLEAR, TrialResult.WORKS):
        clock.now += 60.0
        assert registry.begin_trial(A)
        registry.end_trial(A, verdict, f"a trial request {verdict.value}")
    _note(registry, A, Outcome.UNAVAILABLE)
    registry.record_outcome(A, Outcome.SUCCEEDED)
    assert caplog.messages == [
        "engine http://a gets no more requests until a trial succeeds: too many failures in a row, now timed out",
        "engine http://a gets requests again: a trial request works",
        "engine http://a gets no more requests until a trial succeeds: too many failures in a row, now unavailable",
        "engine http://a gets requests again: a request succeeded",
    ]


def test_engines_join_and_leave(caplog: pytest.LogCaptureFixture) -> None:
    """Those that stay keep what is known of them, those that join are unknown, those that left get nothing."""
    caplog.set_level(logging.INFO, "router")
    registry = _registry(A, B)
    caplog.clear()
    assert registry.set_engines((B, "http://d")) == (("http://d",), (A, C))
    assert registry.engines == (B, "http://d")
    assert _picked(registry) == {B}
    assert registry.state_counts() == {"configured": 2, "healthy": 1, "draining": 0, "unhealthy": 1, "open": 0}
    assert caplog.messages == ["engine http://d joined", "engine http://a left", "engine http://c left"]
    assert registry.set_engines((B, "http://d")) == ((), ())


def test_what_left_is_forgotten() -> None:
    """An engine that comes back starts anew: without its health, its models and its failures."""
    registry = _registry(A, B)
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("only here")))
    _note(registry, A, Outcome.BROKEN)
    registry.set_engines((B,))
    assert registry.served_ids().ids == ("m",)
    registry.set_engines((A, B))
    assert _picked(registry) == {B}
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY))
    assert _picked(registry) == {B}
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("m")))
    assert _picked(registry) == {A, B}
    assert registry.served_ids().ids == ("m",)


def test_news_of_what_left_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    """Requests, probes and trials of an engine that has left end without a trace."""
    registry = _registry(A, B)
    registry.set_engines((B,))
    caplog.clear()
    caplog.set_level(logging.INFO, "router")
    for outcome in Outcome:
        _note(registry, A, outcome)
    registry.record_health_check(A, HealthCheckResult(HealthState.HEALTHY, _cards("x")))
    assert not registry.begin_trial(A)
    registry.end_trial(A, TrialResult.BROKEN, "it broke")
    assert registry.trial_model(A) is None
    assert registry.seconds_until_check(A, 10.0, 1.0) == 1.0
    assert registry.engines == (B,)
    assert registry.served_ids().ids == ("m",)
    assert caplog.messages == []


def test_a_fleet_may_be_empty() -> None:
    """Where no engine is known yet, that is what stands in the way."""
    registry = _registry(A, ids=("m",))
    registry.set_engines(())
    assert registry.not_ready_reason() == "no engine is known yet"
    assert registry.candidates("m") == ()


def test_picks_go_on_while_engines_come_and_go() -> None:
    """Whatever is met of a change, the engine that takes requests is found."""
    registry = _registry(A)
    with ThreadPoolExecutor(2) as pool:
        picks = pool.submit(lambda: {registry.candidates("m") for _ in range(20_000)})
        while not picks.done():
            registry.set_engines((A, B))
            registry.set_engines((C, A))
    assert picks.result() == {(A,)}


def test_an_engine_is_in_doubt_where_a_look_may_take_long() -> None:
    """An engine that gets no requests is in doubt, and one whose trial is due."""
    registry = _registry(A, B)
    assert [registry.is_suspect(engine) for engine in (A, B, C)] == [False, False, True]
    _note(registry, A, Outcome.FAILED)
    _note(registry, B, Outcome.BROKEN)
    assert registry.is_suspect(A)
    assert registry.is_suspect(B)
