"""Probes and trials: what they ask an engine, and what they make of its answers."""

import errno
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from threading import Event
from typing import Any

import orjson
import pytest

from router.contract.errors import ApiError
from router.mock_engine import MockEngine, MockResponse, RawResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import ScriptedResponse
from router.request.outcome import Outcome, TrialResult
from router.request.routes import CHAT, EMBEDDINGS
from router.settings.declarations import Settings
from router.upstream import circuit_breaker, health_checks
from router.upstream.circuit_breaker import BreakerConfig, HealthState
from router.upstream.client import HttpClient
from router.upstream.engine_state import HealthCheckResult
from router.upstream.health_checks import HealthChecker
from router.upstream.registry import EngineRegistry
from router.upstream.scheduler import MAX_CHECKS, MAX_SUSPECT_CHECKS
from tests.router.serving import free_port, wait_until


def _health_checker(
    *engines: str, key: str | None = None, health_check_interval_seconds: float = 600.0, ids: tuple[str, ...] = ()
) -> tuple[HealthChecker, EngineRegistry]:
    settings = Settings(
        engines=engines, engine_api_key=key, health_check_interval_seconds=health_check_interval_seconds
    )
    registry = EngineRegistry(settings.engines, ids, has_aliases=False, breaker=BreakerConfig(failures=2, seconds=0.01))
    return HealthChecker(settings, registry, HttpClient(settings)), registry


def test_a_probe_asks_for_health_and_models(engine: MockEngine) -> None:
    """A healthy engine is asked for its health, then for its cards, with the engines' own key."""
    health_checker, _ = _health_checker(engine.url, key="k")
    report = health_checker.check(engine.url)
    assert (report.state, [card["id"] for card in report.model_cards or ()]) == (HealthState.HEALTHY, ["served"])
    probes = engine.wait_for_health_checks(2)
    assert [probe.target for probe in probes] == ["/health", "/v1/models"]
    assert [probe.values("Authorization") for probe in probes] == [["Bearer k"]] * 2


def test_a_sick_engine_is_not_asked_further(engine: MockEngine) -> None:
    """An engine whose health is no 2xx is not healthy, and its models do not matter; 503 means that it drains."""
    engine.healthy = False
    health_checker, _ = _health_checker(engine.url)
    assert health_checker.check(engine.url).state is HealthState.DRAINING
    assert [probe.target for probe in engine.wait_for_health_checks(1)] == ["/health"]


@pytest.mark.parametrize("status", [302, 401, 429, 500, 502])
def test_any_other_answer_is_not_health(engine: MockEngine, status: int) -> None:
    """A redirect is not followed, and no error but 503 says that an engine only drains."""
    location = [("Location", f"{engine.url}/v1/models")]
    engine.script(lambda received: MockResponse(status, location) if received.path == "/health" else None)
    health_checker, _ = _health_checker(engine.url)
    assert health_checker.check(engine.url).state is HealthState.UNHEALTHY
    assert [probe.target for probe in engine.health_checks] == ["/health"]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (200, HealthState.HEALTHY),
        (401, HealthState.UNHEALTHY),
        (500, HealthState.UNHEALTHY),
        (503, HealthState.DRAINING),
    ],
)
def test_without_a_health_route_the_models_decide(engine: MockEngine, status: int, state: HealthState) -> None:
    """Where GET /health is a 404, a 2xx to GET /v1/models is health."""

    def script(received: ReceivedRequest) -> ScriptedResponse:
        return MockResponse(404) if received.path == "/health" else MockResponse.json({"data": []}, status)

    engine.script(script)
    health_checker, _ = _health_checker(engine.url)
    assert health_checker.check(engine.url).state is state


def test_a_healthy_engine_may_keep_its_models_to_itself(engine: MockEngine) -> None:
    """An engine whose model list wants a key is healthy, and lists nothing."""

    def script(received: ReceivedRequest) -> ScriptedResponse:
        return MockResponse(200) if received.path == "/health" else MockResponse(401)

    engine.script(script)
    health_checker, _ = _health_checker(engine.url)
    report = health_checker.check(engine.url)
    assert (report.state, report.model_cards) == (HealthState.HEALTHY, None)


def test_an_absent_engine_raises() -> None:
    """A probe of an engine that is not there raises what a request would."""
    url = f"http://127.0.0.1:{free_port()}"
    health_checker, _ = _health_checker(url)
    with pytest.raises(ApiError) as raised:
        health_checker.check(url)
    assert raised.value.code == "upstream_unreachable"


