"""The measures: what is done with a running subject, and which figures come of it."""

import itertools
import os
import random
import resource
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.bench.peers import processes
from tests.bench.peers.bodies import CPU_BODIES, FORMS, TLS, chat_body, directed_body, in_form
from tests.bench.peers.record import Figures
from tests.bench.peers.running import Cores, Running, SubjectError
from tests.bench.peers.subjects import BARE, CONTRACT_ON, EDITED, OURS
from tests.bench.peers.tools import Engine, Tools, run_load, run_wrk, run_wrk_raw, uploading, watch_streams

PEER: Final = "sglang-router"
"""The peer that the aims are ratios to."""
PROXIES: Final = ("nginx", "Envoy", "HAProxy")
OURS_ON: Final = OURS + CONTRACT_ON
LATENCY_RATE: Final = 100
UPLOAD_CLIENTS, UPLOAD_BYTES = 50, 50_000_000
LARGE_CASE: Final = f"{UPLOAD_CLIENTS} clients send 50 MB each"
AT_ONCE, IN_TURN = "at once", "in turn"
BALANCE_CASES: Final = (f"16 {AT_ONCE}", f"64 {AT_ONCE}", f"64 {IN_TURN}", f"1000 {AT_ONCE}")
STREAMS: Final = (64, 256, 1000)
WARM_STREAMS: Final = 4
CHUNKS_A_SECOND: Final = 20
ENDLESS: Final = 1_000_000_000
LEAVING_SECONDS: Final = 3.0
"""How long is waited for an engine's connection to be closed; then it counts as never."""
PATIENCE_SECONDS: Final = 10.0
CALM_SECONDS, CALM_SHARE = 5.0, 0.1
"""How long a subject may take to be calm again, and what of a core it may use then."""
NEVERS: Final = 2
"""After so many that were never closed in a row no more clients are tried."""
CPU_CONNECTIONS, RATE_CONNECTIONS = 8, 32
SATURATED: Final = "saturated"
"""How the reason begins why a subject was not given more streams."""
SATURATED_SECONDS: Final = 1.0
"""A subject whose chunks are this late at the p99, or that lets half of them be missing, is not given more streams."""
MOST_URGENT: Final = -20
"""The niceness of what comes before all other work."""
MAX_ERRORS: Final = 0.01
"""Share of requests that may fail without the figures being worthless."""

STREAM_CASES: Final = tuple(map(str, STREAMS))
IN_STREAM, IN_SILENCE, IN_WAITING = "in a stream", "in a stream's silence", "while a whole answer is waited for"
LEAVING_CASES: Final = (IN_STREAM, IN_SILENCE, IN_WAITING)


@dataclass
class Bench:
    """What measures work with."""

    tools: Tools
    engine: Engine
    cores: Cores
    quick: bool
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    rested: dict[str, int] = field(default_factory=dict)
    """Resident bytes of a subject before its first stream."""
    saturated: dict[str, int] = field(default_factory=dict)
    """By how many streams a subject was overcome: it is not given more."""

    def seconds(self, full: float, quick: float) -> float:
        """Return how long something takes in a full or a quick run."""
        return quick if self.quick else full


class Measure(NamedTuple):
    """A measure: its cases, how many rounds, its share of the time, and how it is taken."""

    name: str
    cases: tuple[str, ...]
    rounds: int
    share: float
    take: Callable[[Bench, Running, str, int], Figures]
    workers: int = 1
    most_streams: int = 0
    apart: bool = True
    """Does the subject have a core of its own?"""
    fresh: bool = False
    """Is the subject started anew for each sample?"""
    with_engine: bool = False
    """Is the engine alone measured, too?"""
    every_preset: bool = True
    """Is our router measured with the largest preset, too?"""
    subjects: tuple[str, ...] = ()
    """The subjects that are measured, if not all peers and presets."""
    speaks_tls: bool = False


