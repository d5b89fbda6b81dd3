"""A soak: `python -m tests.bench.soak --minutes 10`.

The router with two workers under our gunicorn conf, in front of four engines, each a process that is killed, told to
stop or frozen every few seconds and brought back on its port. Clients ask at half of what the machine takes; a tenth
leaves. gunicorn gets a HUP every minute. Every answer carries a nonce and is judged, every nonce is counted at the
engines, and memory, threads and descriptors are looked at every 5 seconds. Exit code 1 when anything is wrong.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection
from router.artifact.format import serialise
from tests.bench.soak.chaos import Chaos, EngineProcess
from tests.bench.soak.judging import Judgement, judge, told_in
from tests.bench.soak.samples import MetricSample, Sampler, by_minute, flatness, looked_at
from tests.bench.soak.talk import ALIAS
from tests.checkout import CHECKOUT
from tests.router.process import children_of
from tests.router.serving import RunningRouter, launch, wait_until

WORKERS = 2
CONF = ("-c", "python:router.gunicorn_conf", "--workers", str(WORKERS))
SETTINGS = {"ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS": "3", "ROUTER_UPSTREAM_IDLE_TIMEOUT_SECONDS": "3"}
ENGINES = 4
LOADERS = 2
THREADS = 64
"""Clients of one process: together fewer than a worker takes at once, should they all wait for a frozen engine."""
CALIBRATION_SECONDS = 6.0
CALIBRATION_THREADS = 48
SETTLE_SECONDS = 60.0
SHOWN_FAULTS = 40


def profile_in(folder: Path) -> Path:
    """Write the artifact of moonshot-kimi with an alias."""
    source = folder / "profile.yaml"
    source.write_text(f"extends: moonshot-kimi\nmodels: {{aliases: [{ALIAS}]}}\n")
    artifact = folder / "profile.json"
    artifact.write_bytes(serialise(compile_profile(Selection("file", str(source), "soak")).artifact))
    return artifact


def loaders(folder: Path, stage: str, router: RunningRouter, **fields: float) -> list["subprocess.Popen[bytes]"]:
    """Start the processes of clients."""
    started = []
    for number in range(LOADERS):
        name = f"{stage}{number}"
        load = {"name": name, "port": router.port, "out": str(folder / f"told-{name}.jsonl"), **fields}
        command = [sys.executable, "-m", "tests.bench.soak.load", json.dumps(load)]
        started.append(subprocess.Popen(command, cwd=CHECKOUT))
    return started


def finish(processes: list["subprocess.Popen[bytes]"]) -> None:
    """Wait for clients to come to their end."""
    for process in processes:
        process.wait()
        assert process.returncode == 0


def capacity(folder: Path, router: RunningRouter, seed: int) -> float:
    """Return how many requests a second come through when clients ask as fast as they can."""
    fields = {"threads": CALIBRATION_THREADS, "rate": 0, "seconds": CALIBRATION_SECONDS, "seed": seed}
    finish(loaders(folder, "calibration", router, **fields))
    return len(told_in(folder.glob("told-calibration*"))) / CALIBRATION_SECONDS


def reload_every(seconds: float, router: RunningRouter, over: threading.Event) -> threading.Thread:
    """Send HUPs until it is over."""

    def run() -> None:
        while seconds and not over.wait(seconds):
            router.signal(signal.SIGHUP)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def settled(router: RunningRouter, start: list[MetricSample]) -> list[MetricSample]:
    """Return the idle workers at the end, once they have no more descriptors than at the start, or time is up."""
    most = max(sample.descriptors for sample in start)
    ends = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            now = [looked_at(worker) for worker in children_of(router.process.pid)]
        except (OSError, ValueError):
            continue
        is_back = len(now) == WORKERS and max(sample.descriptors for sample in now) <= most
        if is_back or time.monotonic() > ends:
            return now
        time.sleep(0.5)


def by_generation(samples: list[MetricSample]) -> str:
    """Return the memory that workers had at the same age, from the first generation to the last."""
    ages: dict[int, list[float]] = {}
    for sample in samples:
        if 20 <= sample.age < 55:
            ages.setdefault(sample.process, []).append(sample.mib)
    found = [statistics.median(values) for values in ages.values()]
    each = [max(found[number : number + WORKERS]) for number in range(0, len(found), WORKERS)]
    return ", ".join(f"{value:.1f}" for value in each)


def log_rows(lines: list[str]) -> list[tuple[str, str]]:
    """Return what the router's log said that is worse than a warning, counted."""
    bad = [line for line in lines if re.search(r"Traceback|\[ERROR\]|\[CRITICAL\]", line)]
    kinds = Counter(re.sub(r"[\d:.]+", "#", line.partition("]")[2].strip())[:120] for line in bad)
    return [(f"log: {kind}", str(count)) for kind, count in kinds.most_common(8)] or [("errors in the log", "none")]