def test_the_first_look_is_waited_for(engine: MockEngine) -> None:
    """Once the start is over every engine was looked at, those that are not there included."""
    absent = "http://127.0.0.1:1"  # will be probed until the tests end: no port that another test might get
    health_checker, registry = _health_checker(absent, engine.url)
    health_checker.start_and_wait()
    assert registry.healthy_engines() == (engine.url,)
    assert registry.served_ids().ids == ("served",)


def test_a_look_can_be_asked_for(engine: MockEngine) -> None:
    """An engine that is to be looked at now is, long before its next turn."""
    health_checker, _ = _health_checker(engine.url)
    health_checker.start_and_wait()
    seen = len(engine.health_checks)
    health_checker.check_now(engine.url)
    engine.wait_for_health_checks(seen + 2)


def test_starting_twice_probes_once(engine: MockEngine) -> None:
    """A second start in the same process changes nothing."""
    health_checker, _ = _health_checker(engine.url)
    health_checker.start_and_wait()
    health_checker.start_and_wait()
    assert [probe.target for probe in engine.health_checks] == ["/health", "/v1/models"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"/health": 503}, "/health returns 503"),
        ({"/v1/models": 401}, "/v1/models returns 401, is ROUTER_ENGINE_API_KEY right?"),
        ({"/v1/models": 500}, "/v1/models returns 500"),
    ],
)
def test_a_report_says_what_is_wrong(engine: MockEngine, script: dict[str, int], said: str) -> None:
    """What keeps an engine from being healthy, or its models from being known, stands in its report."""
    engine.script(lambda received: MockResponse(status=script[received.path]) if received.path in script else None)
    health_checker, _ = _health_checker(engine.url)
    assert health_checker.check(engine.url).problem == said


def _note(registry: EngineRegistry, engine: MockEngine, outcome: Outcome) -> None:
    for _ in range(2):
        registry.record_outcome(engine.url, outcome)


def _is_taken(registry: EngineRegistry, engine: MockEngine) -> bool:
    return not registry.has_candidates("served", ()) and registry.healthy_engines() == (engine.url,)


def test_a_trial_is_the_smallest_chat(engine: MockEngine) -> None:
    """A trial asks the first model that the engine lists for one token, with the engines' own key."""
    health_checker, registry = _health_checker(engine.url, key="k", ids=("configured",))
    registry.record_health_check(engine.url, health_checker.check(engine.url))
    assert health_checker.run_trial(engine.url) == (TrialResult.WORKS, "a trial request got 200")
    [trial] = engine.received
    assert (trial.method, trial.target) == ("POST", "/v1/chat/completions")
    assert trial.json() == {
        "model": "served",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 1,
        "stream": False,
    }
    assert trial.values("Authorization") == ["Bearer k"]
    assert trial.values("Content-Type") == ["application/json"]


def test_a_trial_needs_a_model(engine: MockEngine) -> None:
    """Without any known model nothing is asked: the engine is taken at the word of its probe."""
    health_checker, _ = _health_checker(engine.url)
    assert health_checker.run_trial(engine.url)[0] is TrialResult.WORKS
    assert engine.received == []


def test_a_configured_model_is_asked_for_where_none_is_listed(engine: MockEngine) -> None:
    """An engine that keeps its models to itself is tried with the first configured id."""
    health_checker, _ = _health_checker(engine.url, ids=("configured", "other"))
    assert health_checker.run_trial(engine.url)[0] is TrialResult.WORKS
    assert engine.received[0].json()["model"] == "configured"


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (MockResponse(400), TrialResult.WORKS),
        (MockResponse(404), TrialResult.WORKS),
        (MockResponse(302, [("Location", "/v1/models")]), TrialResult.WORKS),
        (MockResponse(429), TrialResult.UNCLEAR),
        (MockResponse(503), TrialResult.BROKEN),
        (RawResponse(b"", "reset"), TrialResult.BROKEN),
        (RawResponse(b"SSH-2.0-OpenSSH\r\n"), TrialResult.BROKEN),
        (MockResponse(200, body=b"{}", cut_after=1), TrialResult.BROKEN),
    ],
    ids=str,
)
def test_a_trial_shows_whether_an_engine_works(
    engine: MockEngine, reply: ScriptedResponse, verdict: TrialResult
) -> None:
    """Any whole answer below 500 shows an engine at work, but for 429; no redirect is followed."""
    engine.answer_next(reply)
    health_checker, _ = _health_checker(engine.url, ids=("served",))
    assert health_checker.run_trial(engine.url)[0] is verdict
    assert len(engine.received) == 1
    assert engine.health_checks == []


