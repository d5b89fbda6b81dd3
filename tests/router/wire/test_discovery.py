"""Engines behind a name, with a real name server whose answers change while clients are served."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Self

import dns.rcode
import pytest

from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import ScriptedResponse
from tests.exhaustive import exhaustive_but
from tests.router.dnsserver import DnsServer
from tests.router.process import children_of
from tests.router.rawclient import RawClient, post_head
from tests.router.serving import RunningRouter, free_port, running_router, status_of, wait_until
from tests.router.wire.chat import CHAT, chat

NAME = "engines.test"
WORKERS = 2
CLIENTS = 4
TWO_WORKERS = ("-c", "python:router.gunicorn_conf", "--workers", str(WORKERS))


def _echo(received: ReceivedRequest) -> ScriptedResponse | None:
    return MockResponse.json({"nonce": received.json()["nonce"]}) if received.method == "POST" else None


class _Engines:
    """Engines at 127.0.0.2 and on, all at the same port, and the name server that knows them."""

    def __init__(self, stack: ExitStack, how_many: int) -> None:
        self.port = free_port()
        self.all = [
            stack.enter_context(MockEngine(host=f"127.0.0.{number}", port=self.port))
            for number in range(2, 2 + how_many)
        ]
        self.server = stack.enter_context(DnsServer())
        for engine in self.all:
            engine.script(_echo)

    @property
    def item(self) -> str:
        return f"dns://{NAME}:{self.port}"

    def name(self, *numbers: int) -> None:
        """Let the name stand for the engines of these numbers."""
        self.server.set(NAME, *(f"127.0.0.{2 + number}" for number in numbers))

    @contextmanager
    def router(self, *given: str, until_ready: bool = True) -> Iterator[RunningRouter]:
        settings = {
            "ROUTER_DNS_SERVER": self.server.address,
            "ROUTER_DNS_REFRESH_INTERVAL_SECONDS": "0.1",
            "ROUTER_RETRIES": "0",
        }
        with running_router(None, [*given, self.item], settings, TWO_WORKERS, until_ready=until_ready) as router:
            if until_ready:
                _wait_until_met(router, self.all[0])
            yield router


@pytest.fixture
def engines() -> Iterator[_Engines]:
    """Four engines, of which the name stands for the first two."""
    with ExitStack() as stack:
        four = _Engines(stack, 4)
        four.name(0, 1)
        yield four


class _Load:
    """A few clients that ask without a pause, and check that each answer is their own."""

    def __init__(self, port: int) -> None:
        self.done = count()
        self.served = 0
        self.wrong: list[str] = []
        self._nonces = count()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(port,)) for _ in range(CLIENTS)]

    def _ask(self, port: int) -> None:
        # A connection for each request: kept ones would all lead to one worker.
        while not self._stopped.is_set():
            nonce = next(self._nonces)
            with RawClient(port) as client:
                answer = client.post(CHAT, chat(nonce=nonce))
            if answer.status != 200 or answer.json() != {"nonce": nonce}:
                self.wrong.append(f"{answer}")
            self.served = next(self.done)

    def go_on(self, requests: int = 100) -> None:
        """Wait until so many more requests were answered."""
        wanted = self.served + requests
        wait_until(lambda: self.served >= wanted, lambda: f"{self.wrong}")

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


def _wait_for_lines(router: RunningRouter, text: str, times: int) -> None:
    wait_until(lambda: router.log().count(text) >= times, router.log)


def _counts(router: RunningRouter) -> dict[str, int]:
    with RawClient(router.port) as client:
        counts: dict[str, int] = client.get("/readyz").json()["engines"]
        return counts


def _wait_until_met(router: RunningRouter, *engines: MockEngine) -> None:
    """Wait until each worker has found these engines healthy."""
    for engine in engines:
        _wait_for_lines(router, f"engine {engine.url} is healthy\n", WORKERS)


def _asked(engine: MockEngine) -> int:
    return len(engine.received)


def test_engines_come_and_go_under_load(engines: _Engines) -> None:
    """Whatever joins is used once it was looked at, whatever leaves gets nothing more, and no client notices."""
    first, second, third, fourth = engines.all
    with engines.router() as router, _Load(router.port) as load:
        load.go_on()
        assert _asked(first)
        assert _asked(second)
        engines.name(0, 1, 2)
        third.wait_until(lambda: _asked(third) > 0, 20)
        assert {probe.target for probe in third.health_checks} == {"/health", "/v1/models"}
        for engine, stays in ((first, (1, 2)), (second, (2,)), (third, (3,)), (fourth, (0,))):
            engines.name(*stays)
            _wait_for_lines(router, f"engine {engine.url} left", WORKERS)
            load.go_on()  # requests that had been given to it are over
            last = _asked(engine)
            load.go_on(200)
            assert _asked(engine) == last
        assert _asked(fourth)
        load.go_on()
    assert load.wrong == []


def test_a_stream_of_an_engine_that_left_comes_whole(engines: _Engines) -> None:
    """What an engine runs when it leaves goes on to its end, after which it keeps no connection."""
    first, second = engines.all[:2]
    engines.name(0)
    goes_on = threading.Event()
    first.answer_next(MockResponse.sse(b"data: 1\n\n", goes_on, b"data: 2\n\n", b"data: [DONE]\n\n"))
    with engines.router() as router, RawClient(router.port) as client:
        body = chat(stream=True, nonce=0)
        client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
        assert client.head()[0] == 200
        assert client.chunk() == b"data: 1\n\n"
        engines.name(1)
        _wait_for_lines(router, f"engine {first.url} left", WORKERS)
        with RawClient(router.port) as other:
            assert other.post(CHAT, chat(nonce=1)).status == 200
        assert _asked(second) == 1
        goes_on.set()
        assert b"".join(iter(client.chunk, b"")) == b"data: 2\n\ndata: [DONE]\n\n"
        first.wait_until(lambda: first.open_connections == 0)
        assert _counts(router) == {"configured": 1, "healthy": 1, "draining": 0, "unhealthy": 0, "open": 0}


def test_an_engine_that_joins_gets_nothing_before_its_probe_succeeds(engines: _Engines) -> None:
    """An address in an answer is not yet an engine at work."""
    third = engines.all[2]
    third.healthy = False
    with engines.router() as router, _Load(router.port) as load:
        engines.name(0, 1, 2)
        _wait_for_lines(router, f"engine {third.url} is draining", WORKERS)
        load.go_on()
        assert _asked(third) == 0
        third.healthy = True
        third.wait_until(lambda: _asked(third) > 0, 20)
    assert load.wrong == []


def test_a_name_may_resolve_later(engines: _Engines) -> None:
    """A router whose name does not exist at start is not ready, says why, and serves once it does."""
    engines.server.unset(NAME)
    with engines.router(until_ready=False) as router:
        router.wait_for_line(f"{engines.item}: it has no address")
        with RawClient(router.port) as client:
            ready = client.get("/readyz")
            assert (ready.status, ready.json()["reason"]) == (503, "no engine is known yet")
            refused = client.post(CHAT, chat(nonce=0))
            assert (refused.status, refused.header("x-router-error-code")) == (503, "no_healthy_engines")
            assert client.get("/healthz").status == 200
        engines.name(0)
        _wait_until_met(router, engines.all[0])
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat(nonce=1)).json() == {"nonce": 1}


@pytest.mark.parametrize(
    "outage", exhaustive_but(["SERVFAIL", "silence"], ["SERVFAIL", "NXDOMAIN", "silence", "no address"])
)
def test_an_outage_of_dns_takes_no_engine_out(engines: _Engines, outage: str) -> None:
    """While a name server fails, or has no address to tell, the engines known last go on serving."""
    with engines.router() as router, _Load(router.port) as load:
        if outage == "silence":
            engines.server.silent = True
        elif outage == "no address":
            engines.name()
        else:
            engines.server.rcode = dns.rcode.from_text(outage)
        engines.server.wait_for_questions(4 * WORKERS)
        load.go_on()
        assert _counts(router)["healthy"] == 2
        engines.server.silent, engines.server.rcode = False, None
        engines.name(0, 1, 2)
        _wait_until_met(router, engines.all[2])
        assert " left\n" not in router.log()
        _wait_for_lines(router, f"{engines.item}: resolved again", WORKERS)
        assert router.log().count("its last known addresses stay in use") == WORKERS
    assert load.wrong == []


def test_many_addresses_are_all_known(engines: _Engines) -> None:
    """An answer that takes TCP brings every address; those where nobody is are looked at and left out."""
    numbers = range(60)
    engines.name(*numbers)
    with engines.router() as router, _Load(router.port) as load:
        _wait_until_met(router, *engines.all)
        load.go_on()
        assert _counts(router) == {"configured": 60, "healthy": 4, "draining": 0, "unhealthy": 56, "open": 0}
        assert all(_asked(engine) for engine in engines.all)
    assert "tcp" in engines.server.asked_over
    assert load.wrong == []


def test_an_engine_that_is_given_and_named_counts_once(engines: _Engines) -> None:
    """An address that stands in the settings too is one engine, which stays when the name lets it go."""
    first, second = engines.all[:2]
    with engines.router(first.url) as router:
        assert _counts(router)["configured"] == 2
        engines.name(2)
        _wait_for_lines(router, f"engine {second.url} left", WORKERS)
        assert _counts(router)["healthy"] == 2
        assert f"engine {first.url} left" not in router.log()
        assert f"engine {first.url} joined" not in router.log()
        assert "in front of 1 engine(s), the engines of dns://" in router.log()
    assert status_of(f"{first.url}/health") == 200


def _workers(router: RunningRouter) -> set[int]:
    return set(children_of(router.process.pid))


@pytest.mark.parametrize("how", ["a reload", "a worker that died"])
def test_a_worker_that_starts_in_an_outage_knows_the_engines(engines: _Engines, how: str) -> None:
    """What a name resolved to last is known to new workers too, while the name server fails."""
    with engines.router() as router:
        engines.server.rcode = dns.rcode.SERVFAIL
        engines.server.wait_for_questions(2 * WORKERS)
        before = _workers(router)
        if how == "a reload":
            router.signal(signal.SIGHUP)
        else:
            os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: _workers(router) - before, router.log)
        wait_until(lambda: len(_workers(router)) == WORKERS, router.log)
        for nonce in range(40):
            with RawClient(router.port) as client:
                assert client.post(CHAT, chat(nonce=nonce)).status == 200, router.log()
