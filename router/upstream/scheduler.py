"""The scheduler of health checks: when each engine is checked next, with a bounded number of checks at a time."""

import heapq
import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

MAX_CHECKS: Final = 128
"""Most checks that run at once, each in a thread of its own."""
MAX_SUSPECT_CHECKS: Final = 96
"""Most of them that are not of healthy engines, which are thus checked in time however many others are silent."""
MAX_FAILED_CHECKS: Final = 64
"""Most of them that are of engines whose last check failed: those that join or are needed now find a place."""


class _Kind(Enum):
    """What the last check says of the next one."""

    HEALTHY = auto()
    """It will not take long."""
    NEW = auto()
    """The engine has just joined, or a request shows that it should be checked now: it comes before all others."""
    FAILED = auto()
    """It may take as long as its timeout."""


class _ScheduledCheck(NamedTuple):
    """A check in its queue, in the order of its fields."""

    due: float
    batch: int
    number: int
    engine: str


class CheckScheduler:
    """The engines that are checked, each with the time of its next check. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._all_checked = threading.Condition(lock)
        self._numbers = itertools.count()
        self._scheduled: dict[str, _ScheduledCheck] = {}
        self._queues: dict[_Kind, list[_ScheduledCheck]] = {kind: [] for kind in _Kind}
        self._running: dict[str, _Kind] = {}
        self._recheck: set[str] = set()
        self._engines: set[str] = set()
        self._unchecked: set[str] = set()
        self._failed: set[str] = set()

    def add(self, engines: Iterable[str]) -> None:
        """Add engines; they are checked at once, before those that were added earlier and still wait."""
        with self._changed:
            batch = -next(self._numbers)
            for engine in engines:
                self._engines.add(engine)
                self._unchecked.add(engine)
                self._schedule_now(engine, _Kind.NEW, batch)

    def remove(self, engines: Iterable[str]) -> None:
        """Remove engines; a check that is running is the last."""
        with self._changed:
            for engine in engines:
                self._engines.discard(engine)
                self._scheduled.pop(engine, None)
                self._recheck.discard(engine)
                self._unchecked.discard(engine)
                self._failed.discard(engine)
            self._notify()

    def schedule_now(self, engine: str, *, is_suspect: bool) -> None:
        """Schedule a check of an engine now, or right after the one that is running."""
        with self._changed:
            if engine in self._engines:
                self._schedule_now(engine, _Kind.NEW if is_suspect else _Kind.HEALTHY)

    def wait_for_next(self) -> str:
        """Wait until the next check may begin and return its engine; the caller has to call `finish`."""
        with self._changed:
            while True:
                first = self._first()
                now = self._clock()
                if first is not None and first.due <= now:
                    return self._start(first)
                self._changed.wait(None if first is None else first.due - now)

    def next_due(self) -> str | None:
        """Return the engine of the next check if one may begin now, as `wait_for_next` does; None otherwise."""
        with self._changed:
            first = self._first()
            return self._start(first) if first is not None and first.due <= self._clock() else None

    def _first(self) -> _ScheduledCheck | None:
        return min((queue[0] for queue in self._runnable_queues()), default=None)

    def finish(self, engine: str, seconds: float, *, is_suspect: bool, is_checked: bool = True) -> None:
        """Record the end of a check; the next one comes in `seconds`, or now if `schedule_now` was called meanwhile.

        `is_checked` is False for a check that was given up early and says nothing.
        """
        with self._changed:
            del self._running[engine]
            if engine in self._engines:
                is_hastened = engine in self._recheck
                self._recheck.discard(engine)
                if is_checked:
                    self._unchecked.discard(engine)
                (self._failed.add if is_suspect else self._failed.discard)(engine)
                kind = _Kind.FAILED if is_suspect else _Kind.HEALTHY
                self._put(engine, self._clock() + (0.0 if is_hastened else seconds), kind)
            self._notify()

    def is_first(self, engine: str) -> bool:
        """Return whether a check that runs is the first one of its engine."""
        with self._changed:
            return engine in self._unchecked and self._running.get(engine) is _Kind.NEW

    def failed_count(self) -> int:
        """Return how many engines failed their last check."""
        return len(self._failed)

    def is_idle(self) -> bool:
        """Return whether no check runs or is due."""
        with self._changed:
            due = (queue[0].due for queue in self._queues.values() if self._drop_stale(queue))
            return not self._running and min(due, default=math.inf) > self._clock()

    def wait_until_all_checked(self, seconds: float) -> None:
        """Return once each engine was checked, or after `seconds`."""
        with self._all_checked:
            self._all_checked.wait_for(lambda: not self._unchecked, seconds)

    def _notify(self) -> None:
        self._changed.notify_all()
        if not self._unchecked:
            self._all_checked.notify_all()

    def _schedule_now(self, engine: str, kind: _Kind, batch: int = 0) -> None:
        if engine in self._running:
            self._recheck.add(engine)
        elif engine not in self._scheduled or self._scheduled[engine].due > self._clock():
            self._put(engine, -math.inf if kind is _Kind.NEW else self._clock(), kind, batch)
            self._changed.notify_all()

    def _put(self, engine: str, due: float, kind: _Kind, batch: int = 0) -> None:
        check = _ScheduledCheck(due, batch, next(self._numbers), engine)
        self._scheduled[engine] = check
        heapq.heappush(self._queues[kind], check)

    def _start(self, check: _ScheduledCheck) -> str:
        kind = next(kind for kind, queue in self._queues.items() if queue[:1] == [check])
        heapq.heappop(self._queues[kind])
        del self._scheduled[check.engine]
        self._running[check.engine] = kind
        return check.engine

    def _runnable_queues(self) -> list[list[_ScheduledCheck]]:
        """Return the queues that have a check and may start one more."""
        if len(self._running) >= MAX_CHECKS:
            return []
        running = Counter(self._running.values())
        may_start_suspect = running[_Kind.NEW] + running[_Kind.FAILED] < MAX_SUSPECT_CHECKS
        is_open = {
            _Kind.HEALTHY: True,
            _Kind.NEW: may_start_suspect,
            _Kind.FAILED: may_start_suspect and running[_Kind.FAILED] < MAX_FAILED_CHECKS,
        }
        return [queue for kind, queue in self._queues.items() if is_open[kind] and self._drop_stale(queue)]

    def _drop_stale(self, queue: list[_ScheduledCheck]) -> list[_ScheduledCheck]:
        # A check that was rescheduled or removed stays in its queue until it is the first.
        while queue and self._scheduled.get(queue[0].engine) is not queue[0]:
            heapq.heappop(queue)
        return queue
