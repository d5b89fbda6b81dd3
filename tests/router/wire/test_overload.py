"""The bound of requests in flight: what is beyond it is refused at once, what was within it gives its place back."""

import itertools
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Limits, Sampling
from router.middleware import MAX_SLOW_DRAINS
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse, RawResponse
from tests.router.process import children_of
from tests.router.rawclient import RawAnswer, RawClient, chunked, post_head
from tests.router.serving import RunningRouter, artifact_file, running_router, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat

BOUND = 2
SPARE = 8
ROUNDS = 50
EVENT = b'data: {"id":"1","model":"served","choices":[]}\n\n'
TWENTY_MB = 20 * 1024 * 1024
CONTRACT = Contract(sampling=Sampling(params={"top_p": 0.95}), limits=Limits(max_body_bytes=4096))


@pytest.fixture(scope="module")
def router(engine: MockEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """A router of one worker that takes two requests at a time, and has threads beyond them."""
    artifact = artifact_file(tmp_path_factory.mktemp("artifact"), CONTRACT)
    # The breaker and the retries have tests of their own; here an engine that fails is asked again and again.
    settings = {"ROUTER_MAX_IN_FLIGHT": str(BOUND), "ROUTER_RETRIES": "0", "ROUTER_BREAKER_FAILURES": "10000"}
    arguments = ("-c", "python:router.gunicorn_conf", "--workers", "1", "--threads", str(BOUND + SPARE))
    with running_router(artifact, [engine.url], settings, arguments) as running:
        yield running


def _request(body: bytes = chat(), path: str = CHAT) -> bytes:
    return post_head(path, {"Content-Length": str(len(body))}) + body


@contextmanager
def _full(router: RunningRouter, engine: MockEngine) -> Iterator[None]:
    """Hold as many requests as there may be, let them be answered at the end, and see that all are."""
    wait_until(lambda: _count_places(router, engine) == BOUND)
    engine.clear()
    gate = Event()
    engine.answer_next(*[MockResponse(body=b"{}", hold=gate)] * BOUND)
    with ExitStack() as stack:
        held = [stack.enter_context(RawClient(router.port)).send(_request()) for _ in range(BOUND)]
        try:
            engine.wait_for(BOUND)
            yield
        finally:
            gate.set()
        assert [client.answer().status for client in held] == [200] * BOUND


def _count_places(router: RunningRouter, engine: MockEngine, bound: int = BOUND) -> int:
    """Hold requests until one is refused, at most one more than there may be, and return how many were not."""
    gate = Event()
    engine.clear()
    engine.answer_next(*[MockResponse(body=b"{}", hold=gate)] * (bound + 1))
    held: list[RawClient] = []
    with ExitStack() as stack:
        for _ in range(bound + 1):
            client = stack.enter_context(RawClient(router.port)).send(_request())
            wait_until(lambda asked=client: len(engine.received) > len(held) or _has_answer(asked))  # type: ignore[misc]
            if _has_answer(client):
                break
            held.append(client)
        gate.set()
        # On one connection the next request is read when the place of the one before is free again.
        assert [(client.answer().status, client.get("/healthz").status) for client in held] == [(200, 200)] * len(held)
    engine.restore_behaviour()
    return len(held)


def _has_answer(client: RawClient) -> bool:
    return bool(select.select([client.socket], [], [], 0)[0])


def _ask(router: RunningRouter, body: bytes = chat(), path: str = CHAT) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.post(path, body)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings", "/generate"])
def test_what_is_beyond_the_bound_is_refused_at_once(router: RunningRouter, engine: MockEngine, path: str) -> None:
    """One request more than may be in flight is a 503 that says when to come again, while the others still run."""
    with _full(router, engine):
        answer = _ask(router, path=path)
        assert_error(answer, 503, "overloaded")
        assert answer.header("Retry-After") == "1"
        assert len(engine.received) == BOUND
    wait_until(lambda: _ask(router).status == 200)


def test_a_refusal_is_a_line_of_the_access_log(router: RunningRouter, engine: MockEngine) -> None:
    """The log tells of a refused request as of any other, with its route and code."""
    with _full(router, engine), RawClient(router.port) as client:
        client.post(CHAT, chat(), {"X-Request-Id": "too-many"})
    (line,) = router.access_lines_with('"too-many"')
    assert '"status":503,"code":"overloaded","bytes_in":0,' in line


def test_a_full_worker_answers_what_needs_no_engine(router: RunningRouter, engine: MockEngine) -> None:
    """Health checks, the model list and what does not exist are answered while nothing more is taken in."""
    with _full(router, engine), RawClient(router.port) as client:
        assert [client.get(path).status for path in ("/healthz", "/readyz", "/v1/models", "/nowhere", CHAT)] == [
            200,
            200,
            200,
            404,
            405,
        ]
        assert client.post("/nowhere", chat()).status == 404
        assert client.post("//v1/chat/completions", chat()).status == 404


def test_a_connection_outlives_its_refusal(router: RunningRouter, engine: MockEngine) -> None:
    """A client that was refused and sent all of its body is served on the same connection later."""
    with RawClient(router.port) as client:
        with _full(router, engine):
            assert [client.post(CHAT, chat()).status for _ in range(3)] == [503] * 3
        wait_until(lambda: client.post(CHAT, chat()).status == 200)


@pytest.mark.parametrize("framing", ["counted", "chunked"])
def test_a_refused_upload_of_20_mb_reads_its_answer(router: RunningRouter, engine: MockEngine, framing: str) -> None:
    """A client that sends everything before it reads gets the 503, not a reset."""
    with _full(router, engine), RawClient(router.port) as client:
        if framing == "counted":
            client.send(_request(bytes(TWENTY_MB)))
        else:
            client.send(post_head(CHAT, {"Transfer-Encoding": "chunked"}) + chunked(bytes(TWENTY_MB)))
        assert_error(client.answer(), 503, "overloaded")


def test_refused_uploads_that_stall_hold_up_no_health_check(router: RunningRouter, engine: MockEngine) -> None:
    """Many more stalled uploads than there are threads each get their 503 and are let go; probes are answered."""
    with _full(router, engine), ExitStack() as stack:
        stalled = [stack.enter_context(RawClient(router.port)) for _ in range(8 * SPARE)]
        for client in stalled:
            client.send(post_head(CHAT, {"Content-Length": str(TWENTY_MB)}) + b"{")
        assert _get(router, "/healthz") == 200
        assert [client.answer().status for client in stalled] == [503] * len(stalled)
        assert all(client.at_end() for client in stalled)
        assert _get(router, "/readyz") == 200


def test_refused_uploads_that_stall_cost_nobody_their_answer(router: RunningRouter, engine: MockEngine) -> None:
    """While others stall, a client that sent all of its body reads its 503 and keeps its connection."""
    with _full(router, engine), ExitStack() as stack:
        for _ in range(MAX_SLOW_DRAINS):
            stalled = stack.enter_context(RawClient(router.port))
            stalled.send(post_head(CHAT, {"Content-Length": str(TWENTY_MB)}) + b"{")
            assert stalled.answer().status == 503
        with RawClient(router.port) as client:
            assert [client.post(CHAT, bytes(4000)).status for _ in range(3)] == [503] * 3


def _get(router: RunningRouter, path: str) -> int:
    with RawClient(router.port) as client:
        return client.get(path).status


def _leave_a_stream(router: RunningRouter, engine: MockEngine) -> int:
    engine.answer_next(MockResponse.sse(*itertools.repeat(EVENT * 100, 10_000)))
    with RawClient(router.port) as client:
        status, _ = client.send(_request(chat(stream=True))).head()
        if status == 200:
            client.chunk()
    return status


def _leave_an_upload(router: RunningRouter, engine: MockEngine) -> int:
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"Content-Length": "1000"}) + b"{")
        client.socket.shutdown(socket.SHUT_WR)
        return client.answer().status


