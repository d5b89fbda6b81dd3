"""Engines that fail while they serve: which is left out, for how long, and how it comes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import NamedTuple

import pytest

from router.mock_engine import MockEngine, MockResponse, RawResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import ScriptedResponse
from router.request.routes import EMBEDDINGS
from tests.router.rawclient import RawAnswer, RawClient, post_head
from tests.router.serving import RunningRouter, running_router, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat

# No engine is looked at by itself while a test runs, and nothing is sent twice: each request shows one engine.
ALONE = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "600", "ROUTER_RETRIES": "0"}
SOON = ALONE | {"ROUTER_BREAKER_RESET_TIMEOUT_SECONDS": "0.2"}
LATE = ALONE | {"ROUTER_BREAKER_RESET_TIMEOUT_SECONDS": "600"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
BAD = chat(messages=[{"role": "user", "content": [IMAGE]}])


def _fails(received: ReceivedRequest) -> ScriptedResponse | None:
    return MockResponse(500) if received.method == "POST" else None


def _is_unavailable(received: ReceivedRequest) -> ScriptedResponse | None:
    return MockResponse(503) if received.method == "POST" else None


def _fails_at_images(received: ReceivedRequest) -> ScriptedResponse | None:
    return MockResponse(500) if b"image_url" in received.body else None


def _engines(router: RunningRouter) -> dict[str, int]:
    with RawClient(router.port) as client:
        counts: dict[str, int] = client.get("/readyz").json()["engines"]
        return counts


def _all_healthy(router: RunningRouter) -> bool:
    counts = _engines(router)
    return counts["healthy"] == counts["configured"] and counts["open"] == 0


def _ask(client: RawClient, count: int, body: bytes | None = None) -> list[RawAnswer]:
    return [client.post(CHAT, body or chat()) for _ in range(count)]


def _who(answers: list[RawAnswer]) -> set[str]:
    return {answer.json()["choices"][0]["message"]["content"] for answer in answers}


class _Two(NamedTuple):
    first: MockEngine
    second: MockEngine
    router: RunningRouter
    client: RawClient


@contextmanager
def _two(settings: dict[str, str]) -> Iterator[_Two]:
    with (
        MockEngine(text="first") as first,
        MockEngine(text="second") as second,
        running_router(None, [first.url, second.url], settings) as router,
        RawClient(router.port) as client,
    ):
        wait_until(lambda: _all_healthy(router), router.log)
        yield _Two(first, second, router, client)


def test_an_unavailable_engine_is_left_out_and_comes_back() -> None:
    """After five 503s an engine gets no more requests; a trial that it answers brings it back, no client's request."""
    with _two(SOON) as two:
        two.first.script(_is_unavailable)
        assert sorted(answer.status for answer in _ask(two.client, 10)) == [200] * 5 + [503] * 5
        two.router.wait_for_line(f"engine {two.first.url} gets no more requests until a trial succeeds: .*unavailable")
        assert _who(_ask(two.client, 10)) == {"second"}
        two.first.script(None)
        two.router.wait_for_line(f"engine {two.first.url} gets requests again: a trial request got 200")
        assert two.first.received[-1].json()["max_tokens"] == 1
        assert _who(_ask(two.client, 4)) == {"first", "second"}


def test_one_bad_client_takes_no_engine_out() -> None:
    """200 requests that engines answer with 500 for what is in them take none out, beside clients or without."""
    with _two(SOON) as two:
        two.first.script(_fails_at_images)
        two.second.script(_fails_at_images)
        assert {answer.status for answer in _ask(two.client, 100, BAD)} == {500}
        for _ in range(100):
            assert two.client.post(CHAT, BAD).status == 500
            assert _ask(two.client, 1)[0].status == 200
        assert _who(_ask(two.client, 4)) == {"first", "second"}
        assert _engines(two.router) == {"configured": 2, "healthy": 2, "draining": 0, "unhealthy": 0, "open": 0}
        assert "gets no more requests" not in two.router.log()


def test_bad_requests_do_not_buy_trials() -> None:
    """However many 500s a client gets, the router adds next to no requests of its own."""
    with MockEngine() as engine, running_router(None, [engine.url], SOON) as router, RawClient(router.port) as client:
        engine.script(_fails_at_images)
        _ask(client, 200, BAD)
        engine.wait_for(201)
        trials = [received for received in engine.received if b"image_url" not in received.body]
        assert 1 <= len(trials) <= 10


def test_an_engine_that_looks_healthy_and_fails_is_taken_out() -> None:
    """An engine whose /health is good and that fails every request, its trials too, is left out until it works."""
    with _two(SOON) as two:
        two.first.script(_fails)
        _ask(two.client, 10)
        two.router.wait_for_line(f"engine {two.first.url} gets no more requests until a trial succeeds: .* got 500")
        assert _who(_ask(two.client, 6)) == {"second"}
        assert _engines(two.router)["healthy"] == 2
        two.first.script(None)
        two.router.wait_for_line(f"engine {two.first.url} gets requests again")
        assert _who(_ask(two.client, 4)) == {"first", "second"}


