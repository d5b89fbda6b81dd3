"""A subject at work: started on its cores, waited for, stopped with all that it started."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.peers import processes
from tests.bench.peers.bodies import chat_body, for_model, on_the_wire
from tests.bench.peers.tasks import Certificate, Command, Installed, Task
from tests.router.serving import free_port

READY_SECONDS = 150.0
"""Long enough for a peer that imports for twenty seconds of CPU, in each of two workers."""
ANSWER_SECONDS = 10.0
STOP_SECONDS = 3.0
_OURS = ("ROUTER_", "SGLANG_", "GUNICORN_", "WEB_CONCURRENCY", "PORT", "PYTHONPATH", "LITELLM_", "OTEL_")


class SubjectError(Exception):
    """A subject does not do what is measured; the message is one line that says why."""


class Cores(NamedTuple):
    """Which cores the subject runs on, and which the engine and the load."""

    subject: Sequence[int]
    rest: Sequence[int]


def cores(*, apart: bool) -> Cores:
    """Return the cores: the subject alone on one, or everything everywhere."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[:1], allowed[1:]) if apart and len(allowed) > 1 else Cores(allowed, allowed)


def spawn(words: Sequence[str | Path], on: Sequence[int], **options: Any) -> subprocess.Popen[Any]:
    """Start a process on certain cores, in a group of its own, without what our own settings would tell it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    environment.update(options.pop("environment", {}))
    cpus = ",".join(map(str, on))
    process = subprocess.Popen(
        ["taskset", "--cpu-list", cpus, *map(str, words)],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        **options,
    )
    _let_its_session_come_first(process.pid)
    return process


def _let_its_session_come_first(process: int) -> None:
    """Give a session the niceness of this process: Linux weighs sessions against each other (sched(7), autogroup)."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text(f"{niceness}\n")


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that `spawn` started and all that descends from it."""
    tree = processes.tree_of(process.pid) if process.poll() is None else []
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for child in tree[1:]:  # those with a session of their own
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(child) != process.pid:
                os.kill(child, signal.SIGKILL)
    process.wait()


class Running(NamedTuple):
    """A subject that listens on a port."""

    name: str
    port: int
    command: Command
    process: subprocess.Popen[Any]
    log: Path
    start_seconds: float
    speaks_tls: bool = False

    def wire(self, body: bytes) -> bytes:
        """Return a request as this subject wants it."""
        return _wire(body, self.command)

    def tree(self) -> list[int]:
        """Return its processes. Raises SubjectError when it has ended."""
        if self.process.poll() is not None:
            raise SubjectError(f"ended with {self.process.returncode}: {last_line(self.log)}")
        return processes.tree_of(self.process.pid)

    def workers(self) -> list[int]:
        """Return the processes of it that answer requests."""
        return processes.workers_of(self.process.pid)


def _wire(body: bytes, command: Command) -> bytes:
    return on_the_wire(for_model(body, command.model), command.headers)


@contextlib.contextmanager
def running(name: str, installed: Installed, task: Task, on: Sequence[int]) -> Iterator[Running]:
    """Run a subject; it is ready when it has answered a chat request. Raises SubjectError when it never does."""
    task.folder.mkdir(parents=True, exist_ok=True)
    command = installed.command(task)
    log = task.folder / "log"
    with log.open("wb") as file:
        begun = time.monotonic()
        process = spawn(
            command.words, on, environment=command.environment, cwd=task.folder, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            speaks_tls = task.certificate is not None
            wait_until_ready(process, task.port, _wire(chat_body("1 KB"), command), log, speaks_tls=speaks_tls)
            yield Running(name, task.port, command, process, log, time.monotonic() - begun, speaks_tls)
        finally:
            end(process)


@contextlib.contextmanager
def paused(others: Iterable[Running]) -> Iterator[None]:
    """Let other subjects stand still: one that was overcome would go on for long on the core that they share."""
    groups = {other.process.pid for other in others}
    try:
        for group in groups:
            _signal(group, signal.SIGSTOP)
        yield
    finally:
        for group in groups:
            _signal(group, signal.SIGCONT)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def wait_until_ready(
    process: subprocess.Popen[Any], port: int, request: bytes, log: Path, *, speaks_tls: bool = False
) -> None:
    """Wait until a chat request is answered as the engine answers it."""
    deadline = time.monotonic() + READY_SECONDS
    answer = b""
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SubjectError(f"ended with {process.returncode} at its start: {last_line(log)}")
        with contextlib.suppress(OSError):
            answer = ask(port, request, speaks_tls=speaks_tls)
            if b" 200 " in answer[:16] and b"of the bench" in answer:
                return
        time.sleep(0.01)
    raise SubjectError(f"not ready after {READY_SECONDS:.0f} s: {answer[:100]!r} {last_line(log)}")


def ask(port: int, request: bytes, *, speaks_tls: bool = False) -> bytes:
    """Return what is answered to a request, as far as it comes at once."""
    with (
        socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as plain,
        _secured(plain, speaks_tls) as connection,
    ):
        connection.sendall(request)
        answer = b""
        while b"of the bench" not in answer:
            piece = connection.recv(65536)
            answer += piece
            if not piece or b" 200 " not in answer[:16]:
                break
        return answer


def _secured(plain: socket.socket, speaks_tls: bool) -> socket.socket:
    if not speaks_tls:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)


def last_line(log: Path) -> str:
    """Return the last line of a log that says something."""
    with contextlib.suppress(OSError):
        lines = [line for line in log.read_text(errors="replace")[-4000:].splitlines() if line.strip()]
        return lines[-1][:200] if lines else "nothing in its log"
    return "no log"


def task_for(
    engine: str, folder: Path, *, workers: int = 1, most_streams: int = 0, certificate: Certificate | None = None
) -> Task:
    """Return a task on free ports."""
    return Task(free_port(), free_port(), engine, workers, folder, most_streams, certificate)
