"""A router whose stderr is a pipe that nobody reads any more."""

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from router.mock_engine import MockEngine
from tests.exhaustive import exhaustive_but
from tests.router.rawclient import RawClient
from tests.router.serving import free_port, launch, status_of, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat


@contextmanager
def _full_pipe() -> Iterator[int]:
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while os.write(writer, b"x"):
                continue
        os.set_blocking(writer, True)
        yield writer
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("workers", exhaustive_but(["3"], ["1", "3"]))
def test_a_stderr_that_nobody_reads_stops_nothing(workers: str) -> None:
    """Start, requests, refusals, a reload, one more worker and the stop go on, although no line of the log is taken."""
    port = free_port()
    settings = {"ROUTER_CLIENT_HEADER_TIMEOUT_SECONDS": "0.2", "ROUTER_DRAIN_SECONDS": "0", "WEB_CONCURRENCY": workers}
    with MockEngine() as engine, _full_pipe() as stderr:
        settings["ROUTER_ENGINES"] = engine.url
        process = launch(settings, bind=f"127.0.0.1:{port}", stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            for number in (None, signal.SIGHUP, signal.SIGTTIN):
                if number is not None:
                    process.send_signal(number)
                wait_until(lambda: status_of(f"http://127.0.0.1:{port}/readyz") == 200)
                for _ in range(4):
                    with RawClient(port) as client:
                        assert_error(client.send(b"G").answer(), 400, "bad_request")
                with RawClient(port) as client:
                    assert client.post(CHAT, chat()).status == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
