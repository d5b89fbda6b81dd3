"""Connections to engines: what goes out, and every failure as its error."""

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from router.contract.errors import ApiError
from router.mock_engine import MockEngine, MockResponse, RawResponse
from router.mock_engine.response import ScriptedResponse
from router.settings.declarations import Settings
from router.upstream.client import HttpClient
from router.upstream.connection import UpstreamConnection
from router.upstream.errors import connect_error
from tests.router.serving import free_port

MOST = 1_000_000
PATH = "/v1/chat/completions"


def _http_client(url: str, **settings: float) -> HttpClient:
    return HttpClient(replace(Settings(engines=(url,)), **settings))


def _failure(http_client: HttpClient, url: str, body: bytes = b"{}") -> ApiError:
    with pytest.raises(ApiError) as raised:
        http_client.post(url + PATH, {}, body).read(MOST)
    return raised.value


def test_what_is_sent_is_what_was_given(engine: MockEngine) -> None:
    """Headers and body go out as they are, with a length, and nothing that would ask for compression."""
    answer = _http_client(engine.url).post(engine.url + PATH, {"X-One": "1", "User-Agent": "u"}, b"\x00{}")
    assert answer.status == 400
    answer.close()
    (received,) = engine.received
    assert received.body == b"\x00{}"
    assert sorted(received.headers) == [
        ("Accept-Encoding", "identity"),
        ("Content-Length", "3"),
        ("Host", f"127.0.0.1:{engine.port}"),
        ("User-Agent", "u"),
        ("X-One", "1"),
    ]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (RawResponse(then="reset"), "upstream_unreachable"),
        (RawResponse(), "upstream_unreachable"),
        (RawResponse(b"garbage\r\n\r\n"), "upstream_incomplete"),
        (MockResponse(body=b"12345", cut_after=2), "upstream_incomplete"),
        (MockResponse(body=[b"12345"], framing="chunked", cut_after=5), "upstream_incomplete"),
    ],
)
def test_a_failure_behind_the_connection_may_have_run(engine: MockEngine, reply: ScriptedResponse, code: str) -> None:
    """Whatever fails once a connection stands may have set the engine to work."""
    engine.answer_next(reply)
    error = _failure(_http_client(engine.url), engine.url)
    assert (error.code, error.may_have_run) == (code, True)


def test_a_refused_connection_cannot_have_run() -> None:
    """Where nothing listens nothing can have run."""
    url = f"http://127.0.0.1:{free_port()}"
    error = _failure(_http_client(url), url)
    assert (error.code, error.may_have_run) == ("upstream_unreachable", False)


def test_a_name_that_does_not_resolve_cannot_have_run() -> None:
    """A host that does not exist is as unreachable as one that refuses."""
    url = "http://engine.invalid:1"
    error = _failure(_http_client(url), url)
    assert (error.code, error.may_have_run) == ("upstream_unreachable", False)


