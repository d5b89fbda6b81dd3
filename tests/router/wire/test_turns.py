"""Workers take turns: the old ones serve until the new ones do, and finish what they have."""

import os
import re
import signal
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Sampling
from router.mock_engine import MockEngine, MockResponse
from tests.router.process import children_of, threads
from tests.router.rawclient import RawClient, post_head
from tests.router.serving import RunningRouter, artifact_file, running_router, status_of, wait_until
from tests.router.wire.chat import CHAT, chat

CONF = ("-c", "python:router.gunicorn_conf")
PINNED = Contract(sampling=Sampling(params={"temperature": 1}))
OTHERWISE_PINNED = Contract(sampling=Sampling(params={"temperature": 0.5}))


def _workers(router: RunningRouter) -> list[int]:
    return children_of(router.process.pid)


def _temperatures(router: RunningRouter, engine: MockEngine, count: int) -> set[Any]:
    """Return what several requests on connections of their own were injected with."""
    engine.clear()
    for _ in range(count):
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat()).status == 200
    return {received.json().get("temperature") for received in engine.received}


def _has_pending_signals(process: int) -> bool:
    return bool(re.search(r"^ShdPnd:\s+0*[1-9a-f]", Path(f"/proc/{process}/status").read_text(), re.MULTILINE))


@pytest.fixture
def gated(tmp_path: Path) -> tuple[str, ...]:
    """Arguments under which workers but the first begin once the file `gate` is there."""
    gate = tmp_path / "gate"
    wait = f"while worker.age > 1 and not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)"
    conf = tmp_path / "gated.py"
    conf.write_text(
        f"import pathlib, time\nfrom router.gunicorn_conf import *\n\ndef post_fork(server, worker):\n    {wait}\n"
    )
    return ("-c", str(conf))


def test_old_workers_serve_until_new_ones_do(tmp_path: Path, gated: tuple[str, ...]) -> None:
    """However long new workers take to begin, the old ones serve, and reloads meanwhile become one once they do."""
    artifact = artifact_file(tmp_path, PINNED)
    with MockEngine() as engine, running_router(artifact, [engine.url], arguments=gated) as router:
        (old,) = _workers(router)
        artifact_file(tmp_path, OTHERWISE_PINNED)
        router.signal(signal.SIGHUP)
        wait_until(lambda: router.log().count("Booting worker") == 2, router.log)
        for _ in range(3):
            router.signal(signal.SIGHUP)
            wait_until(lambda: not _has_pending_signals(router.process.pid))
            assert _temperatures(router, engine, 2) == {1}
        assert old in _workers(router)
        (tmp_path / "gate").touch()
        wait_until(lambda: router.log().count("Worker exiting") == 2, router.log)
        assert _temperatures(router, engine, 3) == {0.5}
        wait_until(lambda: len(_workers(router)) == 1, router.log)
        assert router.log().count("router: enforcing") == 3


def test_a_stop_does_not_wait_for_workers_to_begin(tmp_path: Path, gated: tuple[str, ...]) -> None:
    """TERM while a reload's workers begin ends the old ones as well, and the reload that waits is forgotten."""
    with MockEngine() as engine, running_router(None, [engine.url], {"ROUTER_DRAIN_SECONDS": "0"}, gated) as router:
        router.signal(signal.SIGHUP)
        wait_until(lambda: router.log().count("Booting worker") == 2, router.log)
        router.signal(signal.SIGHUP)
        wait_until(lambda: not _has_pending_signals(router.process.pid))
        router.signal(signal.SIGTERM)
        router.wait_for_line("Handling signal: term")
        (tmp_path / "gate").touch()
        assert router.process.wait(20) == 0
        assert router.log().count("router: enforcing") == 2


@pytest.mark.parametrize("cause", ["TERM", "--max-requests"])
def test_a_worker_that_stops_by_itself_is_replaced_at_once(cause: str) -> None:
    """While the last stream of a worker runs another one serves; the stream comes to its end with every byte."""
    gate, stream = Event(), chat(stream=True)
    arguments = CONF if cause == "TERM" else (*CONF, cause, "50")
    with MockEngine() as engine, running_router(None, [engine.url], arguments=arguments) as router:
        engine.answer_next(MockResponse.sse(b"data: {}\n\n", gate, b"data: [DONE]\n\n"))
        with RawClient(router.port) as client:
            client.send(post_head(CHAT, {"Content-Length": str(len(stream))}) + stream).head()
            assert client.chunk() == b"data: {}\n\n"
            (first,) = _workers(router)
            if cause == "TERM":
                os.kill(first, signal.SIGTERM)
            wait_until(lambda: status_of(f"{router.url}/healthz") and len(_workers(router)) == 2, router.log)
            assert status_of(f"{router.url}/readyz") == 200
            assert first in _workers(router)
            gate.set()
            assert b"".join(iter(client.chunk, b"")) == b"data: [DONE]\n\n"
        wait_until(lambda: first not in _workers(router), router.log)


def test_reloads_leave_nothing_in_the_master(tmp_path: Path) -> None:
    """Under --preload the master, which loads the app anew, begins nothing in the background."""
    artifact = artifact_file(tmp_path, PINNED)
    arguments = (*CONF, "--preload")
    with MockEngine() as engine, running_router(artifact, [engine.url], arguments=arguments) as router:
        artifact_file(tmp_path, OTHERWISE_PINNED)
        router.signal(signal.SIGHUP)
        wait_until(lambda: _temperatures(router, engine, 3) == {0.5}, router.log)
        assert threads(router.process.pid) == 1
