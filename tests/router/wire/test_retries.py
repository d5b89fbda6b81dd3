"""Requests sent once more: to another engine where the first did not work on them, and never where it may have."""

import random
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from threading import Event

import pytest

from router.mock_engine import MockEngine, MockResponse, RawResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import JSON, ScriptedResponse
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.rawengine import RawEngine, ok, read_request, reset
from tests.router.serving import RunningRouter, running_router, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat

UNHURRIED = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "600", "ROUTER_BREAKER_FAILURES": "1000"}
"""Engines are looked at once, and no number of failures takes one out."""
REFUSAL = MockResponse(429, [*JSON, ("Retry-After", "7"), ("Vary", "a")], b'{"error":"busy"}')


@contextmanager
def _router(*engines: str, **settings: str) -> Iterator[RunningRouter]:
    """Run a router that has found all its engines healthy."""
    with running_router(None, engines, {**UNHURRIED, **settings}) as router, RawClient(router.port) as client:
        wait_until(lambda: client.get("/readyz").json()["engines"]["healthy"] == len(engines), router.log)
        yield router


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[MockEngine, MockEngine]]:
    """Two engines that serve the same model."""
    with MockEngine(text="first") as first, MockEngine(text="second") as second:
        yield first, second


@pytest.fixture(scope="module")
def shared(pair: tuple[MockEngine, MockEngine]) -> Iterator[RunningRouter]:
    """A router in front of both that soon loses patience."""
    first, second = pair
    with _router(
        first.url,
        second.url,
        ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS="0.5",
        ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS="0.5",
    ) as router:
        yield router


@pytest.fixture(autouse=True)
def _forget(pair: tuple[MockEngine, MockEngine]) -> None:
    for engine in pair:
        engine.restore_behaviour()
        engine.clear()


def _ask(router: RunningRouter, body: bytes = chat()) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.post(CHAT, body)


def _script(pair: tuple[MockEngine, MockEngine], *replies: ScriptedResponse) -> None:
    """Let the next requests be answered so, whichever of the engines each reaches; behind them, as usual."""
    left = iter(replies)
    for engine in pair:
        engine.script(lambda received: next(left, None) if received.method == "POST" else None)


def _count(pair: tuple[MockEngine, MockEngine]) -> int:
    return sum(len(engine.received) for engine in pair)


def test_an_engine_that_refuses_connections_is_passed_over() -> None:
    """A request to an engine that is gone is answered by another one, and its answer says how often it was sent."""
    with MockEngine() as mortal, MockEngine() as lasting, _router(mortal.url, lasting.url) as router:
        assert [_ask(router).header("x-router-attempts") for _ in range(2)] == [None, None]
        mortal.stop()
        answers = [_ask(router) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 200]
        assert sorted(answer.header("x-router-attempts") or "" for answer in answers) == ["", "2"]
        assert len(lasting.received) == 3


def test_a_stream_is_passed_over_too() -> None:
    """A streaming request is sent to another engine as well, and streams from there."""
    with MockEngine() as mortal, MockEngine() as lasting, _router(mortal.url, lasting.url) as router:
        mortal.stop()
        answers = [_ask(router, chat(stream=True)) for _ in range(2)]
    assert all(answer.body.endswith(b"data: [DONE]\n\n") for answer in answers)
    assert sorted(answer.header("x-router-attempts") or "" for answer in answers) == ["", "2"]


def test_a_single_engine_that_is_gone_is_an_error() -> None:
    """Where there is no other engine a refused connection is a 502, which may be asked for again."""
    with MockEngine() as mortal, _router(mortal.url) as router:
        mortal.stop()
        answer = _ask(router)
        assert_error(answer, 502, "upstream_unreachable")
        assert (answer.header("x-should-retry"), answer.header("x-router-attempts")) == (None, None)


def _refuse_and_end(other: MockEngine, _: ReceivedRequest) -> ScriptedResponse:
    other.stop()
    return REFUSAL


