"""Model ids: learnt or given, listed with their aliases, and what /readyz makes of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Models, plain_aliases
from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import ScriptedResponse
from tests.exhaustive import exhaustive_but
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.serving import RunningRouter, artifact_file, running_router, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat

ALIASED = Contract(models=Models(aliases=plain_aliases("b", "latest", "vendor/latest")))
OFTEN = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.05"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where artifacts of this test go."""
    return tmp_path


@contextmanager
def _router(folder: Path, engine: MockEngine, contract: Contract = ALIASED, **settings: str) -> Iterator[RunningRouter]:
    artifact = artifact_file(folder, contract)
    with running_router(artifact, [engine.url], {**OFTEN, **settings}, until_ready=False) as router:
        yield router


def _get(router: RunningRouter, path: str) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.get(path)


def _reason(router: RunningRouter) -> Any:
    return _get(router, "/readyz").json().get("reason")


def _wait_for_reason(router: RunningRouter, part: str) -> None:
    wait_until(lambda: part in str(_reason(router)), lambda: str(_reason(router)))


def test_a_router_is_ready_once_an_engine_answers(folder: Path) -> None:
    """Without an engine /readyz is a 503 that says why; requests are refused meanwhile; /healthz asks nobody."""
    engine = MockEngine(models=("served",))
    engine.start()
    engine.stop()
    with _router(folder, engine) as router:
        answer = _get(router, "/readyz")
        assert answer.status == 503
        assert answer.json()["reason"] == "no engine is healthy"
        assert _get(router, "/healthz").status == 200
        with RawClient(router.port) as client:
            refused = client.post(CHAT, chat())
        assert_error(refused, 503, "no_healthy_engines")
        assert refused.header("Retry-After") == "1"
        assert_error(_get(router, "/v1/models"), 503, "no_healthy_engines")
        with engine:
            router.wait_until_ready()
            ready = _get(router, "/readyz").json()
        assert (ready["status"], ready["profile"], ready["models"]) == ("ready", "under-test", ["served"])
        assert ready["digest"].startswith("sha256:")
        assert ready["engines"] == {"configured": 1, "healthy": 1, "draining": 0, "unhealthy": 0, "open": 0}


@pytest.mark.parametrize("status", [503, 500, 401, 301])
def test_an_engine_that_is_not_well_is_not_used(folder: Path, status: int) -> None:
    """Readiness needs a 2xx to GET /health, whatever the model list says."""

    def unwell(received: ReceivedRequest) -> ScriptedResponse | None:
        return MockResponse(status) if received.path == "/health" else None

    with MockEngine() as engine:
        engine.script(unwell)
        with _router(folder, engine) as router:
            assert _reason(router) == "no engine is healthy"


def test_an_engine_without_a_health_route_is_asked_for_its_models(folder: Path) -> None:
    """Where /health does not exist, a model list is the sign of health."""

    def without_health(received: ReceivedRequest) -> ScriptedResponse | None:
        return MockResponse(404) if received.path == "/health" else None

    with MockEngine() as engine:
        engine.script(without_health)
        with _router(folder, engine) as router:
            router.wait_until_ready()


LISTINGS = [b"", b"[]", b'{"data":null}', b'{"data":[7]}', b'{"data":[{"id":7}]}', b"x" * 2_000_000]


@pytest.mark.parametrize("listing", exhaustive_but([LISTINGS[0], LISTINGS[4]], LISTINGS))
def test_a_healthy_engine_that_lists_nothing_is_not_enough(folder: Path, listing: bytes) -> None:
    """Until an engine is known to list a served id /readyz is 503, unless the ids are given to it."""

    def without_models(received: ReceivedRequest) -> ScriptedResponse | None:
        return MockResponse(body=listing) if received.path == "/v1/models" else None

    with MockEngine(models=("given",)) as engine:
        engine.script(without_models)
        with _router(folder, engine) as router:
            assert _reason(router) == "no engine has listed a model yet"
        artifact = artifact_file(folder, ALIASED)
        given = [f"{engine.url} models=given"]
        with running_router(artifact, given, OFTEN) as router, RawClient(router.port) as client:
            assert client.post(CHAT, chat(model="given")).status == 200


def test_several_learnt_ids_leave_aliases_without_a_meaning(folder: Path) -> None:
    """With aliases and several ids nobody can tell what an alias means: /readyz says so, and ids still work."""
    with MockEngine(models=("a", "c")) as engine, _router(folder, engine) as router:
        _wait_for_reason(router, "ROUTER_MODEL_ID")
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat(model="c")).status == 200
            assert_error(client.post(CHAT, chat(model="latest")), 503, "no_healthy_engines")
        assert [card["id"] for card in _get(router, "/v1/models").json()["data"]] == ["a", "c"]


def test_several_ids_without_aliases_are_all_served(folder: Path) -> None:
    """Without aliases any number of ids is fine."""
    with MockEngine(models=("a", "c")) as engine, _router(folder, engine, Contract()) as router:
        router.wait_until_ready()
        with RawClient(router.port) as client:
            assert [client.post(CHAT, chat(model=name)).status for name in ("a", "c", "b")] == [200, 200, 404]


