"""What a request held is freed when it is over: nothing of it waits for Python to search for cycles."""

import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from router.contract.schema.model import Contract
from router.mock_engine import MockEngine
from router.mock_engine.response import JSON, MockResponse
from router.request.routes import CHAT
from tests.router.process import resident_bytes, worker_of
from tests.router.rawclient import RawClient, chunked, post_head
from tests.router.rawengine import RawEngine, ok, read_request
from tests.router.serving import RunningRouter, artifact_file, launch, running_router
from tests.router.wire.chat import chat

CONTRACT = msgspec.convert(
    {
        "limits": {"max_body_bytes": 8 * 1024 * 1024, "max_images": 1},
        "models": {"aliases": {"alias": {}}},
        "output": {"max_tokens": {"cap": 100, "default": None, "on_exceed": "reject"}},
        "sampling": {"conflict": "reject", "params": {"top_p": 0.9}},
        "fields": {"stop": {"max_items": 2}},
        "checks": {"roles": {"check": "roles", "allowed": ["user"]}},
    },
    Contract,
)
EVENT = b'data: {"n":1}\n\n'
MORE_BYTES = 48 * 1024 * 1024
"""What twenty rejections may add to the memory of a process, for what allocators keep: one held takes 36 MB."""
OF_THE_ROUTING = {"builtins.cell", "builtins.function", "builtins.set", "builtins.tuple"}
"""A function of Werkzeug's that calls itself: it is made for each request to a route that Flask answers."""


def _json(**fields: Any) -> bytes:
    return json.dumps({"model": "served", "messages": [], **fields}).encode()


LONG: list[Any] = [{"role": "user", "content": "x"}] * 20_000
REJECTED = {
    "JSON": b'{"a":',
    "no object": b"[]",
    "too deep": b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}",
    "too many members": b"{" + b",".join(b'"%d":1' % place for place in range(2001)) + b"}",
    "no model": b"{}",
    "another model": chat(model="other"),
    "twice": b'{"model": "served", "model": "served"}',
    "cap": chat(max_tokens=101),
    "cap of a long body": _json(messages=LONG, max_tokens=101),
    "not a budget": chat(max_tokens=0),
    "images": _json(messages=[{"role": "user", "content": [{"type": "image_url"}] * 2}]),
    "a pin": chat(top_p=0.8),
    "a field": chat(stop=["a" * 300] * 3),
    "a check": _json(messages=[{"role": "system", "content": "x"}]),
    "size": b" " * (8 * 1024 * 1024 + 1),
}
FORWARDED = {
    "as it is": chat(),
    "edited": chat(model="alias"),
    "streamed": chat(stream=True),
    "long": _json(messages=LONG),
}


ANSWERS: dict[str, Callable[[], MockResponse]] = {
    "a 400": lambda: MockResponse(status=400, headers=JSON, body=[b'{"error":{"message":"x"}}']),
    "a 500": lambda: MockResponse(status=500, headers=JSON, body=[b"{}"]),
    "a redirect": lambda: MockResponse(status=302, headers=JSON, body=[b"{}"]),
    "a cut stream": lambda: MockResponse(
        headers=[("Content-Type", "text/event-stream")], framing="close", body=[EVENT]
    ),
    "a cut body": lambda: MockResponse(headers=JSON, body=b"{}", cut_after=1),
    "a long cut body": lambda: MockResponse(headers=JSON, body=b" " * 9_000_000, cut_after=8_900_000),
    "garbage for gzip": lambda: MockResponse(headers=[*JSON, ("Content-Encoding", "gzip")], body=[b"{}"]),
    "nothing": lambda: MockResponse(hold=Event()),
}
LEFT: dict[str, Callable[[], MockResponse]] = {
    "before the answer": lambda: MockResponse(hold=Event()),
    "within the answer": lambda: MockResponse.sse(EVENT, Event()),
}
MALFORMED = {
    "a request line": b"NONSENSE\r\n\r\n",
    "a header": b"POST /x HTTP/1.1\r\nHost : a\r\n\r\n",
    "a chunk": post_head(CHAT, {"Transfer-Encoding": "chunked"}) + b"zz\r\n",
    "no Host": b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    "a coding": post_head(CHAT, {"Content-Length": "2", "Content-Encoding": "gzip"}) + b"{}",
}


@contextmanager
def _showing(folder: Path, engine: str, **settings: str) -> Iterator[RunningRouter]:
    environment = {
        "ROUTER_PROFILE": str(artifact_file(folder, CONTRACT)),
        "ROUTER_ENGINES": engine,
        "ROUTER_BREAKER_FAILURES": "10000",
        "ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "3600",
        **settings,
    }
    with RunningRouter(launch(environment, app="tests.router.wire.showing_cycles:application")) as router:
        router.wait_until_ready()
        for is_plain in (True, False):
            _post(router, chat(), is_plain=is_plain)
        _left_in_cycles(router)
        yield router


