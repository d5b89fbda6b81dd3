"""Which engine a request gets on real sockets: conversations that stay, engines that are busy, counts that end."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from threading import Event

import pytest

from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import ScriptedResponse
from tests.router.process import worker_of
from tests.router.rawclient import RawClient, post_head
from tests.router.serving import RunningRouter, launch, running_router, wait_until
from tests.router.wire.chat import CHAT, chat

CONF = ("-c", "python:router.gunicorn_conf")
WORKER = "X-Worker"
AFFINITY = {"ROUTER_POLICY": "prefix_affinity"}
CONVERSATIONS = range(24)


@pytest.fixture
def engines() -> Iterator[list[MockEngine]]:
    """Four engines."""
    with ExitStack() as stack:
        yield [stack.enter_context(MockEngine()) for _ in range(4)]


def _turn(conversation: int, turn: int) -> bytes:
    messages = [
        {"role": "system", "content": "the same for all"},
        {"role": "user", "content": f"conversation {conversation}"},
    ]
    for number in range(turn):
        messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": f"turn {number}"}]
    return chat(messages=messages)


def _homes(engines: list[MockEngine], routers: list[RunningRouter], turns: int = 3) -> list[set[int]]:
    """Return for each conversation the engines that got a turn of it, when the turns go by all routers."""
    for engine in engines:
        engine.clear()
    for router in routers:
        with RawClient(router.port) as client:
            for turn in range(turns):
                for conversation in CONVERSATIONS:
                    assert client.post(CHAT, _turn(conversation, turn)).status == 200
    homes: list[set[int]] = [set() for _ in CONVERSATIONS]
    for number, engine in enumerate(engines):
        for received in engine.received:
            conversation = received.json()["messages"][1]["content"].split()[1]
            homes[int(conversation)].add(number)
    return homes


def _all_healthy(router: RunningRouter, count: int) -> None:
    with RawClient(router.port) as client:
        wait_until(lambda: client.get("/readyz").json()["engines"]["healthy"] == count)


def test_a_conversation_stays_at_its_engine_whichever_router_it_comes_by(engines: list[MockEngine]) -> None:
    """Two routers that list the engines in different orders agree; an engine that stops moves its own conversations."""
    urls = [engine.url for engine in engines]
    with running_router(None, urls, AFFINITY) as one, running_router(None, urls[::-1], AFFINITY) as other:
        for router in (one, other):
            _all_healthy(router, 4)
        before = _homes(engines, [one, other])
        assert [len(homes) for homes in before] == [1] * len(CONVERSATIONS)
        assert len(set.union(*before)) > 1
        stopped = min(before[0])
        engines[stopped].stop()
        after = _homes(engines, [one, other])
        assert [len(homes) for homes in after] == [1] * len(CONVERSATIONS)
        assert all(old == new for old, new in zip(before, after, strict=True) if old != {stopped})
        engines[stopped].start()
        for router in (one, other):
            _all_healthy(router, 4)
        assert _homes(engines, [one, other]) == before


def test_a_session_is_told_by_its_header_which_stays_here(engines: list[MockEngine]) -> None:
    """Requests of one session meet one engine whatever they say; the engine is not told of the session."""
    settings = {**AFFINITY, "ROUTER_SESSION_HEADER": "X-Conversation"}
    with running_router(None, [engine.url for engine in engines], settings) as router:
        _all_healthy(router, 4)
        with RawClient(router.port) as client:
            for number in range(12):
                assert client.post(CHAT, _turn(number, 0), {"X-Conversation": "a b"}).status == 200
                assert client.post("/tokenize", b'{"prompt": 7}', {"X-Conversation": "a b"}).status < 500
        got = [engine.received for engine in engines if engine.received]
    assert [len(received) for received in got] == [24]
    assert all(request.values("X-Conversation") == [] for request in got[0])


@contextmanager
def _showing(engines: list[MockEngine], workers: int, **settings: str) -> Iterator[RunningRouter]:
    """Run a router that shows what is in flight, and which worker answers."""
    environment = {"ROUTER_ENGINES": ",".join(engine.url for engine in engines), **settings}
    app = "tests.router.wire.showing_loads:application"
    with RunningRouter(launch(environment, (*CONF, "--workers", str(workers)), app)) as router:
        router.wait_until_ready()
        _all_healthy(router, len(engines))
        yield router


def _loads(router: RunningRouter) -> list[int]:
    with RawClient(router.port) as client:
        return list(client.get("/loads").json().values())


def _send(router: RunningRouter, body: bytes) -> RawClient:
    """Send a request and leave its answer for later."""
    return RawClient(router.port).send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)


@contextmanager
def _holding(engines: list[MockEngine]) -> Iterator[Event]:
    """Let engines hold the answers to requests with `"user": "hold"` until the event is set."""
    release = Event()

    def hold(received: ReceivedRequest) -> ScriptedResponse | None:
        is_held = received.path == CHAT and received.json().get("user") == "hold"
        return replace(MockResponse.json({"held": True}), hold=release) if is_held else None

    for engine in engines:
        engine.script(hold)
    try:
        yield release
    finally:
        release.set()


def test_least_inflight_avoids_an_engine_that_holds_requests(engines: list[MockEngine]) -> None:
    """While one of two engines holds a request, both workers send everything to the other one."""
    two = engines[:2]
    with _showing(two, 2, ROUTER_POLICY="least_inflight") as router, _holding(two) as release:
        with _send(router, chat(user="hold")) as held, ExitStack() as stack:
            wait_until(lambda: sum(_loads(router)) == 1 and any(engine.received for engine in two))
            busy = next(engine for engine in two if engine.received)
            clients: dict[str | None, RawClient] = {}

            def connect() -> bool:
                # Kept open: a worker with more connections leaves the next one to the other.
                client = stack.enter_context(RawClient(router.port))
                clients[client.post(CHAT, chat()).header(WORKER)] = client
                return len(clients) == 2

            wait_until(connect)
            for client in [*clients.values()] * 10:
                assert client.post(CHAT, chat()).status == 200
            assert len(busy.received) == 1
            release.set()
            assert held.answer().status == 200
        assert _loads(router) == [0, 0]


def test_a_reload_forgets_nothing_that_is_in_flight(engines: list[MockEngine]) -> None:
    """After a reload the new worker sees what the old one still has in flight, until that ends."""
    with _showing(engines[:1], 1) as router, _holding(engines[:1]) as release, _send(router, chat(user="hold")) as held:
        wait_until(lambda: _loads(router) == [1])
        router.signal(signal.SIGHUP)
        first = worker_of(router)

        def is_new() -> bool:
            with RawClient(router.port) as client:
                return client.get("/healthz").header(WORKER) != str(first)

        wait_until(is_new)
        assert _loads(router) == [1]
        release.set()
        assert held.answer().status == 200
        wait_until(lambda: _loads(router) == [0])


def test_what_a_killed_worker_had_in_flight_is_not_counted(engines: list[MockEngine]) -> None:
    """A worker that is killed takes nothing back; its successor begins with an empty row."""
    with _showing(engines[:1], 1) as router, _holding(engines[:1]), ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(_send(router, chat(user="hold")))
        wait_until(lambda: _loads(router) == [3])
        os.kill(worker_of(router), signal.SIGKILL)

        def are_gone() -> bool:
            with suppress(OSError, EOFError):
                return _loads(router) == [0]
            return False

        wait_until(are_gone)


MIXED = {
    "whole": lambda: MockResponse.json({"ok": True}),
    "stream": lambda: MockResponse.sse(b'data: {"a": 1}\n\n', b"data: [DONE]\n\n"),
    "cut": lambda: replace(MockResponse.json({"ok": True}), cut_after=3),
    "cut stream": lambda: replace(MockResponse.sse(b'data: {"a": 1}\n\n', b"data: [DONE]\n\n"), cut_after=20),
    "reset": lambda: replace(MockResponse.json({"ok": True}), cut_after=0, then="reset"),
    "refused": lambda: MockResponse.json({"error": {"message": "later"}}, status=503),
    "broken": lambda: MockResponse.json({"error": {"message": "no"}}, status=500),
    "redirect": lambda: MockResponse(302, (("Location", "/"),)),
    "long": lambda: MockResponse(body=b"x" * (9 * 1024 * 1024)),
    "long and cut": lambda: MockResponse(body=b"x" * (9 * 1024 * 1024), cut_after=8_500_000),
}
LEAVING = ("stream that its client leaves", "silence that its client leaves")


def _one_of(number: int) -> str:
    kinds = (*MIXED, *LEAVING)
    return kinds[number % len(kinds)]


def test_nothing_stays_counted_whatever_becomes_of_requests(engines: list[MockEngine]) -> None:
    """After 200 requests that end in every way there is, by two workers, no engine has anything in flight."""
    never = Event()

    def script(received: ReceivedRequest) -> ScriptedResponse | None:
        if received.path != CHAT:
            return None
        kind = received.json()["user"]
        if kind == LEAVING[0]:
            return MockResponse.sse(b'data: {"a": 1}\n\n', never)
        if kind == LEAVING[1]:
            return replace(MockResponse.json({}), hold=never)
        return MIXED[kind]()

    for engine in engines:
        engine.script(script)
    settings = {"ROUTER_POLICY": "least_inflight", "ROUTER_BREAKER_FAILURES": "10000", "ROUTER_RETRIES": "2"}
    with _showing(engines, 2, **settings) as router:

        def ask(number: int) -> None:
            kind = _one_of(number)
            with _send(router, chat(user=kind)) as client, suppress(OSError, EOFError):
                if kind == LEAVING[0]:
                    client.head()
                elif kind == LEAVING[1]:
                    wait_until(
                        lambda: any(kind in received.json()["user"] for each in engines for received in each.received)
                    )
                else:
                    client.answer()

        try:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(ask, range(200)))
            wait_until(lambda: _loads(router) == [0] * len(engines), router.log)
        finally:
            never.set()
        assert sum(len(engine.received) for engine in engines) >= 190