def test_given_ids_are_served_and_aliases_mean_the_first(folder: Path) -> None:
    """ROUTER_MODEL_ID narrows what is answered to its list; a served id beats an equal alias."""
    with MockEngine(models=("a", "b", "c")) as engine, _router(folder, engine, ROUTER_MODEL_ID=" a , b") as router:
        router.wait_until_ready()
        asked = ("a", "b", "latest", "vendor/latest")
        with RawClient(router.port) as client:
            assert [client.post(CHAT, chat(model=name)).status for name in asked] == [200] * 4
            assert_error(client.post(CHAT, chat(model="c")), 404, "model_not_found", "model")
    assert [received.json()["model"] for received in engine.received] == ["a", "b", "a", "a"]


CARDS = {
    "data": [
        {
            "id": "served",
            "object": "other",
            "created": 1700000000,
            "owned_by": "node-7",
            "root": "/weights/v7",
            "parent": None,
            "permission": [{"id": "modelperm-1"}],
            "meta": {"n_params": 7, "size": 9},
            "max_model_len": 77,
        },
        {"id": "bare", "created": "yesterday", "max_model_len": True},
    ]
}


@pytest.mark.parametrize("shows", [False, True])
def test_model_cards_hold_what_clients_need(folder: Path, *, shows: bool) -> None:
    """Of an engine's card `id` and `created` pass, `max_model_len` by a setting; an alias has its id as `root`."""

    def with_cards(received: ReceivedRequest) -> ScriptedResponse | None:
        return MockResponse.json(CARDS) if received.path == "/v1/models" else None

    own = {"object": "model", "created": 1700000000, "owned_by": "router", **({"max_model_len": 77} if shows else {})}
    settings = {"ROUTER_MODEL_ID": "served,bare", "ROUTER_SHOW_MAX_MODEL_LEN": "on" if shows else "off"}
    with MockEngine(models=("served", "bare")) as engine:
        engine.script(with_cards)
        with _router(folder, engine, **settings) as router:
            router.wait_until_ready()
            wait_until(lambda: _get(router, "/v1/models").json()["data"][0]["created"])
            listing = _get(router, "/v1/models").json()
            single = [_get(router, f"/v1/models/{card['id']}").json() for card in listing["data"]]
    aliases = [{"id": alias, **own, "root": "served"} for alias in ("b", "latest", "vendor/latest")]
    bare = {"id": "bare", "object": "model", "created": 0, "owned_by": "router"}
    assert listing == {"object": "list", "data": [{"id": "served", **own}, bare, *aliases]}
    assert single == listing["data"]


def test_the_smallest_length_of_several_engines_is_shown(folder: Path) -> None:
    """A client that keeps to `max_model_len` fits wherever its request goes."""
    settings = {**OFTEN, "ROUTER_SHOW_MAX_MODEL_LEN": "on"}
    with MockEngine(models=("m",), max_model_len=77) as one, MockEngine(models=("m",), max_model_len=66) as other:
        artifact = artifact_file(folder, Contract())
        with running_router(artifact, [one.url, other.url], settings) as router:
            wait_until(lambda: _get(router, "/v1/models/m").json()["max_model_len"] == 66, router.log)


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("org/model", "org/model"),
        ("org%2Fmodel", "org/model"),
        ("org%2fmodel", "org/model"),
        ("%6Frg/model", "org/model"),
        ("/data/model", "/data/model"),
        ("%2Fdata%2Fmodel", "/data/model"),
        ("a%252Fb", "a%2Fb"),
        ("latest", "latest"),
        ("vendor%2Flatest", "vendor/latest"),
        ("m%C3%A9?x=1", "m\u00e9"),
    ],
)
def test_one_model_is_shown_by_its_id(many_ids: RunningRouter, target: str, model: str) -> None:
    """An id is taken with its slashes plain or encoded, decoded once."""
    answer = _get(many_ids, f"/v1/models/{target}")
    assert (answer.status, answer.json()["id"]) == (200, model)


@pytest.mark.parametrize("target", ["nope", "org", "org/model/", "org//model", "org%252Fmodel", "./org/model", "%FF"])
def test_an_unknown_model_is_not_shown(many_ids: RunningRouter, target: str) -> None:
    """An id that is not served is a 404 that says so."""
    assert_error(_get(many_ids, f"/v1/models/{target}"), 404, "model_not_found", "model")


@pytest.fixture(scope="module")
def many_ids(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """A router in front of an engine with ids of every kind."""
    names = ("org/model", "/data/model", "a%2Fb", "m\u00e9")
    ids = {"ROUTER_MODEL_ID": ",".join(names)}
    with MockEngine(models=names) as engine, _router(tmp_path_factory.mktemp("ids"), engine, **ids) as router:
        router.wait_until_ready()
        yield router
