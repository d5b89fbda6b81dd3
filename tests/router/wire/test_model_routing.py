"""Each request reaches an engine that lists its model, on every route, whatever happens to engines and workers."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Alias, Models
from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import ScriptedResponse
from router.request.routes import PASS_THROUGH
from tests.router.process import children_of
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.serving import RunningRouter, artifact_file, running_router, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat

OFTEN = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.05", "ROUTER_RETRIES": "0"}
WORKERS = 2
TWO_WORKERS = ("-c", "python:router.gunicorn_conf", "--workers", str(WORKERS))
BOTH = {"ROUTER_MODEL_ID": "tiny-a,tiny-b"}
ALIASED = Contract(models=Models(aliases={"big": Alias(model="tiny-b"), "latest": Alias()}))


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A contract with an alias of tiny-b, and one of the first id."""
    return artifact_file(tmp_path, ALIASED)


@pytest.fixture
def tiny_a() -> Iterator[MockEngine]:
    """An engine that lists tiny-a, and answers whatever model it is asked for, as SGLang and llama.cpp do."""
    with MockEngine(models=("tiny-a",)) as engine:
        engine.script(_answer_any_model)
        yield engine


@pytest.fixture
def tiny_b() -> Iterator[MockEngine]:
    """Such an engine that lists tiny-b."""
    with MockEngine(models=("tiny-b",)) as engine:
        engine.script(_answer_any_model)
        yield engine


def _answer_any_model(received: ReceivedRequest) -> ScriptedResponse | None:
    return MockResponse.json({"model": received.json()["model"]}) if received.method == "POST" else None


def _ask(router: RunningRouter, model: str, path: str = CHAT) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.post(path, chat(model=model))


def _statuses(router: RunningRouter, model: str) -> set[int]:
    """Return the statuses of so many requests that every worker is likely to have got one."""
    return {_ask(router, model).status for _ in range(12)}


def _readyz(router: RunningRouter) -> dict[str, Any]:
    with RawClient(router.port) as client:
        state: dict[str, Any] = client.get("/readyz").json()
        return state


def _replace_workers(router: RunningRouter, how: signal.Signals) -> None:
    """Have the workers replaced, all by a reload or one that is killed, and wait until the new ones serve alone."""
    before = set(children_of(router.process.pid))
    leaving = {min(before)} if how == signal.SIGKILL else before
    if how == signal.SIGKILL:
        os.kill(min(before), signal.SIGKILL)
    else:
        router.signal(how)
    wait_until(lambda: not leaving & set(children_of(router.process.pid)), router.log)
    wait_until(lambda: len(children_of(router.process.pid)) == WORKERS, router.log)


def test_no_engine_answers_for_another_that_is_down(artifact: Path, tiny_a: MockEngine, tiny_b: MockEngine) -> None:
    """While a model's engine is down its id and its alias are 503, over reloads and killed workers, and come back."""
    engines = [tiny_a.url, tiny_b.url]
    with running_router(artifact, engines, OFTEN | BOTH, TWO_WORKERS) as router:
        wait_until(lambda: _statuses(router, "tiny-b") == {200}, router.log)
        tiny_b.stop()
        for how in (None, signal.SIGHUP, signal.SIGKILL):
            if how is not None:
                _replace_workers(router, how)
            wait_until(lambda: _statuses(router, "tiny-b") == {503}, router.log)
            assert_error(_ask(router, "big"), 503, "no_healthy_engines")
            assert (_statuses(router, "tiny-a"), _statuses(router, "latest")) == ({200}, {200})
            assert_error(_ask(router, "tiny-c"), 404, "model_not_found", "model")
            assert {json.loads(received.body)["model"] for received in tiny_a.received} == {"tiny-a"}
        assert _readyz(router)["engine_problems"][tiny_b.url].startswith("not healthy: ")
        tiny_b.start()
        wait_until(lambda: _statuses(router, "big") == {200}, router.log)
    assert {json.loads(received.body)["model"] for received in tiny_b.received} == {"tiny-b"}


