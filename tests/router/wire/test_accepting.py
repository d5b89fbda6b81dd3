"""Connections spread evenly over the workers, through reloads and killed workers, and none is lost."""

import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest

from router.mock_engine import MockEngine
from tests.exhaustive import exhaustive_but
from tests.router.process import children_of
from tests.router.rawclient import RawClient
from tests.router.serving import RunningRouter, running_router, wait_until

CONF = ("-c", "python:router.gunicorn_conf")
ESTABLISHED, LISTENING = "01", "0A"
"""States of a socket in /proc/net/tcp."""
SHARE = 1.25
TRIALS = 20
OPENED = {"at once": 64, "one after the other": 1}
"""How many threads open connections at the same time."""


@contextmanager
def _router(engine: MockEngine, workers: int) -> Iterator[RunningRouter]:
    with running_router(None, [engine.url], arguments=(*CONF, "--workers", str(workers))) as router:
        wait_until(lambda: len(_ready(router)) == workers, router.log)
        yield router


def _ready(router: RunningRouter) -> list[int]:
    """Return the workers that accept connections: whose loop polls the listening socket."""
    (listener,) = _inodes(router.port, LISTENING)
    return [pid for pid in children_of(router.process.pid) if _is_polling(pid, f"socket:[{listener}]")]


def _is_polling(pid: int, listener: str) -> bool:
    with suppress(FileNotFoundError):  # the process has ended
        links = {path.name: _link(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
        polls = [fd for fd, link in links.items() if link == "anon_inode:[eventpoll]"]
        polled = " ".join(Path(f"/proc/{pid}/fdinfo/{fd}").read_text() for fd in polls)
        return any(links.get(fd) == listener for fd in re.findall(r"tfd:\s+(\d+)", polled))
    return False


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except FileNotFoundError:
        return ""


def _sockets_of(pid: int) -> set[str]:
    links = [_link(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:")}


def _inodes(port: int, state: str) -> dict[str, int]:
    """Return the inodes of a port's sockets in a state, with the ports of their peers."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        fields[9]: int(fields[2].split(":")[1], 16)
        for fields in lines
        if fields[3] == state and int(fields[1].split(":")[1], 16) == port
    }


def _workers_of(router: RunningRouter) -> dict[int, int]:
    """Return which worker holds the connection from which port."""
    inodes = _inodes(router.port, ESTABLISHED)
    return {
        inodes[inode]: pid for pid in children_of(router.process.pid) for inode in _sockets_of(pid) if inode in inodes
    }


def _open(router: RunningRouter, stack: ExitStack, number: int, threads: int) -> list[RawClient]:
    """Open connections that each carry a request and are kept."""

    def open_one(_: int) -> RawClient:
        client = RawClient(router.port)
        assert client.get("/healthz").status == 200
        return client

    with ThreadPoolExecutor(threads) as pool:
        clients = list(pool.map(open_one, range(number)))
    for client in clients:
        stack.enter_context(client)
    return clients


def _shares(router: RunningRouter) -> Counter[int]:
    return Counter(_workers_of(router).values())


@pytest.mark.parametrize(
    ("workers", "number", "opened", "trials"),
    exhaustive_but(
        [(2, 64, "at once", 1), (4, 64, "one after the other", 1)],
        [
            (workers, number, opened, trials)
            for workers in (2, 4)
            for number in (16, 64, 1000)
            for opened in OPENED
            for trials in (1, TRIALS)
        ],
    ),
)
def test_the_busiest_worker_has_little_more_than_its_share(
    engine: MockEngine, workers: int, number: int, opened: str, trials: int
) -> None:
    """However kept connections are opened, the busiest worker has at most 1.25 times its share of them."""
    with _router(engine, workers) as router:
        for _ in range(trials):
            with ExitStack() as stack:
                _open(router, stack, number, OPENED[opened])
                shares = _shares(router)
                assert sum(shares.values()) == number
                assert max(shares.values()) <= SHARE * number / workers, shares
            wait_until(lambda: not _shares(router))


def _request_until(router: RunningRouter, stopped: Event) -> int:
    """Send requests on connections of their own until stopped; return how many there were."""
    sent = 0
    while not stopped.is_set():
        with RawClient(router.port) as client:
            assert client.get("/healthz").status == 200
        sent += 1
    return sent


def test_no_connection_is_lost_over_reloads_and_killed_workers(engine: MockEngine) -> None:
    """Under load, a reload loses no connection and a killed worker only its own; then the share holds again."""
    with _router(engine, 2) as router, ExitStack() as stack:
        stopped = Event()
        pool = stack.enter_context(ThreadPoolExecutor(4))
        stack.callback(stopped.set)
        loads = [pool.submit(_request_until, router, stopped) for _ in range(4)]
        before = set(children_of(router.process.pid))
        router.signal(signal.SIGHUP)
        wait_until(lambda: len(_ready(router)) == 2 and not before & set(children_of(router.process.pid)), router.log)
        stopped.set()
        assert all(load.result() for load in loads)

        clients = _open(router, stack, 16, 16)
        owners = _workers_of(router)
        killed = _ready(router)[0]
        kept = [client for client in clients if owners[client.socket.getsockname()[1]] != killed]
        os.kill(killed, signal.SIGKILL)
        fresh = _open(router, stack, 8, 8)
        assert [client.get("/healthz").status for client in kept + fresh] == [200] * len(kept + fresh)
        wait_until(lambda: len(_ready(router)) == 2, router.log)
        wait_until(lambda: re.search(rf"\(pid:\s*{killed}\)", router.log()) is not None)
        _open(router, stack, 48, 16)
        shares = _shares(router)
        assert len(shares) == 2, (shares, router.log())
        assert max(shares.values()) <= SHARE * sum(shares.values()) / 2, shares