def test_an_engine_that_breaks_connections_is_taken_out() -> None:
    """Five answers that break off open the circuit, although every probe between them succeeds."""
    with _two(LATE) as two:
        two.first.script(lambda received: RawResponse(then="reset") if received.method == "POST" else None)
        assert sorted(answer.status for answer in _ask(two.client, 10)) == [200] * 5 + [502] * 5
        assert _who(_ask(two.client, 6)) == {"second"}
        assert _engines(two.router)["open"] == 1


def test_an_engine_that_does_not_answer_in_time_is_taken_out() -> None:
    """Five requests without an answer in time open the circuit."""
    silence = Event()
    with _two(LATE | {"ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS": "0.2"}) as two:
        two.first.script(lambda received: MockResponse(hold=silence) if received.method == "POST" else None)
        assert sorted(answer.status for answer in _ask(two.client, 10)) == [200] * 5 + [504] * 5
        assert _who(_ask(two.client, 6)) == {"second"}
        silence.set()


def test_an_engine_that_was_restarted_comes_back() -> None:
    """A stopped engine is left out after one refused connection at most, and serves again once it is back."""
    with _two(ALONE) as two:
        two.first.stop()
        statuses = [answer.status for answer in _ask(two.client, 6)]
        assert statuses.count(200) >= 5
        assert _who(_ask(two.client, 4)) == {"second"}
        assert _engines(two.router)["unhealthy"] == 1
        two.first.start()
        wait_until(lambda: _all_healthy(two.router), two.router.log)
        assert _who(_ask(two.client, 4)) == {"first", "second"}


def test_a_router_whose_engines_all_failed_says_so() -> None:
    """With every circuit open clients are told to come back, nobody is bothered, and the router is not ready."""
    with _two(LATE) as two:
        for engine in (two.first, two.second):
            engine.script(_is_unavailable)
        assert {answer.status for answer in _ask(two.client, 10)} == {503}
        refused = two.client.post(CHAT, chat())
        assert_error(refused, 503, "no_healthy_engines")
        assert refused.header("Retry-After") == "1"
        assert len(two.first.received) + len(two.second.received) == 10
        ready = two.client.get("/readyz")
        assert ready.status == 503
        assert ready.json()["engines"] == {"configured": 2, "healthy": 2, "draining": 0, "unhealthy": 0, "open": 2}
        assert ready.json()["reason"] == "every healthy engine failed too often and waits for its trial"


def test_a_draining_engine_gets_no_new_requests() -> None:
    """An engine that answers its probe with 503 finishes what it has and gets nothing new, until it is healthy."""
    goes_on = Event()
    settings = ALONE | {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.1"}
    with _two(settings) as two:
        for engine in (two.first, two.second):
            engine.answer_next(MockResponse.sse(b"data: {}\n\n", goes_on, b"data: [DONE]\n\n"))
        with RawClient(two.router.port) as streaming:
            body = chat(stream=True)
            streaming.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
            wait_until(lambda: two.first.received or two.second.received)
            busy, other = (two.first, "second") if two.first.received else (two.second, "first")
            (two.second if busy is two.first else two.first).restore_behaviour()
            busy.healthy = False
            wait_until(lambda: _engines(two.router)["draining"] == 1)
            assert _who(_ask(two.client, 4)) == {other}
            goes_on.set()
            assert streaming.answer().body.endswith(b"data: [DONE]\n\n")
        busy.healthy = True
        wait_until(lambda: _all_healthy(two.router), two.router.log)
        assert _who(_ask(two.client, 4)) == {"first", "second"}


@pytest.mark.parametrize("path", ["/health", "/v1/models"])
def test_an_engine_that_is_silent_when_probed_gets_no_requests(path: str) -> None:
    """An engine that accepts a probe and does not answer holds nobody up, and serves once it answers."""
    speaks = Event()
    with MockEngine(text="silent") as silent, MockEngine(text="lively") as lively:
        silent.script(
            lambda received: MockResponse(hold=speaks) if received.path == path and not speaks.is_set() else None
        )
        with running_router(None, [silent.url, lively.url], ALONE) as router, RawClient(router.port) as client:
            assert _who(_ask(client, 4)) == {"lively"}
            speaks.set()
            wait_until(lambda: _who(_ask(client, 4)) == {"silent", "lively"}, router.log)


def test_an_engine_that_only_embeds_is_not_taken_out_by_bad_requests() -> None:
    """Bad requests to an engine that answers 500 to any chat leave it in: what it does is embedding."""

    def embed(received: ReceivedRequest) -> ScriptedResponse | None:
        if received.method != "POST":
            return None
        return MockResponse.json({}, 200 if received.path == EMBEDDINGS and b"bad" not in received.body else 500)

    with MockEngine() as engine, running_router(None, [engine.url], SOON | {"ROUTER_BREAKER_FAILURES": "3"}) as router:
        engine.script(embed)
        with RawClient(router.port) as client:
            assert [client.post(EMBEDDINGS, b'{"input":"bad"}').status for _ in range(3)] == [500] * 3
            wait_until(lambda: [received.path for received in engine.received].count(CHAT) == 1)
            wait_until(lambda: len(engine.received) == 5)
            assert [client.post(EMBEDDINGS, b'{"input":"good"}').status for _ in range(5)] == [200] * 5
        assert _engines(router)["open"] == 0
