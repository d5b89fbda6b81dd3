"""Real llama.cpp servers that are killed, told to stop, frozen and brought back behind the router, under load."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from tests.llama.server import MODEL, TEXT, Llama, running_llama
from tests.router.rawclient import RawAnswer, RawClient, post_head
from tests.router.serving import RunningRouter, running_router, wait_until
from tests.router.wire.chat import CHAT, MESSAGES, assert_error

pytestmark = pytest.mark.exhaustive  # a real engine takes long to start

SETTINGS = {
    "ROUTER_BREAKER_FAILURES": "2",
    "ROUTER_BREAKER_RESET_TIMEOUT_SECONDS": "0.2",
    "ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS": "4",
    "ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS": "2",
    "ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.2",
}
ASKERS = 4
LONG_STREAMS = 4
"""Engines take turns, so each has half of them."""
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


class Mortal:
    """A llama.cpp server that can be brought back on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._life = ExitStack()
        self.llama: Llama = self._life.enter_context(running_llama(folder))

    def signal(self, number: signal.Signals) -> None:
        self.llama.process.send_signal(number)

    def come_back(self) -> None:
        """Make an end of it, if need be, and start it again."""
        self._life.close()
        self.llama = self._life.enter_context(running_llama(self._folder, urlsplit(self.llama.url).port or 0))

    def close(self) -> None:
        self._life.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Mortal, Mortal]]:
    """Two servers with the same model."""
    with ExitStack() as stack:
        first, second = (Mortal(tmp_path_factory.mktemp("llama")) for _ in range(2))
        for each in (first, second):
            stack.callback(each.close)
        yield first, second


@pytest.fixture(scope="module")
def router(pair: tuple[Mortal, Mortal]) -> Iterator[RunningRouter]:
    """A router in front of both that soon loses patience."""
    with running_router(None, [each.llama.url for each in pair], SETTINGS) as running:
        _wait_for_engines(running, _both_serve)
        yield running


def _both_serve(engines: dict[str, int]) -> bool:
    return engines["healthy"] == 2 and not engines["open"]


def _one_is_out(engines: dict[str, int]) -> bool:
    return engines["healthy"] == 1 or engines["open"] == 1


def _wait_for_engines(router: RunningRouter, condition: Callable[[dict[str, int]], bool]) -> None:
    with RawClient(router.port) as client:
        wait_until(lambda: condition(client.get("/readyz").json()["engines"]), router.log)


def _body(**fields: Any) -> bytes:
    return json.dumps({"model": MODEL, "messages": MESSAGES, **fields}).encode()


