"""When each engine is looked at next, and which may be looked at now: a few looks at a time, however many engines."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MOST_LOOKS: Final = 128
"""How many looks are under way at most, each in a thread of its own."""
MOST_DOUBTFUL_LOOKS: Final = 96
"""How many of them are at engines in doubt, which may stay silent: the others are looked at in time all the same."""


class _Turn(NamedTuple):
    due: float
    number: int
    engine: str


class Schedule:
    """The engines that are looked at, each with its next turn. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._turns: dict[str, _Turn] = {}
        self._queues: dict[bool, list[_Turn]] = {False: [], True: []}
        self._running: dict[str, bool] = {}
        self._hastened: set[str] = set()
        self._members: set[str] = set()
        self._done: set[str] = set()

    def join(self, engines: Iterable[str]) -> None:
        """Take engines in; they are in doubt, and due at once."""
        with self._changed:
            for engine in engines:
                self._members.add(engine)
                self._hasten(engine, is_doubtful=True)

    def leave(self, engines: Iterable[str]) -> None:
        """Forget engines; a look that is under way is the last."""
        with self._changed:
            for engine in engines:
                self._members.discard(engine)
                self._turns.pop(engine, None)
                self._hastened.discard(engine)
                self._done.discard(engine)
            self._changed.notify_all()

    def hasten(self, engine: str, *, is_doubtful: bool) -> None:
        """Let an engine have its turn now, or once more when the look under way is over."""
        with self._changed:
            if engine in self._members:
                self._hasten(engine, is_doubtful=is_doubtful)

    def begin(self) -> str:
        """Wait until an engine is due and may be looked at, and return it; the look has to be ended."""
        with self._changed:
            while True:
                first = min((queue[0] for queue in self._open_queues()), default=None)
                now = self._clock()
                if first is not None and first.due <= now:
                    return self._begin(first)
                self._changed.wait(None if first is None else first.due - now)

    def end(self, engine: str, seconds: float, *, is_doubtful: bool) -> None:
        """End a look; the engine's next turn comes in `seconds`, or at once where that was asked for meanwhile."""
        with self._changed:
            del self._running[engine]
            if engine in self._members:
                is_hastened = engine in self._hastened
                self._hastened.discard(engine)
                self._done.add(engine)
                self._put(engine, self._clock() + (0.0 if is_hastened else seconds), is_doubtful=is_doubtful)
            self._changed.notify_all()

    def wait_until_all_were_looked_at(self, seconds: float) -> None:
        """Return once each engine was looked at, or after some seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._members <= self._done, seconds)

    def _hasten(self, engine: str, *, is_doubtful: bool) -> None:
        if engine in self._running:
            self._hastened.add(engine)
        elif engine not in self._turns or self._turns[engine].due > self._clock():
            self._put(engine, self._clock(), is_doubtful=is_doubtful)
            self._changed.notify_all()

    def _put(self, engine: str, due: float, *, is_doubtful: bool) -> None:
        turn = _Turn(due, next(self._numbers), engine)
        self._turns[engine] = turn
        heapq.heappush(self._queues[is_doubtful], turn)

    def _begin(self, turn: _Turn) -> str:
        is_doubtful = self._queues[True][:1] == [turn]
        heapq.heappop(self._queues[is_doubtful])
        del self._turns[turn.engine]
        self._running[turn.engine] = is_doubtful
        return turn.engine

    def _open_queues(self) -> list[list[_Turn]]:
        """Return the queues that have a turn and of which one more may be looked at."""
        if len(self._running) >= MOST_LOOKS:
            return []
        is_open = {False: True, True: sum(self._running.values()) < MOST_DOUBTFUL_LOOKS}
        return [queue for is_doubtful, queue in self._queues.items() if is_open[is_doubtful] and self._cleared(queue)]

    def _cleared(self, queue: list[_Turn]) -> list[_Turn]:
        # A turn that was put anew or taken back stays in its queue until it is the first.
        while queue and self._turns.get(queue[0].engine) is not queue[0]:
            heapq.heappop(queue)
        return queue