def test_an_id_that_may_still_be_listed_waits(tmp_path: Path, tiny_a: MockEngine, tiny_b: MockEngine) -> None:
    """From a start with an engine down unknown ids are 503, 404 once it gave its list, and that outlives a reload."""
    tiny_b.stop()
    plain = artifact_file(tmp_path, Contract())
    with running_router(plain, [tiny_a.url, tiny_b.url], OFTEN, TWO_WORKERS) as router:
        assert _statuses(router, "tiny-a") == {200}
        assert _statuses(router, "tiny-b") == _statuses(router, "tiny-c") == {503}
        assert_error(_ask(router, "tiny-c"), 503, "no_healthy_engines")
        tiny_b.start()
        wait_until(lambda: _statuses(router, "tiny-b") == {200}, router.log)
        wait_until(lambda: _statuses(router, "tiny-c") == {404}, router.log)
        tiny_b.stop()
        _replace_workers(router, signal.SIGHUP)
        assert _statuses(router, "tiny-c") == {404}
        wait_until(lambda: _statuses(router, "tiny-b") == {503}, router.log)
        assert _readyz(router)["models"] == ["tiny-a", "tiny-b"]
    assert {json.loads(received.body)["model"] for received in tiny_a.received} == {"tiny-a"}


def test_an_engine_that_comes_back_with_another_model_gets_no_request_for_the_old_one(
    tmp_path: Path, tiny_a: MockEngine
) -> None:
    """After a failure an engine is asked for its list before it is used: until it has given one it gets nothing."""

    def without_list(received: ReceivedRequest) -> ScriptedResponse | None:
        return MockResponse(500) if received.path == "/v1/models" else _answer_any_model(received)

    with running_router(artifact_file(tmp_path, Contract()), [tiny_a.url], OFTEN) as router:
        tiny_a.stop()
        wait_until(lambda: _ask(router, "tiny-a").status == 503, router.log)
        tiny_a.models = ("tiny-c",)
        tiny_a.script(without_list)
        tiny_a.start()
        wait_until(lambda: "/v1/models returns 500" in str(_readyz(router)), router.log)
        assert_error(_ask(router, "tiny-a"), 503, "no_healthy_engines")
        tiny_a.script(_answer_any_model)
        wait_until(lambda: _ask(router, "tiny-c").status == 200, router.log)
        assert_error(_ask(router, "tiny-a"), 404, "model_not_found", "model")
    assert [received.json()["model"] for received in tiny_a.received] == ["tiny-c"]


def test_an_engine_that_lists_no_served_id_is_named(tmp_path: Path, tiny_a: MockEngine) -> None:
    """One engine that lists something else than ROUTER_MODEL_ID: the log and /readyz say so, and requests are 404."""
    settings = OFTEN | {"ROUTER_MODEL_ID": "large"}
    with running_router(artifact_file(tmp_path, Contract()), [tiny_a.url], settings, until_ready=False) as router:
        problem = "it lists tiny-a, none of ROUTER_MODEL_ID (large), so it gets no requests"
        router.wait_for_line(f"WARNING.* engine {re.escape(f'{tiny_a.url} is healthy: {problem}')}")
        state = _readyz(router)
        assert state["status"] == "not ready"
        assert state["reason"] == "no healthy engine lists any of ROUTER_MODEL_ID (large)"
        assert state["engine_problems"] == {tiny_a.url: problem}
        assert state["models"] == []
        assert_error(_ask(router, "large"), 404, "model_not_found", "model")
        assert_error(_ask(router, "tiny-a"), 404, "model_not_found", "model")
    assert tiny_a.received == []