@pytest.mark.parametrize("status", [429, 503])
def test_an_engine_that_is_busy_is_passed_over(
    pair: tuple[MockEngine, MockEngine], shared: RunningRouter, status: int
) -> None:
    """A request that one engine refuses as too much is answered by the other."""
    _script(pair, MockResponse(status, JSON, b"{}"))
    answer = _ask(shared)
    assert (answer.status, answer.header("x-router-attempts")) == (200, "2")
    assert [len(engine.received) for engine in pair] == [1, 1]


def test_the_last_refusal_is_passed_on(pair: tuple[MockEngine, MockEngine], shared: RunningRouter) -> None:
    """Where every engine refuses, the client gets what the last one said, headers and all."""
    _script(pair, MockResponse(429, JSON, b'{"error":"first"}'), REFUSAL)
    answer = _ask(shared)
    assert (answer.status, answer.body) == (429, b'{"error":"busy"}')
    assert [answer.header(name) for name in ("Retry-After", "Vary", "x-router-error-code")] == ["7", "a", None]
    assert answer.header("x-router-attempts") == "2"


def test_a_refusal_is_passed_on_when_the_other_engine_is_gone() -> None:
    """A refusal that came is worth more than the report that nobody else is there."""
    with MockEngine() as first, MockEngine() as second, _router(first.url, second.url) as router:
        for engine, other in ((first, second), (second, first)):
            engine.script(partial(_refuse_and_end, other))
        answer = _ask(router)
    assert (answer.status, answer.body, answer.header("Retry-After")) == (429, b'{"error":"busy"}', "7")


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        pytest.param(MockResponse(hold=Event()), 504, "upstream_timeout", id="silent"),
        pytest.param(RawResponse(then="reset"), 502, "upstream_unreachable", id="reset"),
        pytest.param(RawResponse(b"HTTP/1.1 "), 502, "upstream_incomplete", id="cut"),
    ],
)
def test_a_refusal_never_stands_for_what_may_have_run(
    pair: tuple[MockEngine, MockEngine], shared: RunningRouter, reply: ScriptedResponse, status: int, code: str
) -> None:
    """When one engine refused and the other took the request and failed, the client is told not to ask again."""
    _script(pair, REFUSAL, reply)
    answer = _ask(shared)
    assert_error(answer, status, code)
    assert answer.header("x-should-retry") == "false"
    assert answer.header("x-router-attempts") == "2"
    assert _count(pair) == 2


def test_only_the_router_counts_attempts(pair: tuple[MockEngine, MockEngine], shared: RunningRouter) -> None:
    """What an engine says in a header of the router's own does not reach the client."""
    _script(pair, MockResponse(200, [*JSON, ("x-router-attempts", "9"), ("X-Router-Anything", "1")], b"{}"))
    answer = _ask(shared)
    assert [answer.header(name) for name in ("x-router-attempts", "x-router-anything")] == [None, None]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        pytest.param(MockResponse(hold=Event()), 504, id="silence before the head"),
        pytest.param(MockResponse(body=[Event()], framing="chunked"), 504, id="silence behind the head"),
        pytest.param(RawResponse(then="reset"), 502, id="reset with the request read"),
        pytest.param(RawResponse(), 502, id="closed with the request read"),
        pytest.param(RawResponse(b"H"), 502, id="closed behind one byte"),
        pytest.param(MockResponse(200, JSON, b'{"a":1}', cut_after=1), 502, id="cut"),
        pytest.param(MockResponse(500, JSON, b"{}"), 500, id="500"),
        pytest.param(MockResponse(502, JSON, b"{}"), 502, id="502"),
        pytest.param(MockResponse(504, JSON, b"{}"), 504, id="504"),
        pytest.param(MockResponse(408, JSON, b"{}"), 408, id="408"),
    ],
)
def test_what_may_have_run_is_not_sent_again(
    pair: tuple[MockEngine, MockEngine], shared: RunningRouter, reply: ScriptedResponse, status: int
) -> None:
    """Another engine is free, and is not asked: the first may have done the work already."""
    _script(pair, reply)
    answer = _ask(shared)
    assert (answer.status, answer.header("x-router-attempts")) == (status, None)
    assert _count(pair) == 1


