"""CPU per request and memory per worker: `python -m tests.bench.cost`.

Each setup runs one gunicorn worker with our conf, asked over kept-alive connections; CPU is read from the worker
process, which is steadier than requests per second on a shared machine. The setups take turns over several rounds; the
medians and the ratio to gunicorn alone, run beside them, are printed.
"""

import argparse
import http.client
import json
import os
import statistics
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection
from router.artifact.format import serialise
from router.mock_engine import MockEngine
from tests.router.process import children_of, resident_bytes
from tests.router.serving import RunningRouter, launch, running_router

TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20
CONF = ("-c", "python:router.gunicorn_conf", "--workers", "1")
CLIENTS = 4


def body_of(size: int) -> bytes:
    """Return a chat request of about this many bytes, in messages of 300 characters."""
    count = max(1, size // 340)
    messages = [{"role": "user", "content": "x" * 300} for _ in range(count)]
    return json.dumps({"model": "served", "messages": messages, "temperature": 0.6}).encode()


@contextmanager
def setups(folder: Path, engine_url: str) -> Iterator[dict[str, RunningRouter]]:
    """Run gunicorn alone, the router without a contract and the router with one."""
    with ExitStack() as stack:
        running = {
            "gunicorn alone": stack.enter_context(
                RunningRouter(launch({"ROUTER_ENGINES": engine_url}, CONF, "tests.bench.floor:application"))
            )
        }
        for preset in ("openai-compatible", "moonshot-kimi"):
            artifact = folder / f"{preset}.json"
            artifact.write_bytes(serialise(compile_profile(Selection("preset", preset, "bench")).artifact))
            running[preset] = stack.enter_context(running_router(artifact, [engine_url], arguments=CONF))
        yield running


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def worker_of(router: RunningRouter) -> int:
    """Return the process id of the only worker."""
    (worker,) = children_of(router.process.pid)
    return worker


def ask(port: int, body: bytes, count: int) -> None:
    """Send a request so many times from a few clients at once; every answer must be a 200."""

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(count // CLIENTS):
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(running: dict[str, RunningRouter], body: bytes, count: int, rounds: int) -> dict[str, list[float]]:
    """Return for each setup the µs of CPU per request of each round."""
    costs: dict[str, list[float]] = {name: [] for name in running}
    for number in range(rounds + 1):
        for name, router in running.items():
            worker = worker_of(router)
            before = cpu_seconds(worker)
            ask(router.port, body, count)
            if number:  # the first round warms up
                costs[name].append((cpu_seconds(worker) - before) / count * 1e6)
    return costs


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="requests of a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder, MockEngine(models=("served",)) as engine:
        engine.recording = False
        with setups(Path(folder), engine.url) as running:
            print("| body | setup | µs of CPU per request (min to max) | ratio to gunicorn alone |\n|---|---|---|---|")
            for size in (1024, 32 * 1024, 1024 * 1024):
                count = max(CLIENTS, options.count // max(1, size // 8192))
                costs = measure(running, body_of(size), count, options.rounds)
                floor = statistics.median(costs["gunicorn alone"])
                for name, cost in costs.items():
                    median = statistics.median(cost)
                    spread = f"{median:.0f} ({min(cost):.0f} to {max(cost):.0f})"
                    print(f"| {size // 1024} KiB | {name} | {spread} | {median / floor:.1f} |")
            for name, router in running.items():
                print(f"\nmemory of one worker, {name}: {resident_bytes(worker_of(router)) / MIB:.1f} MiB", end="")
    print()


if __name__ == "__main__":
    main()