def test_an_engine_without_a_list_serves_the_ids_given_to_it(
    tmp_path: Path, tiny_a: MockEngine, tiny_b: MockEngine
) -> None:
    """`models=` behind an engine counts in place of its list; a second engine without either gets nothing."""

    def keyed(received: ReceivedRequest) -> ScriptedResponse | None:
        return MockResponse(401) if received.path == "/v1/models" else _answer_any_model(received)

    for engine in (tiny_a, tiny_b):
        engine.script(keyed)
    engines = [f"{tiny_a.url} models=org/x:1|y", tiny_b.url]
    with running_router(artifact_file(tmp_path, Contract()), engines, OFTEN) as router:
        assert [_ask(router, model).status for model in ("org/x:1", "y", "z")] == [200, 200, 503]
        # A check that is not done yet is a problem, too.
        wait_until(lambda: list(_readyz(router)["engine_problems"]) == [tiny_b.url])
        with RawClient(router.port) as client:
            assert [card["id"] for card in client.get("/v1/models").json()["data"]] == ["org/x:1", "y"]
    assert [received.json()["model"] for received in tiny_a.received] == ["org/x:1", "y"]
    assert tiny_b.received == []


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningRouter, dict[str, MockEngine]]]:
    """A router with aliases in front of two engines, each with its own model."""
    with ExitStack() as stack:
        engines = {name: stack.enter_context(MockEngine(models=(name,))) for name in ("tiny-a", "tiny-b")}
        artifact = artifact_file(tmp_path_factory.mktemp("artifact"), ALIASED)
        urls = [engine.url for engine in engines.values()]
        router = stack.enter_context(running_router(artifact, urls, OFTEN | BOTH))
        wait_until(lambda: _readyz(router)["engines"]["healthy"] == 2, router.log)
        yield router, engines


@pytest.mark.parametrize("route", PASS_THROUGH)
def test_every_route_goes_where_its_model_is_listed(
    pair: tuple[RunningRouter, dict[str, MockEngine]], route: str
) -> None:
    """On routes under no contract the model decides, too: ids, aliases with their names in the answer, 404, 400."""
    router, engines = pair
    for engine in engines.values():
        engine.clear()
    with RawClient(router.port) as client:
        for asked, served in (("tiny-a", "tiny-a"), ("tiny-b", "tiny-b"), ("latest", "tiny-a"), ("big", "tiny-b")):
            body = b'{"input": "\xc3\xa9" ,"model" : %s , "params": {"model": 7}}'
            answer = client.post(route, body % json.dumps(asked).encode())
            assert answer.status == 200
            assert answer.json().get("model", asked) == asked
            assert engines[served].received[-1].body == body % json.dumps(served).encode()
            assert engines[served].received[-1].target == route
        unknown = client.post(route, chat(model="tiny-c"))
        assert (unknown.status, unknown.header("x-router-error-code")) == (404, "model_not_found")
        twice = b'{"model":"tiny-a","mod\\u0065l":"tiny-b"}'
        for body in (b"{}", chat(model=None), chat(model=7), chat(model=["tiny-a"]), twice, b"[]"):
            rejected = client.post(route, body)
            assert (rejected.status, rejected.header("x-router-error-code")) == (400, "bad_request")
    assert sum(len(engine.received) for engine in engines.values()) == 4


def test_a_stream_under_an_alias_carries_its_name(pair: tuple[RunningRouter, dict[str, MockEngine]]) -> None:
    """Events of a completion's stream get the name that was asked for, as those of a chat do."""
    router, _ = pair
    with RawClient(router.port) as client:
        streamed = client.post("/v1/completions", b'{"model": "big", "prompt": "hi", "stream": true}').body
    assert streamed.count(b'"model": "big"') == streamed.count(b"data: {") > 1
    assert b"tiny-b" not in streamed


def test_a_request_without_a_model_goes_to_the_only_one(tmp_path: Path, tiny_a: MockEngine) -> None:
    """Where one model alone is served a body passes as it is; where its engine lists another one, too, it does not."""

    def echo(received: ReceivedRequest) -> ScriptedResponse | None:
        return MockResponse.json({"ok": 1}) if received.method == "POST" else None

    tiny_a.script(echo)
    settings = OFTEN | {"ROUTER_MODEL_ID": "tiny-a"}
    artifact = artifact_file(tmp_path, Contract())
    with running_router(artifact, [tiny_a.url], settings) as router, RawClient(router.port) as client:
        for body in (b' {"text":"hi"}', b'{"model":null}'):
            assert client.post("/generate", body).status == 200
            assert tiny_a.received[-1].body == body
        tiny_a.models = ("first", "tiny-a")
        wait_until(lambda: client.post("/generate", b"{}").status == 400, router.log)
        assert_error(client.post("/generate", b"{}"), 400, "bad_request", "model")
        assert client.post("/generate", b'{"model":"tiny-a"}').status == 200
