"""All requests are served in the worker's loop, whatever their framing, and get the same responses."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Limits, Sampling
from router.mock_engine import MockEngine, MockResponse
from router.runtime.cpu_executor import OFFLOAD_BYTES
from tests.router.conftest import RouterOf
from tests.router.process import threads, worker_of
from tests.router.rawclient import RawAnswer, RawClient, chunked, post_head
from tests.router.serving import RunningRouter
from tests.router.wire.chat import CHAT, chat

CONTRACT = Contract(
    errors=Errors(bad_request_type="vendor_error"),
    limits=Limits(max_body_bytes=1_000_000),
    sampling=Sampling(params={"temperature": 1}),
)
CONTRACT_OF_LONG = Contract(sampling=CONTRACT.sampling)
EVENTS = [b'data: {"choices":[]}\n\n', b"data: [DONE]\n\n"]


@pytest.fixture
def router(router_of: RouterOf) -> Iterator[RunningRouter]:
    """A router with a contract."""
    return router_of(CONTRACT)


REQUESTS = {
    "answered": chat(),
    "long": chat(user="x" * 200_000),
    "refused by the contract": chat(temperature=0.5),
    "of an unknown model": chat(model="other"),
    "no JSON": b"{",
    "empty": b"",
    "too long": chat(user="x" * 1_000_000),
    "a stream": chat(stream=True),
}
ANSWERS = {
    "nothing special": [],
    "an engine's 400": [MockResponse(400, body=[b'{"error":{"message":"no","type":"x"}}'])],
    "an engine's 204": [MockResponse(204, framing="none")],
    "no length": [
        MockResponse(headers=[("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")], body=[b"{}"])
    ],
    "headers of all kinds": [MockResponse(headers=[("X-A", "1"), ("X-A", "2"), ("Connection", "X-B"), ("X-B", "3")])],
    "a large one": [MockResponse(body=[b"x" * 300_000])],
}


def _told(answer: RawAnswer) -> RawAnswer:
    own = {"date", "x-request-id"}
    return answer._replace(headers=[(name, value) for name, value in answer.headers if name.lower() not in own])


def _both(router: RunningRouter, body: bytes, engine: MockEngine, answers: list[MockResponse]) -> list[RawAnswer]:
    """Return what the same request is answered with, with a length and in chunks."""
    both = []
    for head, sent in (({"Content-Length": str(len(body))}, body), ({"Transfer-Encoding": "chunked"}, chunked(body))):
        engine.answer_next(*answers)
        with RawClient(router.port) as client:
            both.append(_told(client.send(post_head(CHAT, head) + (sent if body else sent[-5:])).answer()))
    return both


@pytest.mark.parametrize("body", REQUESTS.values(), ids=REQUESTS)
def test_requests_are_answered_alike(router: RunningRouter, engine: MockEngine, body: bytes) -> None:
    """Status, headers in their order and body are the same, whatever is sent."""
    answers = [MockResponse.sse(*EVENTS)] if b'"stream"' in body else []
    counted, in_chunks = _both(router, body, engine, answers)
    assert counted == in_chunks


@pytest.mark.parametrize("answers", ANSWERS.values(), ids=ANSWERS)
def test_answers_are_passed_on_alike(router: RunningRouter, engine: MockEngine, answers: list[MockResponse]) -> None:
    """Status, headers in their order and body are the same, whatever the engine answers."""
    counted, in_chunks = _both(router, chat(), engine, answers)
    assert counted == in_chunks


def test_streams_take_no_thread_each(router: RunningRouter, engine: MockEngine) -> None:
    """Many streams at once are served by the threads that were there before."""
    gate = threading.Event()
    with RawClient(router.port) as client:
        client.post(CHAT, chat())
    before = threads(worker_of(router))
    engine.answer_next(*[MockResponse.sse(EVENTS[0], gate, EVENTS[1]) for _ in range(30)])
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(router.port)) for _ in range(30)]
        for client in clients:
            client.send(post_head(CHAT, {"Content-Length": str(len(chat(stream=True)))}) + chat(stream=True))
        heads = [client.head() for client in clients]
        assert {status for status, _ in heads} == {200}
        assert threads(worker_of(router)) <= before
        gate.set()
        assert {client.body_behind(headers) for client, (_, headers) in zip(clients, heads, strict=True)} == {
            b"".join(EVENTS)
        }


def test_long_requests_take_no_thread_each(router_of: RouterOf, engine: MockEngine) -> None:
    """However many come at once, they are judged one after the other beside the loop, and reach an engine."""
    router = router_of(CONTRACT_OF_LONG)
    body = chat(user="x" * OFFLOAD_BYTES)
    head = post_head(CHAT, {"Content-Length": str(len(body))})
    with RawClient(router.port) as client:
        client.post(CHAT, chat())
    before = threads(worker_of(router))
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(router.port)) for _ in range(12)]
        for client in clients:
            client.send(head + body[:-1])
        for client in clients:
            client.send(body[-1:])
        assert {client.answer().status for client in clients} == {200}
    assert threads(worker_of(router)) < before + 12
    assert json.loads(engine.received[-1].body)["temperature"] == 1


def test_pipelined_requests_are_answered_in_their_order(router: RunningRouter, engine: MockEngine) -> None:
    """Hundreds of requests in one piece get their answers one after the other, those that are refused too."""
    one = post_head(CHAT, {"Content-Length": "1"}) + b"{"
    other = post_head(CHAT, {"Content-Length": str(len(chat()))}) + chat()
    with RawClient(router.port) as client:
        client.send((one * 9 + other) * 40)
        assert [client.answer().status for _ in range(400)] == [*[400] * 9, 200] * 40


def test_behind_a_body_in_many_chunks_comes_the_next_request(router: RunningRouter, engine: MockEngine) -> None:
    """However many chunks the one has: the other is answered behind it, and both arrive whole."""
    body = chat(x="y" * (1010))
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    one = post_head(CHAT, {"Transfer-Encoding": "chunked"}) + chunks + b"0\r\n\r\n"
    other = post_head(CHAT, {"Content-Length": str(len(chat()))}) + chat()
    with RawClient(router.port) as client:
        client.send((one + other) * 3)
        assert [client.answer().status for _ in range(6)] == [200] * 6
    # The contract adds a value at the end.
    got = [each.body for each in engine.wait_for(6)]
    assert all(each.startswith(sent[:-1]) for each, sent in zip(got, [body, chat()] * 3, strict=True))
