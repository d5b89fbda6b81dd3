"""The scheduler of health checks: when each engine is checked next, with a bounded number of checks at a time."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MAX_CHECKS: Final = 128
"""Most checks that run at once, each in a thread of its own."""
MAX_SUSPECT_CHECKS: Final = 96
"""Most of them that are of suspect engines, which may be silent, so that all others are checked in time."""


class _ScheduledCheck(NamedTuple):
    due: float
    number: int
    engine: str


class CheckScheduler:
    """The engines that are checked, each with the time of its next check. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._scheduled: dict[str, _ScheduledCheck] = {}
        self._queues: dict[bool, list[_ScheduledCheck]] = {False: [], True: []}
        self._running: dict[str, bool] = {}
        self._recheck: set[str] = set()
        self._engines: set[str] = set()
        self._checked: set[str] = set()

    def add(self, engines: Iterable[str]) -> None:
        """Add engines; they are suspect, and are checked at once."""
        with self._changed:
            for engine in engines:
                self._engines.add(engine)
                self._schedule_now(engine, is_suspect=True)

    def remove(self, engines: Iterable[str]) -> None:
        """Remove engines; a check that is running is the last."""
        with self._changed:
            for engine in engines:
                self._engines.discard(engine)
                self._scheduled.pop(engine, None)
                self._recheck.discard(engine)
                self._checked.discard(engine)
            self._changed.notify_all()

    def schedule_now(self, engine: str, *, is_suspect: bool) -> None:
        """Schedule a check of an engine now, or right after the one that is running."""
        with self._changed:
            if engine in self._engines:
                self._schedule_now(engine, is_suspect=is_suspect)

    def wait_for_next(self) -> str:
        """Wait until the next check may begin and return its engine; the caller has to call `finish`."""
        with self._changed:
            while True:
                first = min((queue[0] for queue in self._runnable_queues()), default=None)
                now = self._clock()
                if first is not None and first.due <= now:
                    return self._start(first)
                self._changed.wait(None if first is None else first.due - now)

    def finish(self, engine: str, seconds: float, *, is_suspect: bool) -> None:
        """Record the end of a check; the next one comes in `seconds`, or now if `schedule_now` was called meanwhile."""
        with self._changed:
            del self._running[engine]
            if engine in self._engines:
                is_hastened = engine in self._recheck
                self._recheck.discard(engine)
                self._checked.add(engine)
                self._put(engine, self._clock() + (0.0 if is_hastened else seconds), is_suspect=is_suspect)
            self._changed.notify_all()

    def wait_until_all_checked(self, seconds: float) -> None:
        """Return once each engine was checked, or after `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._engines <= self._checked, seconds)

    def _schedule_now(self, engine: str, *, is_suspect: bool) -> None:
        if engine in self._running:
            self._recheck.add(engine)
        elif engine not in self._scheduled or self._scheduled[engine].due > self._clock():
            self._put(engine, self._clock(), is_suspect=is_suspect)
            self._changed.notify_all()

    def _put(self, engine: str, due: float, *, is_suspect: bool) -> None:
        turn = _ScheduledCheck(due, next(self._numbers), engine)
        self._scheduled[engine] = turn
        heapq.heappush(self._queues[is_suspect], turn)

    def _start(self, turn: _ScheduledCheck) -> str:
        is_doubtful = self._queues[True][:1] == [turn]
        heapq.heappop(self._queues[is_doubtful])
        del self._scheduled[turn.engine]
        self._running[turn.engine] = is_doubtful
        return turn.engine

    def _runnable_queues(self) -> list[list[_ScheduledCheck]]:
        """Return the queues that have a check and may start one more."""
        if len(self._running) >= MAX_CHECKS:
            return []
        is_open = {False: True, True: sum(self._running.values()) < MAX_SUSPECT_CHECKS}
        return [
            queue for is_doubtful, queue in self._queues.items() if is_open[is_doubtful] and self._drop_stale(queue)
        ]

    def _drop_stale(self, queue: list[_ScheduledCheck]) -> list[_ScheduledCheck]:
        # A check that was rescheduled or removed stays in its queue until it is the first.
        while queue and self._scheduled.get(queue[0].engine) is not queue[0]:
            heapq.heappop(queue)
        return queue