@pytest.mark.parametrize(
    ("embeds", "verdict"),
    [(200, TrialResult.WORKS), (404, TrialResult.BROKEN), (500, TrialResult.BROKEN), (400, TrialResult.BROKEN)],
)
def test_an_engine_that_embeds_need_not_chat(engine: MockEngine, embeds: int, verdict: TrialResult) -> None:
    """A 500 to a trial's chat shows a broken engine, unless it embeds."""
    engine.script(lambda received: MockResponse(embeds if received.path == EMBEDDINGS else 500))
    health_checker, _ = _health_checker(engine.url, ids=("served",))
    assert health_checker.run_trial(engine.url)[0] is verdict
    assert [received.path for received in engine.received] == [CHAT, EMBEDDINGS]


@pytest.mark.parametrize("odd", [{"id": 1}, {}, None, "served", 7, [], {"id": "deep", "x": [[]]}], ids=str)
def test_one_odd_card_costs_the_others_nothing(engine: MockEngine, odd: Any) -> None:
    """What describes no model, or is nested too deep to be passed on, is left out of the list."""
    listing = orjson.dumps({"data": [odd, {"id": "served"}]}).replace(b"[[]]", b"[" * 600 + b"]" * 600)
    engine.script(lambda received: MockResponse(body=listing) if received.path == "/v1/models" else None)
    health_checker, _ = _health_checker(engine.url)
    assert health_checker.check(engine.url).model_cards == ({"id": "served"},)


