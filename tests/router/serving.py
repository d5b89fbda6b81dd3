"""A real router under real gunicorn, for tests: started on a free port, watched, stopped."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from router.artifact.format import Source, freeze, serialise
from router.contract.schema.model import Contract
from tests.checkout import CHECKOUT

START_SECONDS = 30.0
_LISTENING = re.compile(r"Listening at: https?://[\d.]+:(\d+)")


class RunningRouter:
    """One gunicorn master with its workers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.access_lines: list[str] = []
        """What came on stdout; empty where `launch` was told another one."""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(process.stderr, self.lines), daemon=True)
        self._access_reader = threading.Thread(
            target=self._read, args=(process.stdout or [], self.access_lines), daemon=True
        )
        self._reader.start()
        self._access_reader.start()
        self.port = int(self.wait_for_line(_LISTENING)[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def wait_for_line(self, pattern: str | re.Pattern[str], seconds: float = START_SECONDS) -> re.Match[str]:
        """Wait until a line of the log matches and return the match."""
        pattern = re.compile(pattern)

        def find() -> re.Match[str] | None:
            return next((match for line in self.lines if (match := pattern.search(line))), None)

        with self._changed:
            if not self._changed.wait_for(lambda: find() or not self._reader.is_alive(), seconds) or not find():
                raise AssertionError(f"no line matches {pattern.pattern!r} in:\n" + "".join(self.lines))
            return find()  # type: ignore[return-value]

    def access_lines_with(self, text: str, count: int = 1) -> list[str]:
        """Wait for so many lines of the access log that hold a text and return all of them."""

        def found() -> list[str]:
            return [line for line in self.access_lines if text in line]

        with self._changed:
            assert self._changed.wait_for(lambda: len(found()) >= count, START_SECONDS), (found(), self.log())
            return found()

    def wait_until_ready(self) -> None:
        """Wait until the router says that it can serve; fails at once with its log when it ended."""

        def is_ready() -> bool:
            assert self.process.poll() is None, self.log()
            return status_of(f"{self.url}/readyz") == 200

        wait_until(is_ready, self.log)

    def log(self) -> str:
        return "".join(self.lines)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """End the master and its workers at once; gunicorn's own quick stop may hang now and then."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        self._access_reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _read(self, stream: Iterable[str], lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def launch(  # noqa: PLR0913, PLR0917 - a process has many sides
    environment: Mapping[str, str],
    arguments: Sequence[str] = ("-c", "python:router.gunicorn_conf"),
    app: str = "router.wsgi",
    folder: Path | None = None,
    bind: str | None = "127.0.0.1:0",
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    before: Sequence[str] = (),
) -> subprocess.Popen[str]:
    """Start gunicorn with only the given settings; its log comes on stderr, the access log on stdout.

    `bind` None leaves it to PORT; `before` is a command that runs the rest.
    """
    ours = ("ROUTER_", "SGLANG_", "GUNICORN_", "WEB_CONCURRENCY", "PORT")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.Popen(
        [*before, sys.executable, "-m", "gunicorn", *(["--bind", bind] if bind else []), *arguments, app],
        env={**plain, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1", **environment},
        cwd=folder or "/",
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )


def artifact_file(folder: Path, contract: Contract, name: str = "under-test") -> Path:
    """Write the artifact of a contract into a folder and return its path."""
    path = folder / f"{name}.json"
    path.write_bytes(serialise(freeze(name, contract, (Source("file", f"{name}.yaml", "0" * 64),))))
    return path


@contextmanager
def running_router(
    artifact: Path | None,
    engines: Sequence[str],
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = ("-c", "python:router.gunicorn_conf"),
    *,
    until_ready: bool = True,
) -> Iterator[RunningRouter]:
    """Run a router in front of engines, by default until it is ready; `settings` are environment variables."""
    environment = {"ROUTER_ENGINES": ",".join(engines), **(settings or {})}
    if artifact is not None:
        environment["ROUTER_PROFILE"] = str(artifact)
    with RunningRouter(launch(environment, arguments)) as router:
        if until_ready:
            router.wait_until_ready()
        yield router


def free_port() -> int:
    """Return a TCP port that nothing listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def status_of(url: str) -> int:
    """Return the status of a GET, 0 when nothing answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def wait_until(
    condition: Callable[[], object], explain: Callable[[], str] = str, seconds: float = START_SECONDS
) -> None:
    """Wait until a condition holds; looks often, fails late and says why."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {seconds} s: {explain()}")
        time.sleep(0.005)