def take_cpu(bench: Bench, subject: Running, case: str, _round: int) -> Figures:
    """Return the CPU time of a request, from as many requests as the subject takes."""
    seconds = int(bench.seconds(2, 1))
    request = subject.wire(chat_body(case))
    tree = subject.tree()
    before = processes.cpu_seconds(tree)
    done = run_wrk(
        bench.tools, subject.port, request, connections=CPU_CONNECTIONS, seconds=seconds, on=bench.cores.rest
    )
    used = processes.cpu_seconds(tree) - before
    _refuse_errors(subject, done["errors"], done["requests"])
    return {"cpu_us": used / done["requests"] * 1e6, "requests": done["requests"]}


def take_form(bench: Bench, subject: Running, case: str, _round: int) -> Figures:
    """Return the CPU time of a 1 KB request in one of its forms."""
    tree = subject.tree()
    before = processes.cpu_seconds(tree)
    done = run_wrk_raw(
        bench.tools,
        subject.port,
        in_form(subject.wire(chat_body("1 KB")), case),
        connections=CPU_CONNECTIONS,
        seconds=int(bench.seconds(2, 1)),
        on=bench.cores.rest,
        speaks_tls=subject.speaks_tls,
    )
    used = processes.cpu_seconds(tree) - before
    _refuse_errors(subject, done["errors"], done["requests"])
    return {"cpu_us": used / done["requests"] * 1e6, "requests": done["requests"]}


def take_balance(bench: Bench, subject: Running, case: str, _round: int) -> Figures:
    """Return which share of kept connections the busiest worker holds, in the median and the worst of some trials."""
    count, _, way = case.partition(" ")
    request = subject.wire(chat_body("1 KB"))
    shares = sorted(_share(subject, request, int(count), way) for _ in range(int(bench.seconds(4, 1))))
    return {"share": statistics.median(shares), "worst_share": shares[-1]}


def _share(subject: Running, request: bytes, count: int, way: str) -> float:
    with ExitStack() as clients:
        if way == AT_ONCE:
            opened = [clients.enter_context(_sent(subject, request)) for _ in range(count)]
            for client in opened:
                _answered(client)
        else:
            for _ in range(count):
                _answered(clients.enter_context(_sent(subject, request)))
        held = [processes.connections_of(worker, subject.port) for worker in subject.workers()]
    if sum(held) < count:
        raise SubjectError(f"only {sum(held)} of {count} connections were kept")
    return max(held) / sum(held)


def _answered(client: socket.socket) -> None:
    answer = b""
    while b"of the bench" not in answer:
        piece = client.recv(65536)
        if not piece:
            raise SubjectError(f"a connection was closed: {answer[:80]!r}")
        answer += piece


def take_large(bench: Bench, subject: Running, _case: str, _round: int) -> Figures:
    """Return how long answers to small requests take while many clients send large bodies."""
    clients = int(bench.seconds(UPLOAD_CLIENTS, 4))
    model, request = subject.command.model, subject.wire(chat_body("1 KB"))
    with uploading(subject.port, clients, UPLOAD_BYTES, model, on=bench.cores.rest) as ended:
        done = run_load(bench.tools, subject.port, request, LATENCY_RATE, bench.seconds(20, 5), on=bench.cores.rest)
        uploads = ended()
    _wait_until_calm(subject.tree())
    _refuse_errors(subject, done["errors"], done["requests"])
    if not uploads:
        raise SubjectError("no large body was taken")
    return {**{name: done[name] for name in ("p50_us", "p99_us", "max_us")}, "uploads": uploads}


def take_rate(bench: Bench, subject: Running, case: str, _round: int) -> Figures:
    """Return how many requests a second a subject takes."""
    request = subject.wire(chat_body(case))
    seconds = int(bench.seconds(2, 1))
    done = run_wrk(
        bench.tools, subject.port, request, connections=RATE_CONNECTIONS, seconds=seconds, on=bench.cores.rest
    )
    _refuse_errors(subject, done["errors"], done["requests"])
    return {"rate": done["requests"] / done["seconds"]}


def take_latency(bench: Bench, subject: Running, _case: str, _round: int) -> Figures:
    """Return how long answers take at a low rate, from when each request was due."""
    request = subject.wire(chat_body("1 KB"))
    seconds = bench.seconds(4, 2)
    done = run_load(bench.tools, subject.port, request, LATENCY_RATE, seconds, on=bench.cores.rest)
    _refuse_errors(subject, done["errors"], done["requests"])
    return {"p50_us": done["p50_us"], "p99_us": done["p99_us"]}


