"""How many requests are in flight at each engine, counted by all workers of a machine in one table.

The table is memory that gunicorn's master maps before it forks: a row per worker, which only that worker writes, and a
column per engine. A load is the sum of a column. The master clears the row of a worker that died, so that nothing that
a worker did not live to take back stays counted.
"""

import fcntl
import mmap
import threading
from array import array
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from router.balancing.policies import HASH_BYTES, hash_of
from router.runtime.shared_memory import open_lock_file

ROWS: Final = 512
"""Workers that can be counted at once; after a reload old and new ones live side by side."""
COLUMNS: Final = 2048
"""Engines that can be counted at once."""

_CELL: Final = "I"
CELL_BYTES: Final = 4
_FREE: Final = 0


class Counted:
    """One request in flight at an engine, until its end is told."""

    __slots__ = ("_cell", "_loads")

    def __init__(self, loads: "Loads", cell: int | None) -> None:
        self._loads = loads
        self._cell = cell

    def end(self) -> None:
        """Count the request no more, the first time that this is called."""
        cell, self._cell = self._cell, None
        if cell is not None:
            self._loads.add(cell, -1)


class Loads:
    """The table as one process sees it. Safe to use from many threads."""

    def __init__(self, rows: int = 1, columns: int = COLUMNS, *, is_shared: bool = False) -> None:
        """Make a table: shared with all processes forked from here on, or private, with its first row for this one."""
        head = HASH_BYTES * (columns + 1)
        length = head + CELL_BYTES * rows * columns
        memory = memoryview(mmap.mmap(-1, length) if is_shared else bytearray(length))
        self._rows = rows
        self._hashes = memory[: head - HASH_BYTES].cast("Q")
        """Whose column each is: the hash of an engine, 0 while it is nobody's."""
        self._in_use = memory[head - HASH_BYTES : head].cast("Q")
        """How many of the first rows have been some worker's."""
        self._cells = memory[head:].cast(_CELL)
        """Column by column, so that a sum reads what stands together."""
        self._column_of: dict[str, tuple[int, int]] = {}
        """The columns that this process has found, with the hashes that say whether they are still the engines'."""
        self._row: int | None = None if is_shared else 0
        self._in_use[0] = 0 if is_shared else 1
        self._lock = threading.Lock()
        self._claims = open_lock_file() if is_shared else None
        self._row_of: dict[int, int] = {}
        """The rows of the workers, known to the master alone."""

    # --- the workers' side ---

    def begin(self, engine: str) -> Counted:
        """Count a request that is sent to an engine; the caller has to tell its end."""
        column = self._column(engine)
        if column is None or self._row is None:
            return Counted(self, None)
        cell = column * self._rows + self._row
        self.add(cell, 1)
        return Counted(self, cell)

    def load(self, engine: str) -> int:
        """Return how many requests are in flight at an engine, from all workers."""
        column = self._column(engine)
        return 0 if column is None else self._sum(column)

    def add(self, cell: int, change: int) -> None:
        """Change one of this process's own cells."""
        with self._lock:
            self._cells[cell] += change

    def _sum(self, column: int) -> int:
        start = column * self._rows
        return sum(self._cells[start : start + self._in_use[0]])

    def _column(self, engine: str) -> int | None:
        """Return the column of an engine, which is the same in all processes; None when there are too many engines."""
        found = self._column_of.get(engine)
        # It is another one's now if the engine had nothing in flight when room was needed.
        if found is not None and self._hashes[found[0]] == found[1]:
            return found[0]
        return self._claim(engine, hash_of(engine.encode()) or 1)

    def _claim(self, engine: str, wanted: int) -> int | None:
        with self._claiming():
            column = self._find(wanted)
            if column is not None:
                if len(self._column_of) >= len(self._hashes):
                    self._column_of.clear()
                self._hashes[column] = wanted
                self._column_of[engine] = (column, wanted)
        return column

    def _find(self, wanted: int) -> int | None:
        hashes = self._hashes.tolist()
        for owner in (wanted, _FREE):
            if owner in hashes:
                return hashes.index(owner)
        return next((column for column in range(len(hashes)) if not self._sum(column)), None)

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        """Let one thread of one process alone; the system takes the lock from a process that dies."""
        with self._lock:
            if self._claims is None:
                yield
                return
            fcntl.lockf(self._claims, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._claims, fcntl.LOCK_UN)

    # --- the master's side ---

    def give_row(self, worker: int, others: Collection[int] = ()) -> None:
        """Give the worker that is forked next the first free row; where there is none, it is not counted.

        `others` are the workers that live: rows of which nobody said that their workers ended are cleared as well.
        """
        for gone in set(self._row_of).difference(others):
            self.clear_row(gone)
        free = set(range(self._rows)).difference(self._row_of.values())
        self._row = min(free, default=None)
        if self._row is not None:
            self._row_of[worker] = self._row
            self._in_use[0] = max(self._in_use[0], self._row + 1)

    def clear_row(self, worker: int) -> None:
        """Count nothing more of a worker that has ended, and free its row."""
        row = self._row_of.pop(worker, None)
        if row is not None:
            self._cells[row :: self._rows] = array(_CELL, bytes(CELL_BYTES * len(self._hashes)))