def table(rows: list[tuple[str, str]]) -> None:
    """Print rows as Markdown."""
    print("\n| what | figure |\n|---|---|")
    for what, figure in rows:
        print(f"| {what} | {figure} |")


def rows_of(judgement: Judgement) -> list[tuple[str, str]]:
    """Return the rows of a judgement."""
    rows = [(kind, str(count)) for kind, count in judgement.counts.most_common()]
    rows += [(f"requests that engines read: {what}", str(count)) for what, count in judgement.reads.most_common()]
    return [*rows, ("faults", f"**{len(judgement.faults)}**")]


def soak(options: argparse.Namespace, folder: Path, stack: ExitStack) -> bool:
    """Run it all, print what was found, and tell whether nothing is wrong."""
    chance = random.Random(options.seed)
    seconds = options.minutes * 60
    engines = [EngineProcess(folder, number, chance) for number in range(ENGINES)]
    for engine in engines:
        stack.callback(engine.kill)
        engine.wait_until_up()
    environment = {"ROUTER_ENGINES": ",".join(engine.url for engine in engines), **SETTINGS}
    environment["ROUTER_PROFILE"] = str(profile_in(folder))
    access_log = os.open(folder / "access.log", os.O_WRONLY | os.O_CREAT)
    router = stack.enter_context(RunningRouter(launch(environment, CONF, stdout=access_log)))
    router.wait_until_ready()
    master = router.process.pid
    wait_until(lambda: len(children_of(master)) == WORKERS)
    time.sleep(3)  # what start-up needs for a moment is gone
    start = [looked_at(worker) for worker in children_of(master)]
    start_of_master = looked_at(master)
    most = capacity(folder, router, options.seed)
    print(f"seed {options.seed}, {most:.0f} requests/s at most, {most / 2:.0f} from here on", flush=True)

    chaos = Chaos(engines, options.every, chance)
    sampler = Sampler(master)
    over = threading.Event()
    fields = {"threads": THREADS, "rate": most / 2 / LOADERS, "seconds": seconds, "seed": options.seed}
    running = loaders(folder, "soak", router, **fields)
    sampler.start()
    chaos.start()
    reloads = reload_every(options.reload, router, over)
    finish(running)
    chaos.stop()
    over.set()
    reloads.join()
    sampler.stop()
    end = settled(router, start)
    end_of_master = looked_at(master)

    told = told_in(folder.glob("told-soak*"))
    judgement = judge([*told_in(folder.glob("told-calibration*")), *told], engines)
    for fault in judgement.faults[:SHOWN_FAULTS]:
        print(f"FAULT {fault}")
    settle = max(sample.descriptors for sample in end) <= max(sample.descriptors for sample in start)
    table(
        [
            ("minutes, seed", f"{options.minutes:g}, {options.seed}"),
            ("requests a second: at most, in the soak", f"{most:.0f}, {len(told) / seconds:.0f}"),
            *rows_of(judgement),
            ("disturbances", ", ".join(f"{count} {what}" for what, count in chaos.counts.items() if count)),
            *flatness("master", sampler.of_master, seconds),
            *flatness("workers", sampler.of_workers, seconds),
            ("workers: memory by minute (MiB)", by_minute(sampler.of_workers, seconds)),
            ("memory of workers 20 to 55 s old, by generation (MiB)", by_generation(sampler.of_workers)),
            ("idle workers, start → end: descriptors", f"{_of(start, 5)} → {_of(end, 5)}"),
            ("idle workers, start → end: threads", f"{_of(start, 4)} → {_of(end, 4)}"),
            ("idle workers, start → end: memory (MiB)", f"{_of(start, 3)} → {_of(end, 3)}"),
            ("idle master, start → end", f"{_of([start_of_master], 5)} → {_of([end_of_master], 5)} descriptors"),
            *log_rows(router.lines),
        ]
    )
    if not settle:
        print("\nopen at the end:", *(_open_in(sample.process) for sample in end), sep="\n")
    if options.keep_log:
        Path(options.keep_log).write_text(router.log())
    return settle and not judgement.faults


def _of(samples: list[MetricSample], field: int) -> str:
    return "/".join(f"{round(sample[field])}" for sample in samples)


def _open_in(process: int) -> Counter[str]:
    links = Path(f"/proc/{process}/fd").iterdir()
    return Counter(re.sub(r"\d+", "#", str(link.readlink())) for link in links)


def main(arguments: Sequence[str] | None = None) -> None:
    """Soak, and exit with 1 when anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=float, default=3, help="mean seconds between two disturbances")
    parser.add_argument("--reload", type=float, default=60, help="seconds between two HUPs; 0: none")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--keep-log", help="file for the router's log")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        is_good = soak(options, Path(folder), stack)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