def _lose_the_engine(router: RunningRouter, engine: MockEngine) -> int:
    engine.answer_next(RawResponse(then="reset"))
    return _ask(router).status


def _cut_a_stream(router: RunningRouter, engine: MockEngine) -> int:
    engine.answer_next(
        MockResponse(headers=EVENT_STREAM, body=[EVENT], framing="chunked", last_chunk=False, then="close")
    )
    return _ask(router, chat(stream=True)).status


def _abort_an_answer(router: RunningRouter, engine: MockEngine) -> int:
    huge = bytes(9 * 1024 * 1024)
    engine.answer_next(MockResponse(body=huge, cut_after=len(huge) - 1))
    with RawClient(router.port) as client:
        status, _ = client.send(_request()).head()
    return status


def test_the_limit_is_that_of_all_workers_and_outlives_a_killed_one(
    engine: MockEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two workers together take as many requests as the setting says, also after one was killed at the limit."""
    artifact = artifact_file(tmp_path_factory.mktemp("artifact"), CONTRACT)
    settings = {"ROUTER_MAX_IN_FLIGHT": str(2 * BOUND), "ROUTER_RETRIES": "0", "ROUTER_BREAKER_FAILURES": "10000"}
    arguments = ("-c", "python:router.gunicorn_conf", "--workers", "2")
    with running_router(artifact, [engine.url], settings, arguments) as router:
        assert _count_places(router, engine, 2 * BOUND) == 2 * BOUND
        gate = Event()
        engine.clear()
        engine.answer_next(*[MockResponse(body=b"{}", hold=gate)] * (2 * BOUND))
        with ExitStack() as stack:
            for _ in range(2 * BOUND):
                stack.enter_context(RawClient(router.port)).send(_request())
            engine.wait_for(2 * BOUND)
            os.kill(children_of(router.process.pid)[0], signal.SIGKILL)
            gate.set()
        engine.restore_behaviour()
        wait_until(lambda: _count_places(router, engine, 2 * BOUND) == 2 * BOUND)


OVER: dict[str, tuple[Callable[[RunningRouter, MockEngine], int], int]] = {
    "answered": (lambda router, _: _ask(router).status, 200),
    "streamed": (lambda router, _: _ask(router, chat(stream=True)).status, 200),
    "refused by a rule": (lambda router, _: _ask(router, chat(top_p=0.8)).status, 400),
    "no such model": (lambda router, _: _ask(router, chat(model="none")).status, 404),
    "too large": (lambda router, _: _ask(router, bytes(5000)).status, 413),
    "passed through": (lambda router, _: _ask(router, path="/v1/embeddings").status, 200),
    "stream left by its client": (_leave_a_stream, 200),
    "upload left by its client": (_leave_an_upload, 400),
    "engine lost": (_lose_the_engine, 502),
    "stream cut by its engine": (_cut_a_stream, 200),
    "answer aborted": (_abort_an_answer, 200),
}


@pytest.mark.parametrize("way", OVER)
def test_a_place_is_given_back_exactly_once(router: RunningRouter, engine: MockEngine, way: str) -> None:
    """However a request ends, as often as it does: after it as many may be in flight as before, and no more."""
    end, status = OVER[way]
    for _ in range(ROUNDS):
        seen = end(router, engine)
        while seen == 503:
            # The place of one whose client left is free as soon as the router has noticed.
            engine.restore_behaviour()
            seen = end(router, engine)
        assert seen == status
    engine.restore_behaviour()
    wait_until(lambda: _count_places(router, engine) == BOUND)