@pytest.fixture(scope="module")
def router(engine: MockEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """A router with one worker that shows what is left in cycles, and with little patience."""
    folder = tmp_path_factory.mktemp("artifact")
    with _showing(folder, engine.url, ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS="0.2") as router:
        yield router


def _left_in_cycles(router: RunningRouter) -> dict[str, int]:
    with RawClient(router.port) as client:
        left: dict[str, int] = client.get("/cycles").json()
        return left


def _send(client: RawClient, body: bytes, *, is_plain: bool) -> None:
    framing = {"Content-Length": str(len(body))} if is_plain else {"Transfer-Encoding": "chunked"}
    client.send(post_head(CHAT, framing) + (body if is_plain else chunked(body)))


def _post(router: RunningRouter, body: bytes, *, is_plain: bool) -> int:
    """Send a request, which is served in a turn where it is plain and else in a thread, and return the status."""
    with RawClient(router.port) as client:
        _send(client, body, is_plain=is_plain)
        # A body that breaks off does so behind the status.
        with suppress(EOFError, ConnectionResetError):
            return client.answer().status
        return 0


in_turns_and_threads = pytest.mark.parametrize("is_plain", [True, False], ids=["turn", "thread"])


@in_turns_and_threads
@pytest.mark.parametrize("case", REJECTED)
def test_a_rejected_request_leaves_no_cycle(router: RunningRouter, case: str, is_plain: bool) -> None:
    """Whatever a request is rejected for, its body and what was parsed of it go with it."""
    assert 400 <= _post(router, REJECTED[case], is_plain=is_plain) < 500
    assert _left_in_cycles(router) == {}


@in_turns_and_threads
@pytest.mark.parametrize("case", FORWARDED)
def test_a_forwarded_request_leaves_no_cycle(router: RunningRouter, case: str, is_plain: bool) -> None:
    """A request that is answered goes, and so does its answer."""
    assert _post(router, FORWARDED[case], is_plain=is_plain) == 200
    assert _left_in_cycles(router) == {}


@in_turns_and_threads
@pytest.mark.parametrize("case", ANSWERS)
def test_a_bad_answer_leaves_no_cycle(router: RunningRouter, engine: MockEngine, case: str, is_plain: bool) -> None:
    """So it is when the engine rejects the request, and when its answer is cut, unreadable or does not come."""
    engine.answer_next(ANSWERS[case]())
    _post(router, chat(model="alias"), is_plain=is_plain)
    assert _left_in_cycles(router) == {}


@in_turns_and_threads
@pytest.mark.parametrize("case", LEFT)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a client that left in silence")
def test_a_client_that_leaves_leaves_no_cycle(
    router: RunningRouter, engine: MockEngine, case: str, is_plain: bool
) -> None:
    """So it is when the client leaves before its answer, or within it."""
    engine.answer_next(LEFT[case]())
    seen = len(router.access_lines_with("client_gone", 0))
    with RawClient(router.port) as client:
        _send(client, chat(stream=True), is_plain=is_plain)
        engine.wait_for(1)
        if case == "within the answer":
            client.head()
            client.chunk()
    router.access_lines_with("client_gone", seen + 1)
    assert _left_in_cycles(router) == {}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_request_leaves_no_cycle(router: RunningRouter, case: str) -> None:
    """So it is with what never becomes a request, and with what is rejected before its body is read."""
    with RawClient(router.port) as client:
        assert 400 <= client.send(MALFORMED[case]).answer().status < 500
    assert _left_in_cycles(router) == {}


@pytest.mark.parametrize("target", ["/v1/models", "/v1/models/other", "/nothing", "//nothing", CHAT, "/readyz"])
def test_other_routes_leave_no_cycle_with_a_request(router: RunningRouter, target: str) -> None:
    """Of a request that Flask answers or rejects nothing is left but a function of Werkzeug's own."""
    with RawClient(router.port) as client:
        client.post(target, chat()) if target == "/nothing" else client.get(target)
    assert set(_left_in_cycles(router)) <= OF_THE_ROUTING


def test_an_engine_that_ends_connections_leaves_no_cycle(tmp_path: Path) -> None:
    """A request that an engine drops, kept connection or new, goes with the errors that it met."""

    def serve(connection: socket.socket) -> None:
        with suppress(AssertionError):
            assert read_request(connection)
            connection.sendall(ok())
            assert read_request(connection)

    with RawEngine(serve) as engine, _showing(tmp_path, engine.url) as router:
        statuses = [_post(router, chat(), is_plain=is_plain) for is_plain in (True, False) * 4]
        assert {200, 502} <= set(statuses)
        assert _left_in_cycles(router) == {}
    assert "Traceback" not in router.log()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of a process's memory")
def test_rejections_do_not_fill_memory(engine: MockEngine, tmp_path: Path) -> None:
    """A client that is rejected again and again takes no more memory than one that is rejected once."""
    body = _json(messages=LONG * 6, max_tokens=101)
    with running_router(artifact_file(tmp_path, CONTRACT), [engine.url]) as router, RawClient(router.port) as client:
        worker = worker_of(router)
        for _ in range(3):
            assert client.post(CHAT, body).status == 400
        before = resident_bytes(worker, peak=True)
        for _ in range(20):
            assert client.post(CHAT, body).status == 400
        assert resident_bytes(worker, peak=True) - before < MORE_BYTES
