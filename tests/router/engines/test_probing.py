"""Probes: what they ask an engine, and what they make of its answers."""

import pytest

from router.contract.errors import ApiError
from router.engines.fleet import Fleet
from router.engines.probing import Prober
from router.engines.standin import Answer, StandIn
from router.engines.standin.answer import Reply
from router.engines.standin.request import Received
from router.settings import Settings
from tests.router.serving import free_port


def _prober(*engines: str, key: str | None = None, probe_seconds: float = 600.0) -> tuple[Prober, Fleet]:
    settings = Settings(engines=engines, engine_api_key=key, probe_seconds=probe_seconds)
    fleet = Fleet(settings.engines, (), has_aliases=False)
    return Prober(settings, fleet), fleet


def test_a_probe_asks_for_health_and_models(engine: StandIn) -> None:
    """A healthy engine is asked for its health, then for its cards, with the engines' own key."""
    prober, _ = _prober(engine.url, key="k")
    report = prober.probe(engine.url)
    assert (report.healthy, [card["id"] for card in report.cards or ()]) == (True, ["served"])
    probes = engine.wait_for_probes(2)
    assert [probe.target for probe in probes] == ["/health", "/v1/models"]
    assert [probe.values("Authorization") for probe in probes] == [["Bearer k"]] * 2


def test_a_sick_engine_is_not_asked_further(engine: StandIn) -> None:
    """An engine whose health is no 2xx is not healthy, and its models do not matter."""
    engine.healthy = False
    prober, _ = _prober(engine.url)
    assert prober.probe(engine.url).healthy is False
    assert [probe.target for probe in engine.wait_for_probes(1)] == ["/health"]


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (401, False), (500, False)])
def test_without_a_health_route_the_models_decide(engine: StandIn, status: int, *, healthy: bool) -> None:
    """Where GET /health is a 404, a 2xx to GET /v1/models is health."""

    def script(received: Received) -> Reply:
        return Answer(404) if received.path == "/health" else Answer.json({"data": []}, status)

    engine.script(script)
    prober, _ = _prober(engine.url)
    assert prober.probe(engine.url).healthy is healthy


def test_a_healthy_engine_may_keep_its_models_to_itself(engine: StandIn) -> None:
    """An engine whose model list wants a key is healthy, and lists nothing."""

    def script(received: Received) -> Reply:
        return Answer(200) if received.path == "/health" else Answer(401)

    engine.script(script)
    prober, _ = _prober(engine.url)
    report = prober.probe(engine.url)
    assert (report.healthy, report.cards) == (True, None)


def test_an_absent_engine_raises() -> None:
    """A probe of an engine that is not there raises what a request would."""
    url = f"http://127.0.0.1:{free_port()}"
    prober, _ = _prober(url)
    with pytest.raises(ApiError) as raised:
        prober.probe(url)
    assert raised.value.code == "upstream_unreachable"


def test_the_first_look_is_waited_for(engine: StandIn) -> None:
    """Once the start is over every engine was looked at, those that are not there included."""
    absent = "http://127.0.0.1:1"  # will be probed until the tests end: no port that another test might get
    prober, fleet = _prober(absent, engine.url)
    prober.start_and_look()
    assert fleet.healthy() == (engine.url,)
    assert fleet.served_ids().ids == ("served",)


def test_a_look_can_be_asked_for(engine: StandIn) -> None:
    """An engine that is to be looked at now is, long before its next turn."""
    prober, _ = _prober(engine.url)
    prober.start_and_look()
    seen = len(engine.probes)
    prober.look_now(engine.url)
    engine.wait_for_probes(seen + 2)


def test_starting_twice_probes_once(engine: StandIn) -> None:
    """A second start in the same process changes nothing."""
    prober, _ = _prober(engine.url)
    prober.start_and_look()
    prober.start_and_look()
    assert [probe.target for probe in engine.probes] == ["/health", "/v1/models"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"/health": 503}, "/health answers 503"),
        ({"/v1/models": 401}, "/v1/models answers 401, is ROUTER_ENGINE_API_KEY right?"),
        ({"/v1/models": 500}, "/v1/models answers 500"),
    ],
)
def test_a_report_says_what_is_wrong(engine: StandIn, script: dict[str, int], said: str) -> None:
    """What keeps an engine from being healthy, or its models from being known, stands in its report."""
    engine.script(lambda received: Answer(status=script[received.path]) if received.path in script else None)
    prober, _ = _prober(engine.url)
    assert prober.probe(engine.url).problem == said
