"""The access log's way out: whole lines on a pipe, a terminal or nothing at all, and the last ones before the end."""

import fcntl
import itertools
import json
import os
import pty
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest

from router.mock_engine import MockEngine
from tests.router.rawclient import RawClient
from tests.router.serving import RunningRouter, launch, running_router
from tests.router.wire.chat import CHAT, chat

CONF = ("-c", "python:router.gunicorn_conf")


@pytest.mark.parametrize("arguments", [(*CONF, "--workers", "2"), ("--threads", "8", "--preload")], ids=" ".join)
def test_parallel_requests_have_exactly_one_whole_line_each(engine: MockEngine, arguments: tuple[str, ...]) -> None:
    """Eight clients with 50 requests each, at two workers or at one that was forked ready, leave 400 whole lines."""
    ids = [[uuid.uuid4().hex for _ in range(50)] for _ in range(8)]
    with running_router(None, [engine.url], arguments=arguments) as router:

        def ask(own: list[str]) -> None:
            with RawClient(router.port) as client:
                for number, each in enumerate(own):
                    client.post(CHAT, chat(model="m" * number * 4), {"X-Request-Id": each})

        threads = [threading.Thread(target=ask, args=(own,)) for own in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        router.access_lines_with(f'"route":"{CHAT}"', 400)
        _stop_and_read(router, signal.SIGTERM)
        lines = [json.loads(line) for line in router.access_lines]
    told = [line["request_id"] for line in lines if line.get("route") == CHAT]
    assert sorted(told) == sorted(itertools.chain(*ids))


def _stop_and_read(router: RunningRouter, number: signal.Signals) -> None:
    """Stop a router by a signal and read what it still writes."""
    router.signal(number)
    router.process.wait(30)
    router.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGINT])
def test_lines_are_written_before_a_worker_ends(engine: MockEngine, number: signal.Signals) -> None:
    """However the service is stopped, the lines of requests that were over before are written."""
    with running_router(None, [engine.url], {"ROUTER_DRAIN_SECONDS": "0"}) as router:
        with RawClient(router.port) as client:
            # On one connection a request is over, line and all, before the next is read.
            for each in range(20):
                client.post(CHAT, chat(), {"X-Request-Id": f"request-{each}-"})
        _stop_and_read(router, number)
        assert [len(router.access_lines_with(f"request-{each}-", 0)) for each in range(19)] == [1] * 19


def test_a_stdout_that_is_closed_is_said_and_does_no_harm(engine: MockEngine) -> None:
    """When nobody reads stdout any more, requests are answered as before."""
    reader, writer = os.pipe()
    with RunningRouter(launch({"ROUTER_ENGINES": engine.url}, stdout=writer)) as router:
        os.close(writer)
        router.wait_until_ready()
        os.close(reader)
        with RawClient(router.port) as client:
            assert [client.post(CHAT, chat()).status for _ in range(50)] == [200] * 50
            router.wait_for_line("the access log is closed: stdout cannot be written: Broken pipe")
            assert client.post(CHAT, chat()).status == 200


def test_a_router_without_any_stdout_serves(engine: MockEngine) -> None:
    """Where stdout was closed before the start, what has its number now is not written to."""
    command = ["bash", "-c", 'exec "$@" >&-', "bash"]
    environment = {"ROUTER_ENGINES": engine.url, "ROUTER_DRAIN_SECONDS": "0"}
    with RunningRouter(launch(environment, stdout=subprocess.DEVNULL, before=command)) as router:
        router.wait_until_ready()
        with RawClient(router.port) as client:
            assert [client.post(CHAT, chat()).status for _ in range(50)] == [200] * 50
        _stop_and_read(router, signal.SIGTERM)
        assert "access log" not in router.log()


def test_a_stdout_that_takes_nothing_holds_nothing_up(engine: MockEngine) -> None:
    """While nobody reads stdout, requests are answered; their lines come when somebody does."""
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    with (
        RunningRouter(launch({"ROUTER_ENGINES": engine.url}, stdout=writer)) as router,
        os.fdopen(reader, "rb") as stdout,
    ):
        os.close(writer)
        router.wait_until_ready()
        with RawClient(router.port) as client:
            ids = [f"request-{number}-" for number in range(200)]
            assert {client.post(CHAT, chat(), {"X-Request-Id": each}).status for each in ids} == {200}
        lines = (json.loads(line) for line in stdout)
        told = [line["request_id"] for line in itertools.islice((each for each in lines if "engine" in each), 200)]
    assert told == ids


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal: the side of its user and that of its programs."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def test_a_terminal_gets_text(engine: MockEngine, terminal: tuple[int, int]) -> None:
    """On a terminal a line is for people, and gives the terminal no orders."""
    user, program = terminal
    request_id = uuid.uuid4().hex
    with RunningRouter(launch({"ROUTER_ENGINES": engine.url, "ROUTER_MODEL_ID": "served"}, stdout=program)) as router:
        router.wait_until_ready()
        with RawClient(router.port) as client:
            client.post(CHAT, chat(model="\x1b[2J"), {"X-Request-Id": request_id})
        shown = ""
        while f"request_id={request_id}" not in shown or not shown.endswith("\n"):
            shown += os.read(user, 65536).decode()
    (line,) = [each for each in shown.splitlines() if request_id in each]
    assert f" 404 POST   {CHAT} " in line
    assert r'model_asked="\u001b[2J"' in line
    assert line.isprintable()


@pytest.mark.parametrize(("value", "says"), [("off", ""), ("text", " 200 POST   /v1/chat/completions ")])
def test_the_form_can_be_chosen(engine: MockEngine, value: str, says: str) -> None:
    """ROUTER_ACCESS_LOG takes the log off, or asks for text where there is no terminal."""
    with running_router(None, [engine.url], {"ROUTER_ACCESS_LOG": value, "ROUTER_DRAIN_SECONDS": "0"}) as router:
        with RawClient(router.port) as client:
            assert [client.post(CHAT, chat()).status for _ in range(2)] == [200] * 2
        _stop_and_read(router, signal.SIGTERM)
        told = [line for line in router.access_lines if CHAT in line]
        assert bool(told) is bool(says)
        assert all(says in line for line in told)