def take_memory(bench: Bench, subject: Running, _case: str, _round: int) -> Figures:
    """Return the memory of a worker, idle and behind a load, and of all processes."""
    time.sleep(0.5)
    figures = _memory("idle", subject)
    for size in ("1 KB", "32 KB"):
        request = subject.wire(chat_body(size))
        run_wrk(bench.tools, subject.port, request, connections=RATE_CONNECTIONS, seconds=2, on=bench.cores.rest)
    return {**figures, **_memory("after", subject)}


def _memory(when: str, subject: Running) -> dict[str, float]:
    workers = subject.workers()
    each = [processes.memory_of([worker]) for worker in workers]
    whole = processes.memory_of(subject.tree())
    return {
        f"{when}_rss": statistics.mean(memory.rss for memory in each),
        f"{when}_pss": statistics.mean(memory.pss for memory in each),
        f"{when}_whole_pss": whole.pss,
        "workers": len(workers),
    }


def take_start(_bench: Bench, subject: Running, _case: str, _round: int) -> Figures:
    """Return how long the subject took from its start to its first answer."""
    return {"seconds": subject.start_seconds}


def take_streams(bench: Bench, subject: Running, case: str, number: int) -> Figures:
    """Return of so many streams at once when chunks come, and what a chunk and a stream cost."""
    count, tree = int(case), subject.tree()
    if count > bench.saturated.get(subject.name, count):
        raise SubjectError(f"{SATURATED} by {bench.saturated[subject.name]} streams")
    request = subject.wire(directed_body(0, chunks=ENDLESS, gap_us=1_000_000 // CHUNKS_A_SECOND))
    if subject.name not in bench.rested:
        _open_stream(subject, request).close()
        _run_streams(bench, subject, request, WARM_STREAMS, 0.5, lambda *_: None)
        bench.rested[subject.name] = processes.resident_of(tree)
    seen: list[tuple[float, int, int]] = []

    def note(_open: int, chunks: int) -> None:
        seen.append((processes.cpu_seconds(tree), chunks, processes.resident_of(tree)))

    seconds = bench.seconds(4, 2)
    done = _run_streams(bench, subject, request, count, seconds, note)
    _wait_until_calm(tree)
    chunks = seen[-1][1] - seen[0][1]
    expected = count * CHUNKS_A_SECOND * seconds
    if done["p99_us"] > SATURATED_SECONDS * 1e6 or chunks < expected / 2:
        bench.saturated[subject.name] = count
    if not chunks:
        raise SubjectError(f"no chunks came of {count} streams, {done['errors']} of which failed")
    figures = {name: done[name] for name in ("first_p50_us", "first_p99_us", "p50_us", "p99_us", "max_us", "errors")}
    figures["cpu_us"] = (seen[-1][0] - seen[0][0]) / chunks * 1e6
    figures["share_of_chunks"] = chunks / expected
    if number == 0:  # later what earlier streams took is still there
        most = max(resident for _, _, resident in seen)
        figures["bytes_a_stream"] = (most - bench.rested[subject.name]) / max(1, count - done["errors"])
    return figures


def _run_streams(  # noqa: PLR0913, PLR0917 - a load has many sides
    bench: Bench, subject: Running, request: bytes, count: int, seconds: float, note: Callable[[int, int], None]
) -> dict[str, float]:
    on = bench.cores.rest
    return watch_streams(bench.tools, subject.port, request, count=count, seconds=seconds, on=on, note=note)


def _wait_until_calm(tree: list[int]) -> None:
    """Wait until the leaving of many clients is worked off, but not for ever."""
    for _ in range(int(CALM_SECONDS / 0.1)):
        before = processes.cpu_seconds(tree)
        time.sleep(0.1)
        if processes.cpu_seconds(tree) - before < CALM_SHARE * 0.1:
            return


def take_leaving(bench: Bench, subject: Running, case: str, _round: int) -> Figures:
    """Return how soon the engine's connection is closed when the client leaves; infinite where it never is."""
    found: list[float] = []
    chance = random.Random(1)
    for _ in range(int(bench.seconds(12, 5))):
        found.append(_leave(bench, subject, case, chance.uniform(0.005, 0.02)))
        if found[-NEVERS:] == [float("inf")] * NEVERS:
            break
    found.sort()
    return {"median_ms": found[len(found) // 2], "max_ms": found[-1], "clients": len(found)}


def _leave(bench: Bench, subject: Running, case: str, pause: float) -> float:
    number = next(bench.numbers)
    if case == IN_WAITING:
        body = directed_body(number, chunks=0, wait_ms=60_000)
    else:
        body = directed_body(number, chunks=ENDLESS, gap_us=5_000 if case == IN_STREAM else 60_000_000)
    with _sent(subject, subject.wire(body)) if case == IN_WAITING else _open_stream(subject, subject.wire(body)):
        if bench.engine.wait_for("begun", number, PATIENCE_SECONDS) is None:
            raise SubjectError("the request did not reach the engine")
        time.sleep(pause)
        left = time.monotonic_ns()
    gone = bench.engine.wait_for("gone", number, LEAVING_SECONDS)
    return float("inf") if gone is None else max(0.0, (gone - left) / 1e6)


def _sent(subject: Running, request: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", subject.port), PATIENCE_SECONDS)
    client.sendall(request)
    return client


def _open_stream(subject: Running, request: bytes) -> socket.socket:
    """Return the connection of a stream whose first chunk has come."""
    client = _sent(subject, request)
    seen = b""
    while b"@t" not in seen:
        piece = client.recv(65536)
        if not piece or b" 200 " not in (seen + piece)[:16]:
            client.close()
            status = (seen + piece).split(b"\r\n")[0].decode(errors="replace")
            raise SubjectError(f"a stream is answered with {status or 'nothing'}")
        seen += piece
    return client


def _refuse_errors(subject: Running, errors: int, requests: int) -> None:
    subject.tree()
    if not requests or errors > MAX_ERRORS * requests:
        raise SubjectError(f"{errors} of {requests} requests failed")


MEASURES: Final = (
    Measure("cpu", CPU_BODIES, 5, 6.5, take_cpu),
    Measure("forms", FORMS, 5, 3.0, take_form, subjects=(*PROXIES, PEER, OURS_ON, BARE)),
    Measure("latency", (f"{LATENCY_RATE}/s",), 5, 3.5, take_latency, with_engine=True),
    Measure("streams", STREAM_CASES, 3, 6.5, take_streams, most_streams=max(STREAMS), every_preset=False),
    Measure(
        "edited streams", STREAM_CASES[-1:], 3, 0.8, take_streams, most_streams=max(STREAMS), subjects=(PEER, EDITED)
    ),
    Measure("leaving", LEAVING_CASES, 3, 2.0, take_leaving, most_streams=max(STREAMS), every_preset=False),
    Measure("rate", ("1 KB",), 5, 2.0, take_rate, workers=2, apart=False),
    Measure("balance", BALANCE_CASES, 5, 0.7, take_balance, workers=2, apart=False, subjects=("nginx", OURS_ON)),
    Measure("large", (LARGE_CASE,), 3, 1.5, take_large, workers=2, apart=False, subjects=(*PROXIES, PEER, EDITED)),
    Measure("memory", ("two workers",), 1, 1.5, take_memory, workers=2, apart=False, fresh=True),
    Measure("start", ("one worker",), 3, 1.5, take_start, fresh=True),
    Measure("tls", (TLS,), 5, 0.6, take_form, subjects=(*PROXIES, OURS_ON, BARE), speaks_tls=True),
)
"""In the order in which they are taken; the share is in minutes of a full run."""


def raise_descriptor_limit() -> None:
    """Let this process and all that it starts open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def come_first() -> None:
    """Let this process and all that it starts come before other work of the machine, where the system allows that."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, MOST_URGENT)


def load_average() -> float:
    """Return how many processes wanted to run in the last minute, on average."""
    return os.getloadavg()[0]