def test_no_retries_can_be_asked_for(pair: tuple[MockEngine, MockEngine]) -> None:
    """With ROUTER_RETRIES=0 the first refusal is the answer."""
    with _router(*(engine.url for engine in pair), ROUTER_RETRIES="0") as router:
        _script(pair, REFUSAL)
        assert (_ask(router).status, _count(pair)) == (429, 1)


def test_an_outage_is_not_multiplied(pair: tuple[MockEngine, MockEngine]) -> None:
    """While every engine refuses, retries are a tenth of the requests, and ten more at once."""
    with _router(*(engine.url for engine in pair)) as router, ThreadPoolExecutor(8) as pool:
        for engine in pair:
            engine.script(lambda received: MockResponse(503, JSON, b"{}") if received.method == "POST" else None)
        assert set(pool.map(lambda _: _ask(router).status, range(60))) == {503}
    assert 60 + 10 <= _count(pair) <= 60 + 10 + 6


def test_a_dead_kept_connection_costs_nothing(pair: tuple[MockEngine, MockEngine], shared: RunningRouter) -> None:
    """A POST behind the end of a kept connection is sent exactly once, on a new one."""
    for turn in range(10):
        assert _ask(shared, chat(nonce=turn)).status == 200
        for engine in pair:
            engine.drop_connections(reset=bool(turn % 2))
    nonces = Counter(received.json()["nonce"] for engine in pair for received in engine.received)
    assert nonces == Counter(range(10))


class _Fickle:
    """Answers the first request of each connection, and ends the connection around the arrival of the next."""

    def __init__(self) -> None:
        self.read: Counter[bytes] = Counter()
        self._lock = threading.Lock()
        self._random = random.Random(7)

    def serve(self, connection: socket.socket) -> None:
        request = read_request(connection)
        if request is None:
            return
        self._note(request[1])
        connection.sendall(ok(request[1]))
        with self._lock:
            moment, delay = self._random.randrange(5), self._random.uniform(0, 0.003)
        if moment == 0:  # before it, just before it, or while it is on its way
            end = time.perf_counter() + delay
            while time.perf_counter() < end:
                pass
            connection.close()
            return
        select.select([connection], [], [])
        if moment == 1:  # it has arrived, nobody has read it
            connection.close()
        elif moment == 2:
            reset(connection)
        elif request := read_request(connection):
            self._note(request[1])
            (connection.close if moment == 3 else lambda: reset(connection))()

    def _note(self, body: bytes) -> None:
        with self._lock:
            self.read[body] += 1


def test_no_race_with_the_end_of_a_connection_runs_a_request_twice() -> None:
    """2,000 POSTs against engines that end connections as the next arrives: each is read once, and answered truly."""
    fickle = _Fickle()

    def ask(first: int) -> Iterator[int]:
        with RawClient(router.port) as client:
            for nonce in range(first, first + 500):
                body = chat(nonce=nonce)
                answer = client.post(CHAT, body)
                yield answer.status
                if answer.status == 200:
                    assert (answer.body, fickle.read[body]) == (body, 1)
                else:
                    assert_error(answer, 502, "upstream_unreachable")
                    assert answer.header("x-should-retry") == "false"
                    assert fickle.read[body] <= 1

    with RawEngine(fickle.serve) as engine, _router(engine.url) as router, ThreadPoolExecutor(4) as pool:
        statuses = Counter(chain(*pool.map(lambda first: list(ask(first)), range(0, 2000, 500))))
    assert max(fickle.read.values()) == 1
    assert statuses[200] >= 1000
    assert statuses[502] >= 100