def _events(body: bytes) -> list[bytes]:
    return [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")]


def _text(answer: RawAnswer) -> str:
    """Return what a whole answer says."""
    if answer.header("Content-Type") != "text/event-stream":
        return str(answer.json()["choices"][0]["message"]["content"])
    *events, done = _events(answer.body)
    assert done == b"[DONE]"
    return "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events)


def _ask(router: RunningRouter, body: bytes, request_id: str = "asked") -> RawAnswer:
    with RawClient(router.port) as client:
        return client.post(CHAT, body, {"X-Request-Id": request_id})


class Askers:
    """Clients that ask all the time, whose every answer is byte for byte the model's text, or an error in its shape.

    An error is good only where `may_fail` was so at some time while the answer came.
    """

    def __init__(self, router: RunningRouter) -> None:
        self._router = router
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(ASKERS)
        self._running: list[Future[None]] = []
        self.whole = 0
        self.may_fail = True

    def _run(self, number: int) -> None:
        while not self._over.is_set():
            number += 1
            may_fail = self.may_fail
            answer = _ask(self._router, _body(stream=number % 2 == 0))
            is_whole = answer.status == 200 and b'"error"' not in answer.body
            if is_whole:
                assert _text(answer) == TEXT
                self.whole += 1
                continue
            assert may_fail or self.may_fail, answer
            if answer.status == 200:
                assert json.loads(_events(answer.body)[-1])["error"]["code"].startswith("upstream_")
            else:
                assert_error(answer, answer.status, answer.header("x-router-error-code") or "")

    def wait_for_whole(self, count: int) -> None:
        """Wait until so many more requests were answered in full."""
        wanted = self.whole + count
        wait_until(lambda: self.whole >= wanted or any(each.done() for each in self._running), self._router.log)

    def __enter__(self) -> Self:
        self._running = [self._pool.submit(self._run, number) for number in range(ASKERS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._pool.shutdown()
        for each in self._running:
            each.result()


class LongStream:
    """A stream that outlasts the test, read by a thread of its own until it ends or the client leaves."""

    def __init__(self, router: RunningRouter) -> None:
        body = _body(stream=True, ignore_eos=True, max_tokens=16000)
        self._client = RawClient(router.port)
        self._client.send(post_head(CHAT, {"Content-Length": str(len(body))}) + body)
        assert self._client.head()[0] == 200
        self.last = self._client.chunk()
        self.is_left = False
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with self._client:
            while not self.is_left and (piece := self._client.chunk()):
                self.last = piece

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def code(self) -> str:
        """Return the code of the error event at its end."""
        return str(json.loads(_events(self.last)[-1])["error"]["code"])


@pytest.mark.parametrize(
    ("number", "codes"),
    [
        pytest.param(signal.SIGKILL, {"upstream_incomplete"}, id="killed"),
        # Its streams fall silent until it ends half a minute later; or all end at once.
        pytest.param(signal.SIGTERM, {"upstream_incomplete", "upstream_timeout"}, id="stopped"),
        pytest.param(signal.SIGSTOP, {"upstream_timeout"}, id="frozen"),
    ],
)
def test_an_engine_that_dies_under_load_is_left_out_until_it_is_back(
    pair: tuple[Mortal, Mortal], router: RunningRouter, number: signal.Signals, codes: set[str]
) -> None:
    """Its streams end with an error, the other's go on, all later answers are whole, and it gets requests again."""
    mortal, _ = pair
    streams = [LongStream(router) for _ in range(LONG_STREAMS)]
    with Askers(router) as askers:
        mortal.signal(number)
        wait_until(lambda: sum(each.has_ended() for each in streams) == LONG_STREAMS // 2, router.log)
        assert {each.code() for each in streams if each.has_ended()} <= codes
        for each in streams:
            each.is_left = True
        _wait_for_engines(router, _one_is_out)
        askers.may_fail = False
        askers.wait_for_whole(5 * ASKERS)
        if number is signal.SIGSTOP:
            mortal.signal(signal.SIGCONT)
        else:
            mortal.come_back()
        _wait_for_engines(router, _both_serve)
        askers.wait_for_whole(ASKERS)
        for count in range(2 * ASKERS):
            assert _text(_ask(router, _body(), f"back-{number}-{count}")) == TEXT
    lines = router.access_lines_with(f"back-{number}-", 2 * ASKERS)
    assert any(mortal.llama.url in line for line in lines)
    assert "Traceback" not in router.log()


def test_requests_that_llama_answers_with_500_do_not_take_it_out(
    pair: tuple[Mortal, Mortal], router: RunningRouter
) -> None:
    """After a hundred images, each a 500 of llama.cpp's own, both engines are there and every chat was answered."""
    image = _body(messages=[{"role": "user", "content": [IMAGE]}])
    with Askers(router) as askers, ThreadPoolExecutor(ASKERS) as pool:
        askers.may_fail = False
        answers = list(pool.map(lambda _: _ask(router, image), range(100)))
        assert {(answer.status, answer.header("x-router-error-code")) for answer in answers} == {(500, None)}
        askers.wait_for_whole(ASKERS)
        assert _both_serve(json.loads(_ready(router).body)["engines"])
    assert "gets no more requests" not in router.log().rpartition("gets requests again")[2]


def _ready(router: RunningRouter) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.get("/readyz")
