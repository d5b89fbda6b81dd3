"""Engines that send unsolicited bytes: at most one request fails, and no connection is reused."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.router.rawclient import RawAnswer, RawClient
from tests.router.rawengine import RawEngine, ok, read_request
from tests.router.serving import RunningRouter, running_router
from tests.router.wire.chat import CHAT, assert_error, chat

UNSOLICITED = r"engine http://127\.0\.0\.1:\d+ sent unsolicited bytes {}"
AFTERWARDS = 5
LONG = 3_000_000


class _Received:
    """A request on its connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        head, body = read_request(connection) or (b"", b"{}")
        self.is_here = bool(head)
        self.mark = json.loads(body).get("mark")
        self.request_id = head.lower().partition(b"x-request-id: ")[2].partition(b"\r\n")[0].decode()

    def answer(self, answer_id: str = "", *, stream: bool = False) -> bytes:
        """Return the answer to it, with an id as vLLM makes it unless another one is given."""
        body = json.dumps({"id": f"chatcmpl-{answer_id or self.request_id}", "mark": self.mark}).encode()
        if not stream:
            return ok(body)
        events = b"data: %s\n\ndata: [DONE]\n\n" % body
        return ok(events).replace(b"application/json", b"text/event-stream")


@contextmanager
def _router(misbehave: Callable[[_Received], bool], **settings: str) -> Iterator[tuple[RunningRouter, list[int]]]:
    """Run a router before an engine that misbehaves where it says so; return how many requests each connection had."""
    connections: list[int] = []

    def serve(connection: socket.socket) -> None:
        place = -1
        while (received := _Received(connection)).is_here:
            if place < 0:
                place = len(connections)
                connections.append(0)
            connections[place] += 1
            if not misbehave(received):
                connection.sendall(received.answer())

    own = {
        "ROUTER_METRICS": "on",
        "ROUTER_METRICS_BY_ENGINE": "on",
        "ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "3600",
        **settings,
    }
    with RawEngine(serve) as engine, running_router(None, [engine.url], own) as router:
        yield router, connections


def _ask(router: RunningRouter, mark: int, headers: dict[str, str] | None = None, **fields: Any) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.post(CHAT, chat(mark=mark, **fields), headers)


def _assert_right_afterwards(router: RunningRouter, connections: list[int], how: str) -> None:
    """Check the log and the metric, and that each further request gets its own answer over its own connection."""
    before = len(connections)
    for mark in range(100, 100 + AFTERWARDS):
        assert _ask(router, mark).json()["mark"] == mark
    assert connections[before + 1 :] == [1] * (AFTERWARDS - 1)
    router.wait_for_line(UNSOLICITED.format(how))
    with RawClient(router.port) as client:
        metrics = client.get("/metrics").body.decode()
    assert "router_unsolicited_total 1.0" in metrics
    assert re.search(r'router_engine_unsolicited_total\{engine="http://127[^"]+"\} 1\.0', metrics)
    assert "Traceback" not in router.log()


@pytest.mark.parametrize("more", ["a second answer", "a byte"])
def test_what_comes_behind_an_answer_stays_there(more: str) -> None:
    """Bytes after a response close the connection, are logged and counted, and no connection is reused for a while."""

    def misbehave(received: _Received) -> bool:
        if received.mark == 1:
            answer = received.answer()
            received.connection.sendall(answer + (answer if more == "a second answer" else b"x"))
        return bool(received.mark == 1)

    with _router(misbehave) as (router, connections):
        assert _ask(router, 1).json()["mark"] == 1
        _assert_right_afterwards(router, connections, "(after a response|over an idle connection)")


def test_what_comes_over_an_idle_connection_stays_there() -> None:
    """A second answer that comes before the next request is that of nobody."""
    idle: list[socket.socket] = []

    def misbehave(received: _Received) -> bool:
        idle.append(received.connection)
        return False

    with _router(misbehave) as (router, connections):
        assert _ask(router, 1).json()["mark"] == 1
        idle[0].sendall(ok())
        _assert_right_afterwards(router, connections, "over an idle connection")


def test_a_408_over_an_idle_connection_is_its_end() -> None:
    """Servers may say so before they close (RFC 9110, section 15.5.9): connections are reused as before."""
    idle: list[socket.socket] = []

    def misbehave(received: _Received) -> bool:
        idle.append(received.connection)
        return False

    with _router(misbehave) as (router, connections):
        _ask(router, 1)
        idle[0].sendall(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        assert [_ask(router, mark).json()["mark"] for mark in (2, 3)] == [2, 3]
        assert connections == [1, 2]
        assert "no request asked for" not in router.log()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_answer_to_another_request_is_told_by_its_id(stream: bool) -> None:
    """Where the engine derives ids from the router's, an answer with that of another request is a 502."""
    first: list[_Received] = []

    def misbehave(received: _Received) -> bool:
        if received.mark == 2:
            received.connection.sendall(first[0].answer(stream=stream))
            return True
        first.append(received)
        return False

    with _router(misbehave) as (router, connections):
        assert _ask(router, 1).json()["mark"] == 1
        assert_error(_ask(router, 2, stream=stream), 502, "upstream_incomplete")
        assert connections == [2]
        _assert_right_afterwards(router, connections, "with the id of another request")


def test_ids_that_a_client_chose_hurt_nobody_else() -> None:
    """An engine that gives the same id to all, or ids of its own, is believed whatever ids clients choose."""

    def misbehave(received: _Received) -> bool:
        received.connection.sendall(received.answer("constant"))
        return True

    with _router(misbehave) as (router, connections):
        assert _ask(router, 1, {"X-Request-Id": "constant"}).json()["mark"] == 1
        assert [_ask(router, mark).json()["mark"] for mark in (2, 3)] == [2, 3]
        assert connections == [3]


def test_one_answer_too_many_harms_one_request() -> None:
    """Where no id tells, a second answer that comes behind the next request is taken for its answer; no other is."""
    first: list[_Received] = []

    def misbehave(received: _Received) -> bool:
        first.append(received)
        answer = received.answer(f"own-{received.mark}")
        received.connection.sendall(first[0].answer("own") + answer if received.mark == 2 else answer)
        return True

    with _router(misbehave) as (router, connections):
        assert [_ask(router, mark).json()["mark"] for mark in (1, 2)] == [1, 1]
        _assert_right_afterwards(router, connections, "(after a response|over an idle connection)")


@pytest.mark.parametrize("length", [100_000, LONG], ids=["within the system's buffers", "beyond them"])
@pytest.mark.parametrize("status", [200, 413])
def test_an_answer_that_comes_before_the_request_is_not_its_own(length: int, status: int) -> None:
    """A 2xx over a reused connection before the engine's system had all of the request is a 502; an error is early."""
    gone = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        received = _Received(connection)
        connection.sendall(received.answer())
        connection.recv(1, socket.MSG_PEEK)
        connection.sendall(ok(b'{"mark":1}').replace(b"200 OK", b"%d Scripted" % status))
        gone.wait(20)

    with (
        RawEngine(serve) as engine,
        running_router(None, [engine.url], {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "3600"}) as router,
    ):
        assert _ask(router, 1).json()["mark"] == 1
        answer = _ask(router, 2, padding="x" * length)
        if status == 200:
            assert_error(answer, 502, "upstream_incomplete")
            router.wait_for_line(UNSOLICITED.format("before it received the request"))
        else:
            assert answer.status == status
        gone.set()