@pytest.fixture
def deaf() -> Iterator[str]:
    """The URL of an engine whose kernel takes connections, and which reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("length", [2, 50_000_000], ids=["before its answer", "while it should read"])
def test_a_silent_engine_is_given_up_after_the_time_to_read(deaf: str, length: int) -> None:
    """An engine has the time to read to take a body and to answer it, not just the time to connect."""
    http_client = _http_client(
        deaf,
        upstream_connect_timeout_seconds=0.05,
        upstream_response_timeout_seconds=0.4,
        upstream_idle_timeout_seconds=0.4,
    )
    begun = time.monotonic()
    error = _failure(http_client, deaf, bytes(length))
    assert (error.code, error.may_have_run) == ("upstream_timeout", True)
    assert time.monotonic() - begun >= 0.4


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12: the mock engine has threads
def test_connections_are_not_shared_over_a_fork(engine: MockEngine) -> None:
    """A child process that inherits connections opens its own."""
    http_client = _http_client(engine.url)
    http_client.post(engine.url + PATH, {}, b"{}").read(MOST)
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        try:
            http_client.post(engine.url + PATH, {}, b"{}").read(MOST)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    http_client.post(engine.url + PATH, {}, b"{}").read(MOST)
    http_client.close()
    first, second, third = (received.connection for received in engine.received)
    assert first == third != second


def test_many_threads_get_their_own_answers(engine: MockEngine) -> None:
    """Threads that share connections each read the answer to their own request."""
    engine.script(lambda received: MockResponse(body=received.body))
    http_client = _http_client(engine.url)
    mixed_up = []

    def ask(number: int) -> None:
        for turn in range(20):
            body = f"{number}.{turn}".encode()
            if http_client.post(engine.url + PATH, {}, body).read(MOST) != body:
                mixed_up.append(body)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mixed_up == []


def test_a_page_is_asked_for_over_a_connection_of_its_own(engine: MockEngine) -> None:
    """What a probe asks takes no kept connection, asks for its end, and leaves none to be kept."""
    http_client = _http_client(engine.url)
    for _ in range(2):
        http_client.post(engine.url + PATH, {}, b"{}").read(MOST)
        http_client.request("GET", engine.url + "/health", {}, 5.0).raw.read(MOST)
        http_client.request("POST", engine.url + PATH, {}, 5.0, b"{}").raw.read(MOST)
    http_client.close()
    kept, alone, kept_again, alone_again = (received.connection for received in engine.received)
    assert kept == kept_again
    assert len({kept, alone, alone_again, *(probe.connection for probe in engine.health_checks)}) == 5
    assert [engine.received[at].values("Connection") for at in (0, 1)] == [[], ["close"]]


def test_a_session_follows_no_redirect_and_keeps_no_cookie(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The router's own requests take no redirect, cookie, proxy or password from anywhere, and add no headers."""
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{free_port()}")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    http_client = _http_client(engine.url)
    headers = [("Location", f"{engine.url}/elsewhere"), ("Set-Cookie", "a=b"), ("X-One", "1")]
    engine.answer_next(MockResponse(302, headers, body=b"moved"))
    with http_client.request("POST", engine.url + PATH, {"X-Two": "2"}, 5.0, b"{}") as moved:
        assert (moved.status_code, moved.is_redirect, moved.headers["x-one"]) == (302, True, "1")
        assert [moved.raw.read(2), moved.raw.read(MOST), moved.raw.read(MOST)] == [b"mo", b"ved", b""]
    assert http_client.request("POST", engine.url + PATH, {}, 5.0, b"{}").json()
    first, second = engine.received
    names = ["Accept-Encoding", "Connection", "Content-Length", "Host"]
    assert sorted(name for name, _ in first.headers) == [*names, "X-Two"]
    assert sorted(name for name, _ in second.headers) == names


def test_an_engine_that_left_keeps_no_connection(engine: MockEngine) -> None:
    """Idle connections to a forgotten engine are closed, and one in use is as soon as its answer ends."""
    http_client = _http_client(engine.url)
    goes_on = threading.Event()
    engine.answer_next(MockResponse.sse(b"data: 1\n\n", goes_on, b"data: 2\n\n"))
    running = http_client.post(engine.url + PATH, {}, b"{}")
    http_client.post(engine.url + PATH, {}, b"{}").read(MOST)
    assert engine.open_connections == 2
    http_client.forget(engine.url)
    engine.wait_until(lambda: engine.open_connections == 1)
    goes_on.set()
    assert running.read(MOST).endswith(b"data: 2\n\n")
    engine.wait_until(lambda: engine.open_connections == 0)
    assert http_client.post(engine.url + PATH, {}, b"{}").read(MOST)


def test_without_descriptors_idle_connections_go_first(engine: MockEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that finds no descriptor takes those of idle connections; where there are none, nothing was sent."""
    http_client = _http_client(engine.url)
    opened = UpstreamConnection.open
    idle = http_client._own_adapter().pool._idle

    def open_if_there_is_room(*arguments: Any) -> UpstreamConnection:
        return _find_no_room() if any(idle.values()) else opened(*arguments)

    http_client.post(engine.url + PATH, {}, b"{}").read(MOST)
    assert any(idle.values())
    with MockEngine() as other, monkeypatch.context() as patch:
        patch.setattr(UpstreamConnection, "open", open_if_there_is_room)
        http_client.post(other.url + PATH, {}, b"{}").close()
        assert not any(idle.values())
        patch.setattr(UpstreamConnection, "open", _find_no_room)
        assert _failure(http_client, other.url).code == "overloaded"


def _find_no_room(*_: Any) -> UpstreamConnection:
    raise connect_error(OSError(errno.EMFILE, "Too many open files"))
