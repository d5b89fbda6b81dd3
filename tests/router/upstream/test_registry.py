"""The fleet: what is known of each engine, which may be chosen, and what the log says of it."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from router.contract.decide import ServedIds
from router.request.outcome import Outcome, TrialResult
from router.upstream.circuit_breaker import Breaker, State
from router.upstream.registry import Fleet, Report

A, B, C = "http://a", "http://b", "http://c"
FAILURES = 3


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _cards(*names: str) -> tuple[dict[str, str], ...]:
    return tuple({"id": name} for name in names)


def _fleet(*healthy: str, ids: tuple[str, ...] = (), has_aliases: bool = False, clock: _Clock | None = None) -> Fleet:
    breaker = Breaker(FAILURES, seconds=2.0)
    fleet = Fleet((A, B, C), ids, has_aliases=has_aliases, breaker=breaker, clock=clock or _Clock(), chance=lambda: 0.5)
    for engine in healthy:
        fleet.learn(engine, Report(State.HEALTHY, _cards("m")))
    return fleet


def _note(fleet: Fleet, engine: str, outcome: Outcome, times: int = FAILURES) -> None:
    for _ in range(times):
        fleet.note(engine, outcome)


def _picked(fleet: Fleet, model: str = "m", excluding: tuple[str, ...] = ()) -> set[str]:
    return set(fleet.candidates(model, excluding))


def test_nothing_is_known_at_first() -> None:
    """Before any probe no engine is healthy, no id is known, and none may be chosen."""
    fleet = _fleet()
    assert fleet.healthy() == ()
    assert fleet.served_ids() == ServedIds((), routes_aliases=False, is_complete=False)
    assert fleet.candidates("m") == ()


def test_healthy_engines_are_the_candidates() -> None:
    """Candidates are the healthy engines, in the configured order."""
    assert _fleet(C, A).candidates("m") == (A, C)


def test_an_unreachable_engine_is_left_out_until_it_is_learnt_anew() -> None:
    """An engine that was found unreachable is not picked before a probe finds it healthy."""
    fleet = _fleet(A, B)
    fleet.note(A, Outcome.UNREACHABLE)
    assert _picked(fleet) == {B}
    fleet.note(A, Outcome.SUCCEEDED)  # begun before
    assert _picked(fleet) == {B}
    fleet.learn(A, Report(State.HEALTHY, _cards("m")))
    assert _picked(fleet) == {A, B}


def test_a_draining_engine_gets_nothing_new() -> None:
    """An engine that drains is not picked."""
    fleet = _fleet(A, B)
    fleet.learn(A, Report(State.DRAINING))
    assert _picked(fleet) == {B}


def test_an_engine_that_keeps_failing_is_left_out_until_its_trial() -> None:
    """Behind an open circuit an engine gets nothing, whatever its probes say, until a trial after the cool-down."""
    clock = _Clock()
    fleet = _fleet(A, B, clock=clock)
    _note(fleet, A, Outcome.UNAVAILABLE)
    fleet.learn(A, Report(State.HEALTHY))
    assert _picked(fleet) == {B}
    assert not fleet.begin_trial(A)
    clock.now += 2.0
    assert _picked(fleet) == {B}
    assert fleet.begin_trial(A)
    assert not fleet.begin_trial(A)
    fleet.end_trial(A, TrialResult.WORKS, "it works")
    assert _picked(fleet) == {A, B}


def test_one_of_many_threads_gets_the_trial() -> None:
    """Of all that look at an engine at once, one is told to try it, and every failure they note is counted."""
    clock = _Clock()
    fleet = _fleet(A, clock=clock)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: fleet.note(A, Outcome.BROKEN), range(FAILURES)))
        assert fleet.counts()["open"] == 1
        clock.now += 60.0
        assert sum(pool.map(lambda _: fleet.begin_trial(A), range(100))) == 1


def test_a_fleet_that_failed_altogether_has_nothing_to_pick() -> None:
    """Where every circuit is open the router says so, rather than to bother engines that fail."""
    fleet = _fleet(A, B)
    for engine in (A, B):
        _note(fleet, engine, Outcome.BROKEN)
    assert fleet.candidates("m") == ()
    assert fleet.obstacle() == "every healthy engine failed too often and waits for its trial"


def test_what_was_tried_already_is_not_picked_again() -> None:
    """Engines that are excluded are passed over, and whether another is left can be asked."""
    fleet = _fleet(A, B)
    assert _picked(fleet, excluding=(A,)) == {B}
    assert fleet.has_other("m", {A})
    assert not fleet.has_other("m", {A, B})
    assert fleet.candidates("m", {A, B}) == ()


def test_engines_are_counted_by_state() -> None:
    """The counts tell the engines of each state, and the open circuits among them all."""
    fleet = _fleet(A, B)
    fleet.learn(B, Report(State.DRAINING))
    _note(fleet, A, Outcome.TIMED_OUT)
    assert fleet.counts() == {"configured": 3, "healthy": 1, "draining": 1, "unhealthy": 1, "open": 1}


def test_a_model_is_asked_of_those_that_list_it() -> None:
    """Engines that list other models are passed over, and so is one that has given no list."""
    fleet = _fleet()
    fleet.learn(A, Report(State.HEALTHY, _cards("x")))
    fleet.learn(B, Report(State.HEALTHY, _cards("y")))
    fleet.learn(C, Report(State.HEALTHY))
    assert (_picked(fleet, "x"), _picked(fleet, "y"), _picked(fleet, "z")) == ({A}, {B}, set())


def test_a_model_is_not_asked_of_another_while_those_that_list_it_are_out() -> None:
    """An engine that lists other models would answer 404; the client is told that none is healthy instead."""
    fleet = _fleet()
    fleet.learn(A, Report(State.HEALTHY, _cards("x")))
    fleet.learn(B, Report(State.HEALTHY, _cards("y")))
    assert not fleet.has_other("x", (A,))
    fleet.note(A, Outcome.UNREACHABLE)
    assert fleet.candidates("x") == ()


def test_a_model_is_absent_once_every_engine_has_given_its_list() -> None:
    """While one has not, a model may still turn out to be served; a list counts that was given before a failure."""
    fleet = _fleet(A, B, ids=("m", "given"))
    assert (_picked(fleet, "given"), fleet.served_ids().absent) == (set(), set())
    fleet.learn(C, Report(State.HEALTHY, ()))
    fleet.note(A, Outcome.UNREACHABLE)
    assert (fleet.served_ids().absent, fleet.served_ids().present) == ({"given"}, ("m",))
    fleet.set_engines(())
    assert not fleet.served_ids().absent


def test_an_engine_gives_its_list_again_after_a_failure() -> None:
    """After a failed check or request an engine gets nothing for its old list, which it may no longer serve."""
    for failure in (State.UNHEALTHY, State.DRAINING, Outcome.UNREACHABLE):
        fleet = _fleet(A)
        fleet.learn(A, Report(State.HEALTHY))
        assert _picked(fleet) == {A}
        if isinstance(failure, State):
            fleet.learn(A, Report(failure))
        else:
            fleet.note(A, failure)
        fleet.learn(A, Report(State.HEALTHY, problem="/v1/models answers 500"))
        assert (_picked(fleet), fleet.available(), fleet.served_ids().ids) == (set(), 0, ("m",))
        assert "/v1/models answers 500, so it gets no requests" in fleet.problems()[A]
        fleet.learn(A, Report(State.HEALTHY, _cards("n")))
        assert (_picked(fleet), _picked(fleet, "n")) == (set(), {A})


def test_what_other_processes_saw_decides_what_exists_and_not_what_is_asked() -> None:
    """A list seen elsewhere makes its ids known, whose engine gets no request before it gives its list here."""
    fleet = _fleet(A, B)
    fleet.recall({A: _cards("old"), C: _cards("c"), "http://gone": _cards("gone")})
    assert fleet.served_ids() == ServedIds(("m", "c"), routes_aliases=False)
    fleet.learn(C, Report(State.UNHEALTHY))
    assert (_picked(fleet, "c"), fleet.served_ids().is_complete) == (set(), True)
    assert not fleet.learn(C, Report(State.HEALTHY, _cards("c")))
    assert fleet.learn(C, Report(State.HEALTHY, _cards("d")))
    assert (_picked(fleet, "c"), _picked(fleet, "d")) == (set(), {C})


def test_given_ids_count_in_place_of_a_list() -> None:
    """An engine with ids of the settings gets requests for them while it is healthy, whatever it lists or does not."""
    fleet = _fleet()
    fleet.set_engines((A, B), {A: ("x", "y")})
    assert fleet.served_ids().ids == ("x", "y")
    assert _picked(fleet, "x") == set()
    for cards in (None, _cards("other")):
        fleet.learn(A, Report(State.HEALTHY, cards, "/v1/models answers 401"))
        assert (_picked(fleet, "x"), _picked(fleet, "other"), A in fleet.problems()) == ({A}, set(), False)
    assert fleet.trial_model(A) == "x"


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
    fleet = _fleet(ids=ids)
    for engine, listed in zip((A, B, C), lists, strict=False):
        fleet.learn(engine, Report(State.HEALTHY, _cards(*listed)))
    assert fleet.served_ids().default == default


def test_what_is_wrong_with_an_engine_is_said_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    """Of each engine that gets no requests the log and /readyz say why, and what to do where it lists no served id."""
    caplog.set_level(logging.WARNING, "router")
    fleet = _fleet(ids=("given", "other"))
    assert fleet.problems() == dict.fromkeys((A, B, C), "not healthy: not looked at yet")
    for _ in range(2):
        fleet.learn(A, Report(State.HEALTHY, _cards("m", "n")))
        fleet.learn(B, Report(State.HEALTHY, None, "/v1/models answers 401"))
        fleet.learn(C, Report(State.DRAINING, problem="/health answers 503"))
    assert fleet.obstacle() == "no healthy engine lists any of ROUTER_MODEL_ID (given, other)"
    to_do = "so it gets no requests; what it serves can be given in ROUTER_ENGINES: http://b models=ID"
    problems = {
        A: "it lists m, n, none of ROUTER_MODEL_ID (given, other), so it gets no requests",
        B: f"/v1/models answers 401, {to_do}",
        C: "draining: /health answers 503",
    }
    assert fleet.problems() == problems
    said = [f"engine {A} is healthy: {problems[A]}", f"engine {B} is healthy: {problems[B]}"]
    assert caplog.messages == [*said, f"engine {C} is draining: /health answers 503"]
    fleet.learn(B, Report(State.HEALTHY, ()))
    assert fleet.problems()[B] == f"/v1/models lists no model, {to_do}"
    fleet.learn(B, Report(State.HEALTHY, _cards("given")))
    assert (fleet.obstacle(), fleet.available(), B in fleet.problems()) == (None, 1, False)
    _note(fleet, B, Outcome.BROKEN)
    assert fleet.problems()[B] == "it failed too often and waits for its trial"
    fleet.note(B, Outcome.UNREACHABLE)
    assert fleet.problems()[B] == "not healthy: a request could not reach it"


def test_cards_outlive_a_probe_that_found_none() -> None:
    """An engine that lists nothing at the moment keeps the ids that it listed before."""
    fleet = _fleet(A)
    fleet.learn(A, Report(State.UNHEALTHY))
    assert fleet.served_ids() == ServedIds(("m",), is_complete=False, default="m")
    fleet.learn(A, Report(State.HEALTHY, _cards("n")))
    assert fleet.served_ids().ids == ("n",)


def test_ids_are_the_union_in_the_order_of_the_engines() -> None:
    """Ids of all engines are served once each; more than one makes aliases ambiguous."""
    fleet = _fleet()
    fleet.learn(B, Report(State.HEALTHY, _cards("y", "x")))
    fleet.learn(A, Report(State.HEALTHY, _cards("x")))
    assert fleet.served_ids() == ServedIds(("x", "y"), routes_aliases=False, is_complete=False)


def test_given_ids_win_over_learnt_ones() -> None:
    """Configured ids are what is served, whatever engines list, and aliases mean the first."""
    assert _fleet(A, ids=("p", "q")).served_ids() == ServedIds(("p", "q"), routes_aliases=True)


def test_an_engine_is_tried_with_what_it_lists() -> None:
    """The model of a trial is the first that the engine lists, else the first configured, else none."""
    fleet = _fleet(A, ids=("p", "q"))
    assert (fleet.trial_model(A), fleet.trial_model(B)) == ("m", "p")
    assert _fleet().trial_model(A) is None


@pytest.mark.parametrize(
    ("fleet", "obstacle"),
    [
        (_fleet(), "no engine is healthy"),
        (_fleet(A), None),
        (_fleet(A, has_aliases=True), None),
        (_fleet(ids=("m",)), "no engine is healthy"),
    ],
)
def test_what_stands_in_the_way_is_said(fleet: Fleet, obstacle: str | None) -> None:
    """A fleet is ready when an engine is healthy and ids are known."""
    assert fleet.obstacle() == obstacle


def test_a_healthy_engine_without_ids_is_not_enough() -> None:
    """Health alone does not make ready: somebody has to have said what is served."""
    fleet = _fleet()
    fleet.learn(A, Report(State.HEALTHY))
    assert fleet.obstacle() == "no engine has listed a model yet"


def test_several_ids_are_in_the_way_of_aliases_alone() -> None:
    """Several learnt ids are an obstacle only where aliases need one of them."""
    for has_aliases in (False, True):
        fleet = _fleet(has_aliases=has_aliases)
        fleet.learn(A, Report(State.HEALTHY, _cards("x", "y")))
        assert ("ROUTER_MODEL_ID" in str(fleet.obstacle())) is has_aliases


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
    fleet = _fleet(A)
    looks: list[str] = []
    fleet.call_when_in_doubt(looks.append)
    fleet.note(A, outcome)
    assert looks == [A] * asked


def test_a_circuit_that_opens_asks_for_a_look() -> None:
    """The prober is told of a circuit that opened, lest it sleep beyond the trial, and not of failures after that."""
    fleet = _fleet(A)
    looks: list[str] = []
    fleet.call_when_in_doubt(looks.append)
    _note(fleet, A, Outcome.UNAVAILABLE, 10 * FAILURES)
    assert looks == [A]


def test_only_so_many_500s_ask_for_a_trial_and_not_again_at_once() -> None:
    """500s in a row ask for one look, and after a trial that succeeded for none before some seconds have passed."""
    clock = _Clock()
    fleet = _fleet(A, clock=clock)
    looks: list[str] = []
    fleet.call_when_in_doubt(looks.append)
    _note(fleet, A, Outcome.FAILED, FAILURES - 1)
    assert looks == []
    fleet.note(A, Outcome.FAILED)
    assert looks == [A]
    assert fleet.begin_trial(A)
    fleet.end_trial(A, TrialResult.WORKS, "it works")
    _note(fleet, A, Outcome.FAILED, 100)
    assert looks == [A]
    assert not fleet.begin_trial(A)
    clock.now += 60.0
    fleet.note(A, Outcome.FAILED)
    assert looks == [A, A]


def test_the_next_look_comes_no_later_than_the_trial() -> None:
    """A healthy engine is looked at seldom, another often, one behind an open circuit when its trial is due."""
    clock = _Clock()
    fleet = _fleet(A, B, clock=clock)
    assert fleet.seconds_until_look(A, 10.0, 1.0) == 10.0
    assert fleet.seconds_until_look(C, 10.0, 1.0) == 1.0
    _note(fleet, A, Outcome.BROKEN)
    assert fleet.seconds_until_look(A, 10.0, 1.0) == 2.0
    clock.now += 5.0
    assert fleet.seconds_until_look(A, 10.0, 1.0) == 0.0
    fleet.learn(A, Report(State.UNHEALTHY))
    assert fleet.seconds_until_look(A, 10.0, 1.0) == 1.0
    fleet.learn(C, Report(State.HEALTHY))
    assert fleet.seconds_until_look(C, 10.0, 1.0) == 1.0
    fleet.learn(C, Report(State.HEALTHY, ()))
    assert fleet.seconds_until_look(C, 10.0, 1.0) == 10.0


def test_each_change_of_state_is_said_once_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """The log tells when a state changes and why, not each request or probe that finds the same."""
    caplog.set_level(logging.INFO, "router")
    fleet = _fleet()
    for _ in range(2):
        fleet.learn(A, Report(State.HEALTHY, _cards("m")))
    _note(fleet, A, Outcome.UNREACHABLE)
    for _ in range(2):
        fleet.learn(A, Report(State.UNHEALTHY, problem="refused"))
    for _ in range(2):
        fleet.learn(A, Report(State.DRAINING, problem="/health answers 503"))
    fleet.learn(A, Report(State.HEALTHY, _cards("m")))
    fleet.learn(A, Report(State.HEALTHY, problem="/v1/models answers 401"))
    assert caplog.messages == [
        "engine http://a is healthy",
        "engine http://a is not healthy: a request could not reach it",
        "engine http://a is draining: /health answers 503",
        "engine http://a is healthy",
        "engine http://a is healthy: /v1/models answers 401",
    ]


def test_an_open_circuit_is_said_once_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """The log tells when an engine gets no more requests, and when it gets them again, and nothing between."""
    clock = _Clock()
    fleet = _fleet(A, clock=clock)
    caplog.set_level(logging.INFO, "router")
    _note(fleet, A, Outcome.TIMED_OUT, 10 * FAILURES)
    for verdict in (TrialResult.BROKEN, TrialResult.UNCLEAR, TrialResult.WORKS):
        clock.now += 60.0
        assert fleet.begin_trial(A)
        fleet.end_trial(A, verdict, f"a trial request {verdict.value}")
    _note(fleet, A, Outcome.UNAVAILABLE)
    fleet.note(A, Outcome.SUCCEEDED)
    assert caplog.messages == [
        "engine http://a gets no more requests until a trial succeeds: too many failures in a row, now timed out",
        "engine http://a gets requests again: a trial request works",
        "engine http://a gets no more requests until a trial succeeds: too many failures in a row, now unavailable",
        "engine http://a gets requests again: a request succeeded",
    ]


def test_engines_join_and_leave(caplog: pytest.LogCaptureFixture) -> None:
    """Those that stay keep what is known of them, those that join are unknown, those that left get nothing."""
    caplog.set_level(logging.INFO, "router")
    fleet = _fleet(A, B)
    caplog.clear()
    assert fleet.set_engines((B, "http://d")) == (("http://d",), (A, C))
    assert fleet.engines == (B, "http://d")
    assert _picked(fleet) == {B}
    assert fleet.counts() == {"configured": 2, "healthy": 1, "draining": 0, "unhealthy": 1, "open": 0}
    assert caplog.messages == ["engine http://d joined", "engine http://a left", "engine http://c left"]
    assert fleet.set_engines((B, "http://d")) == ((), ())


def test_what_left_is_forgotten() -> None:
    """An engine that comes back starts anew: without its health, its models and its failures."""
    fleet = _fleet(A, B)
    fleet.learn(A, Report(State.HEALTHY, _cards("only here")))
    _note(fleet, A, Outcome.BROKEN)
    fleet.set_engines((B,))
    assert fleet.served_ids().ids == ("m",)
    fleet.set_engines((A, B))
    assert _picked(fleet) == {B}
    fleet.learn(A, Report(State.HEALTHY))
    assert _picked(fleet) == {B}
    fleet.learn(A, Report(State.HEALTHY, _cards("m")))
    assert _picked(fleet) == {A, B}
    assert fleet.served_ids().ids == ("m",)


def test_news_of_what_left_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    """Requests, probes and trials of an engine that has left end without a trace."""
    fleet = _fleet(A, B)
    fleet.set_engines((B,))
    caplog.clear()
    caplog.set_level(logging.INFO, "router")
    for outcome in Outcome:
        _note(fleet, A, outcome)
    fleet.learn(A, Report(State.HEALTHY, _cards("x")))
    assert not fleet.begin_trial(A)
    fleet.end_trial(A, TrialResult.BROKEN, "it broke")
    assert fleet.trial_model(A) is None
    assert fleet.seconds_until_look(A, 10.0, 1.0) == 1.0
    assert fleet.engines == (B,)
    assert fleet.served_ids().ids == ("m",)
    assert caplog.messages == []


def test_a_fleet_may_be_empty() -> None:
    """Where no engine is known yet, that is what stands in the way."""
    fleet = _fleet(A, ids=("m",))
    fleet.set_engines(())
    assert fleet.obstacle() == "no engine is known yet"
    assert fleet.candidates("m") == ()


def test_picks_go_on_while_engines_come_and_go() -> None:
    """Whatever is met of a change, the engine that takes requests is found."""
    fleet = _fleet(A)
    with ThreadPoolExecutor(2) as pool:
        picks = pool.submit(lambda: {fleet.candidates("m") for _ in range(20_000)})
        while not picks.done():
            fleet.set_engines((A, B))
            fleet.set_engines((C, A))
    assert picks.result() == {(A,)}


def test_an_engine_is_in_doubt_where_a_look_may_take_long() -> None:
    """An engine that gets no requests is in doubt, and one whose trial is due."""
    fleet = _fleet(A, B)
    assert [fleet.is_doubtful(engine) for engine in (A, B, C)] == [False, False, True]
    _note(fleet, A, Outcome.FAILED)
    _note(fleet, B, Outcome.BROKEN)
    assert fleet.is_doubtful(A)
    assert fleet.is_doubtful(B)