def test_a_machine_without_room_blames_no_engine(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no connection can be opened for want of descriptors, nothing is learnt of an engine."""
    health_checker, registry = _health_checker(engine.url)
    health_checker.start_and_wait()
    assert registry.healthy_engines() == (engine.url,)

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "create_connection", fail)
    health_checker._check_and_record(engine.url)
    assert registry.healthy_engines() == (engine.url,)
    assert health_checker.run_trial(engine.url)[0] is TrialResult.UNCLEAR


def test_a_trial_that_is_not_answered_shows_a_broken_engine(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that takes the trial and stays silent is broken."""
    monkeypatch.setattr(health_checks, "TRIAL_TIMEOUT_SECONDS", 0.05)
    silence = Event()
    engine.answer_next(MockResponse(hold=silence))
    health_checker, _ = _health_checker(engine.url, ids=("served",))
    assert health_checker.run_trial(engine.url)[0] is TrialResult.BROKEN
    silence.set()


def test_a_silent_probe_is_given_up(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that accepts a probe and says nothing is not waited for."""
    monkeypatch.setattr(health_checks, "CHECK_TIMEOUT_SECONDS", 0.05)
    silence = Event()
    engine.script(lambda _: MockResponse(hold=silence))
    health_checker, _ = _health_checker(engine.url)
    with pytest.raises(ApiError) as raised:
        health_checker.check(engine.url)
    assert raised.value.code == "upstream_timeout"
    silence.set()


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "], ids=["body", "head"])
def test_a_dripping_probe_is_given_up(engine: MockEngine, monkeypatch: pytest.MonkeyPatch, start: bytes) -> None:
    """An answer that never ends, however lively, is given up when its time is over."""
    monkeypatch.setattr(health_checks, "CHECK_TIMEOUT_SECONDS", 0.3)
    pause = Event()

    def drip() -> Iterator[bytes]:
        yield start
        while not pause.wait(0.01):
            yield b"x"

    engine.script(lambda _: RawResponse(drip()))
    health_checker, _ = _health_checker(engine.url)
    with pytest.raises(ApiError) as raised:
        health_checker.check(engine.url)
    assert raised.value.code == "upstream_timeout"
    pause.set()


def test_a_flooding_probe_is_cut(engine: MockEngine) -> None:
    """Of an answer without end only so much is read, and it is no list of models."""

    def flood() -> Iterator[bytes]:
        while True:
            yield b" " * 65536

    engine.script(
        lambda received: MockResponse(body=flood(), framing="close") if received.path == "/v1/models" else None
    )
    health_checker, _ = _health_checker(engine.url)
    report = health_checker.check(engine.url)
    assert (report.state, report.model_cards) == (HealthState.HEALTHY, None)


def test_an_open_circuit_closes_after_its_trial(engine: MockEngine) -> None:
    """An engine that failed too often is tried without any request of a client, and gets requests again."""
    health_checker, registry = _health_checker(engine.url)
    health_checker.start_and_wait()
    _note(registry, engine, Outcome.BROKEN)
    wait_until(lambda: registry.has_candidates("served", ()))
    assert len(engine.received) == 1


def test_an_engine_that_only_looks_healthy_stays_out(engine: MockEngine) -> None:
    """500s make for one trial; an engine that fails it too is taken out, and tried again until it works."""
    engine.script(lambda received: MockResponse(500) if received.method == "POST" else None)
    health_checker, registry = _health_checker(engine.url)
    health_checker.start_and_wait()
    _note(registry, engine, Outcome.FAILED)
    wait_until(lambda: _is_taken(registry, engine))
    engine.wait_for(3)
    assert _is_taken(registry, engine)
    engine.script(None)
    wait_until(lambda: registry.has_candidates("served", ()))


def test_500s_that_are_the_clients_cost_one_trial(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many 500s requests got, an engine that passes its trial stays in, and is not tried again at once."""
    monkeypatch.setattr(circuit_breaker, "TRIAL_COOLDOWN_SECONDS", 600.0)
    health_checker, registry = _health_checker(engine.url)
    health_checker.start_and_wait()
    for _ in range(500):
        registry.record_outcome(engine.url, Outcome.FAILED)
        assert registry.candidates("served") == (engine.url,)
    engine.wait_for(1)
    seen = len(engine.health_checks)
    health_checker.check_now(engine.url)
    engine.wait_for_health_checks(seen + 2)
    assert len(engine.received) == 1


def test_a_trial_that_fails_in_an_unknown_way_ends(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw ends neither the probing nor the trials."""
    health_checker, registry = _health_checker(engine.url)
    failed = Event()
    try_out = health_checker.run_trial

    def fail_once(url: str) -> tuple[TrialResult, str]:
        if failed.is_set():
            return try_out(url)
        failed.set()
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(health_checker, "run_trial", fail_once)
    health_checker.start_and_wait()
    _note(registry, engine, Outcome.BROKEN)
    wait_until(lambda: failed.is_set() and registry.has_candidates("served", ()))


def test_engines_that_join_are_looked_at_and_those_that_left_no_more(engine: MockEngine) -> None:
    """A probe follows the joining at once; after the leaving there is none, and no thread that would make one."""
    with MockEngine() as staying:
        health_checker, registry = _health_checker(staying.url, health_check_interval_seconds=0.01)
        health_checker.start_and_wait()
        health_checker.update_engines(*registry.set_engines((staying.url, engine.url)))
        wait_until(lambda: engine.url in registry.healthy_engines())
        health_checker.update_engines(*registry.set_engines((staying.url,)))
        health_checker.check_now(engine.url)
        seen = len(staying.health_checks)
        staying.wait_for_health_checks(seen + 20)
        last = len(engine.health_checks)
        staying.wait_for_health_checks(seen + 60)
        assert len(engine.health_checks) == last
        health_checker.update_engines(*registry.set_engines(()))


def _looks() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "health-check"]


def test_many_engines_take_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand engines half fall silent: a bounded number of threads waits for them, the others are looked at."""
    before = len(_looks())
    speak = Event()
    healthy = [f"http://10.0.{number // 250}.{number % 250}:1" for number in range(500)]
    silent = [engine.replace("10.0", "10.1") for engine in healthy]
    health_checker, registry = _health_checker(*healthy)
    checked: Counter[str] = Counter()
    most = 0

    def probe(engine: str, _: float) -> HealthCheckResult:
        nonlocal most
        most = max(most, len(_looks()) - before)
        checked[engine] += 1
        if engine in silent:
            assert speak.wait(60)
        return HealthCheckResult(HealthState.HEALTHY)

    monkeypatch.setattr(health_checker, "check", probe)
    health_checker.start_and_wait()
    wait_until(lambda: len(registry.healthy_engines()) == 500)
    health_checker.update_engines(*registry.set_engines((*silent, *healthy)))
    wait_until(lambda: len(_looks()) - before == MAX_SUSPECT_CHECKS)
    for engine in healthy:
        health_checker.check_now(engine)
    # At least twice: on a busy machine a scheduled check may come between.
    wait_until(lambda: all(checked[engine] >= 2 for engine in healthy))
    speak.set()
    wait_until(lambda: len(registry.healthy_engines()) == 1000)
    assert most <= MAX_CHECKS
    health_checker.update_engines(*registry.set_engines(()))
    wait_until(lambda: len(_looks()) <= before)
