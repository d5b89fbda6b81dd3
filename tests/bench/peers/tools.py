"""The engine and the load: our two programs in C, and wrk."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple

from tests.bench.peers.bodies import ROUTE
from tests.bench.peers.cache import Cache, libraries_of, output_of
from tests.bench.peers.running import SubjectError, end, spawn
from tests.checkout import CHECKOUT

WRK_PACKAGES = ("wrk", "libluajit-5.1-2")
SLACK_SECONDS = 30.0
"""How much longer than it should a load may take before it is ended."""

WRK_SCRIPT = """\
wrk.method = "POST"
local file = io.open({body}, "rb")
wrk.body = file:read("*a")
file:close()
{headers}
"""
WRK_RESULT = """\
function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format('{"requests": %d, "seconds": %f, "errors": %d}\\n', summary.requests,
      summary.duration / 1e6, errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


class Tools(NamedTuple):
    """The programs, the environment that wrk needs, and a folder for what they read."""

    engine: Path
    load: Path
    wrk: Path
    wrk_environment: dict[str, str]
    folder: Path

    def version_of_wrk(self) -> str:
        """Return wrk's version."""
        return " ".join(output_of(self.wrk, "-v", environment=self.wrk_environment).split()[1:2])


def make_tools(cache: Cache, folder: Path) -> Tools:
    """Compile and fetch what drives the bench. Raises SetupError; without these nothing is measured."""
    wrk = cache.debian_program("wrk", WRK_PACKAGES)
    return Tools(cache.compiled("engine.c"), cache.compiled("load.c"), wrk, libraries_of(wrk), folder)


class Engine:
    """The engine at work, and what it says: which requests began, and when which client was gone."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._said: queue.SimpleQueue[tuple[str, ...]] = queue.SimpleQueue()
        assert process.stdout is not None
        self.url = f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(tuple(line.split()))

    def wait_for(self, word: str, number: int, seconds: float) -> int | None:
        """Return the time that the engine says with a word about a request, 0 without one; None when nothing comes."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                said = self._said.get(timeout=left)
                if said[:2] == (word, str(number)):
                    return int(said[2]) if len(said) > 2 else 0
        return None


@contextlib.contextmanager
def running_engine(tools: Tools, on: Sequence[int]) -> Iterator[Engine]:
    """Run the engine on certain cores."""
    process = spawn([tools.engine, "0"], on, stdout=subprocess.PIPE, text=True)
    try:
        yield Engine(process)
    finally:
        end(process)


RAW_SCRIPT: Final = """\
local file = io.open({request}, "rb")
local whole = file:read("*a")
file:close()
request = function() return whole end
"""
"""A script of wrk that sends a request as it is, whatever its framing."""


def run_wrk_raw(  # noqa: PLR0913 - a load has many sides
    tools: Tools,
    port: int,
    request: bytes,
    *,
    connections: int,
    seconds: int,
    on: Sequence[int],
    speaks_tls: bool = False,
) -> dict[str, Any]:
    """Load a port like `run_wrk`, with a request that is sent byte for byte."""
    script = RAW_SCRIPT.format(request=json.dumps(str(_request_file(tools, request))))
    return _wrk(tools, f"{'https' if speaks_tls else 'http'}://127.0.0.1:{port}/", script, connections, seconds, on)


def run_wrk(  # noqa: PLR0913 - a load has many sides
    tools: Tools, port: int, request: bytes, *, connections: int, seconds: int, on: Sequence[int]
) -> dict[str, Any]:
    """Load a port with as many requests as it takes; return how many there were, how long it took, how many failed."""
    head, _, body = request.partition(b"\r\n\r\n")
    (tools.folder / "body").write_bytes(body)
    fields = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if not line.startswith("Content-Length")]
    headers = "\n".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in fields)
    script = WRK_SCRIPT.format(body=json.dumps(str(tools.folder / "body")), headers=headers)
    return _wrk(tools, f"http://127.0.0.1:{port}{ROUTE}", script, connections, seconds, on)


def _wrk(  # noqa: PLR0913, PLR0917 - a load has many sides
    tools: Tools, url: str, script: str, connections: int, seconds: int, on: Sequence[int]
) -> dict[str, Any]:
    file = tools.folder / "wrk.lua"
    file.write_text(script + WRK_RESULT)
    words: list[str | Path] = [tools.wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", file]
    return _last_object(_finished([*words, url], seconds, on, tools.wrk_environment))


def run_load(  # noqa: PLR0913 - a load has many sides
    tools: Tools, port: int, request: bytes, rate: int, seconds: float, *, on: Sequence[int]
) -> dict[str, Any]:
    """Send so many requests a second, each when it is due; return how long their answers took."""
    words = [tools.load, "rate", port, _request_file(tools, request), rate, seconds]
    return _last_object(_finished([str(word) for word in words], seconds, on))


def watch_streams(  # noqa: PLR0913 - a load has many sides
    tools: Tools,
    port: int,
    request: bytes,
    *,
    count: int,
    seconds: float,
    on: Sequence[int],
    note: Callable[[int, int], None],
) -> dict[str, Any]:
    """Run so many streams; `note` is called at intervals with how many are open and how many chunks have come."""
    words = [tools.load, "streams", port, _request_file(tools, request), count, seconds]
    process = spawn([str(word) for word in words], on, stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(seconds + SLACK_SECONDS, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
            _, is_open, _, chunks = line.split()
            note(int(is_open), int(chunks))
    finally:
        watchdog.cancel()
        end(process)
    raise SubjectError("the load ended without a word")


@contextlib.contextmanager
def uploading(port: int, clients: int, size: int, model: str, *, on: Sequence[int]) -> Iterator[Callable[[], int]]:
    """Let so many clients send bodies of a size again and again; yields what ends them and counts those sent."""
    words = [sys.executable, "-m", "tests.bench.peers.uploads", str(port), str(clients), str(size), model]
    with TemporaryFile("w+") as said:
        process = spawn(words, on, stdout=said, cwd=CHECKOUT)

        def ended() -> int:
            end(process)
            said.seek(0)
            return len(said.readlines())

        try:
            yield ended
        finally:
            end(process)


def _request_file(tools: Tools, request: bytes) -> Path:
    path = tools.folder / "request"
    path.write_bytes(request)
    return path


def _finished(
    words: Sequence[str | Path], seconds: float, on: Sequence[int], environment: dict[str, str] | None = None
) -> str:
    process = spawn(words, on, environment=environment or {}, stdout=subprocess.PIPE, text=True)
    try:
        said, _ = process.communicate(timeout=seconds + SLACK_SECONDS)
    except subprocess.TimeoutExpired:
        raise SubjectError("the load did not come to its end") from None
    finally:
        end(process)
    return str(said)


def _last_object(said: str) -> dict[str, Any]:
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines:
        raise SubjectError(f"the load ended without a result: {said[-200:]!r}")
    return dict(json.loads(lines[-1]))
