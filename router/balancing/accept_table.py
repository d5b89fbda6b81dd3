"""Which worker accepts the next connection: all listen on one socket, and the system always wakes the same one first.

Clients keep their connections, so an uneven start stays uneven. Each worker shows in a shared table how many it has
open. One that has more than its share leaves the next connection to the others, unless they stall.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from router.runtime.worker_table import MAX_COUNT, WorkerTable

MAX_WAIT_SECONDS: Final = 0.05
"""How long a worker leaves a connection to others of which none accepts."""
PAUSE_SECONDS: Final = 0.001
"""How long a worker does not poll its listening sockets before it decides again."""
BEAT_SECONDS: Final = 1.0
"""How often a worker without new connections shows that it runs."""
TOLERANCE: Final = 16
"""A worker may have a sixteenth more connections than the one with the fewest: accepting in turns takes time."""

_OPEN: Final = 0
_TURNS: Final = 1
_COLUMNS: Final = 2


class AcceptRow(NamedTuple):
    """What a worker shows to the others."""

    open: int
    """How many connections it has open."""
    turns: int
    """How often it was ready to accept: a number that stays the same while the worker stalls; 0 if it accepts none."""


class _Wait(NamedTuple):
    """A wait for one worker that has fewer connections: until the deadline, then for the next so many accepts not."""

    turns: int
    deadline: float
    size: int = 1
    left: int = 1

    def after_accept(self, now: float) -> "_Wait":
        """Return the wait after a connection was accepted instead."""
        if self.left > 1:
            return self._replace(left=self.left - 1)
        size = 2 * self.size
        return _Wait(self.turns, now + MAX_WAIT_SECONDS, size, size)


class AcceptPolicy:
    """Decides whether one worker accepts, from what the others show. Pure: it reads no clock and no memory."""

    def __init__(self) -> None:
        self._waits: dict[int, _Wait] = {}
        """The waits by row."""

    def accepts(self, open_here: int, others: Mapping[int, AcceptRow], now: float) -> bool:
        """Return whether a worker with so many open connections accepts now; `others` are by row, `now` in seconds.

        It waits for each that has fewer. After a wait in which that one was not ready once, it accepts one connection,
        after the next wait two, then four: a worker that only lacks CPU for a moment does not lose its share.
        """
        waits = {
            key: self._wait(key, row.turns, now)
            for key, row in others.items()
            if open_here > row.open + row.open // TOLERANCE
        }
        accepts = all(now >= wait.deadline for wait in waits.values())
        self._waits = {key: wait.after_accept(now) for key, wait in waits.items()} if accepts else waits
        return accepts

    def _wait(self, key: int, turns: int, now: float) -> _Wait:
        wait = self._waits.get(key)
        return wait if wait is not None and wait.turns == turns else _Wait(turns, now + MAX_WAIT_SECONDS)


class AcceptTable(WorkerTable):
    """The open connections and the turns of all workers."""

    def __init__(self, rows: int = 1, *, is_shared: bool = False) -> None:
        super().__init__(_COLUMNS, rows, is_shared=is_shared)

    def others(self) -> dict[int, AcceptRow]:
        """Return the rows of the other workers that accept, by their number."""
        rows = zip(self.column(_OPEN), self.column(_TURNS), strict=False)
        return {
            row: AcceptRow(open_there, turns)
            for row, (open_there, turns) in enumerate(rows)
            if turns and row != self.row
        }

    def show_open(self, count: int) -> None:
        """Show how many connections this worker has open."""
        if self.row is not None:
            self.cells[_OPEN * self.rows + self.row] = count

    def show_turn(self) -> None:
        """Show that this worker is ready to accept."""
        if self.row is not None:
            cell = _TURNS * self.rows + self.row
            self.cells[cell] = self.cells[cell] % MAX_COUNT + 1

    def show_end(self) -> None:
        """Show that this worker accepts nothing more."""
        if self.row is not None:
            self.cells[_TURNS * self.rows + self.row] = 0


class AcceptGate:
    """Lets one worker accept by the load of all; without a table (a listening socket of its own), whenever it can."""

    def __init__(self, clock: Callable[[], float], table: AcceptTable | None = None) -> None:
        self._clock = clock
        self._table = table
        self._policy = AcceptPolicy()
        self._next_beat = 0.0

    def pause(self, open_here: int) -> float:
        """Return how long a worker with so many open connections leaves the next one to others; 0 to accept it now."""
        if self._table is None or self._table.row is None:
            return 0.0
        if not self._policy.accepts(open_here, self._table.others(), self._clock()):
            return PAUSE_SECONDS
        self._table.show_turn()
        return 0.0

    def beat(self) -> None:
        """Show at least once a second that the worker runs and accepts, even if no connection comes."""
        now = self._clock()
        if self._table is not None and now >= self._next_beat:
            self._next_beat = now + BEAT_SECONDS
            self._table.show_turn()

    def count(self, open_here: int) -> None:
        """Show how many connections the worker has open."""
        if self._table is not None:
            self._table.show_open(open_here)

    def close(self) -> None:
        """Show that the worker accepts nothing more; its open connections no longer count."""
        if self._table is not None:
            self._table.show_end()
