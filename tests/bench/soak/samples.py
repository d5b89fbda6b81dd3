"""What the system tells of a router's processes while it runs, and whether that stays flat."""

import statistics
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from tests.router.process import children_of, descriptors, resident_bytes, threads

EVERY_SECONDS = 5.0
FLAT = {"memory (MiB)": 1.1, "threads": 1.3, "descriptors": 1.3}
"""How much more there may be late than early; threads and descriptors follow what happens to engines at the time."""
MIB = 1 << 20


class MetricSample(NamedTuple):
    """One look at one process; `at` counts seconds from the start of the load, `age` from the first look at it."""

    at: float
    process: int
    age: float
    mib: float
    threads: int
    descriptors: int


def looked_at(process: int, at: float = 0.0, age: float = 0.0) -> MetricSample:
    """Look at a process."""
    return MetricSample(at, process, age, resident_bytes(process) / MIB, threads(process), descriptors(process))


class Sampler:
    """Looks every few seconds at a master and its workers."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.of_master: list[MetricSample] = []
        self.of_workers: list[MetricSample] = []
        self._first_seen: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            now = time.monotonic() - self._began
            self.of_master.append(looked_at(self._master, now))
            for worker in children_of(self._master):
                first = self._first_seen.setdefault(worker, now)
                # One that a reload replaced may end at any moment.
                with suppress(OSError, ValueError):
                    self.of_workers.append(looked_at(worker, now, now - first))


def medians(samples: Iterable[MetricSample], begin: float, end: float) -> tuple[float, float, float]:
    """Return the medians of memory in MiB, threads and descriptors of what was seen in a span."""
    seen = [sample for sample in samples if begin <= sample.at < end]
    if not seen:
        return (0.0, 0.0, 0.0)
    return (
        statistics.median(sample.mib for sample in seen),
        statistics.median(sample.threads for sample in seen),
        statistics.median(sample.descriptors for sample in seen),
    )


def by_minute(samples: list[MetricSample], seconds: float) -> str:
    """Return the median memory in MiB of each minute."""
    return ", ".join(f"{medians(samples, begin, begin + 60)[0]:.0f}" for begin in range(0, int(seconds), 60))


def flatness(who: str, samples: list[MetricSample], seconds: float) -> list[tuple[str, str]]:
    """Return rows that compare an early span with a late one of the same length: minute 2 to 3 with the last two."""
    span = min(120.0, seconds / 3)
    early = medians(samples, span / 2, span * 3 / 2)
    late = medians(samples, seconds - span, seconds)
    rows = []
    for number, what in enumerate(FLAT):
        ratio = late[number] / early[number] if early[number] else 0.0
        verdict = "flat" if ratio <= FLAT[what] else "**grows**"
        rows.append((f"{who}: {what}, early → late", f"{early[number]:.1f} → {late[number]:.1f} ({verdict})"))
    return rows
