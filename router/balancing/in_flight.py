"""How many requests are in flight at each engine, counted by all workers of a machine in one table.

The table has a row per worker and a column per engine. The load of an engine is the sum of its column. The arbiter
clears the row of a worker that died, so that its requests do not stay counted.
"""

import fcntl
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from router.balancing.policies import HASH_BYTES, hash_of
from router.runtime.shared_memory import open_lock_file
from router.runtime.worker_table import WorkerTable

COLUMNS: Final = 2048
"""Engines that can be counted at once."""

_FREE: Final = 0


class InFlightRequest:
    """One request in flight at an engine, until `end` is called."""

    __slots__ = ("_cell", "_table")

    def __init__(self, table: "InFlightTable", cell: int | None) -> None:
        self._table = table
        self._cell = cell

    def end(self) -> None:
        """Stop counting the request; later calls do nothing."""
        cell, self._cell = self._cell, None
        if cell is not None:
            self._table.add(cell, -1)


class InFlightTable(WorkerTable):
    """The table as one process sees it. Safe to use from many threads."""

    def __init__(self, rows: int = 1, columns: int = COLUMNS, *, is_shared: bool = False) -> None:
        """Make a table: shared with all processes forked from here on, or private, with its first row for this one."""
        super().__init__(columns, rows, is_shared=is_shared)
        length = HASH_BYTES * columns
        self._column_hashes = memoryview(mmap.mmap(-1, length) if is_shared else bytearray(length)).cast("Q")
        """The owner of each column: the hash of an engine, 0 if free."""
        self._column_of: dict[str, tuple[int, int]] = {}
        """The columns that this process has found, with the hashes that say whether they are still the engines'."""
        self._lock = threading.Lock()
        self._lock_file = open_lock_file() if is_shared else None

    def begin(self, engine: str) -> InFlightRequest:
        """Count a request that is sent to an engine; the caller has to call `end`."""
        column = self._column(engine)
        if column is None or self.row is None:
            return InFlightRequest(self, None)
        cell = column * self.rows + self.row
        self.add(cell, 1)
        return InFlightRequest(self, cell)

    def load(self, engine: str) -> int:
        """Return how many requests are in flight at an engine, from all workers."""
        column = self._column(engine)
        return 0 if column is None else self.sum(column)

    def add(self, cell: int, change: int) -> None:
        """Change one of this process's own cells."""
        with self._lock:
            self.cells[cell] += change

    def _column(self, engine: str) -> int | None:
        """Return the column of an engine, which is the same in all processes; None when there are too many engines."""
        found = self._column_of.get(engine)
        # Another engine may have taken the column while this one had nothing in flight.
        if found is not None and self._column_hashes[found[0]] == found[1]:
            return found[0]
        return self._claim(engine, hash_of(engine.encode()) or 1)

    def _claim(self, engine: str, wanted: int) -> int | None:
        with self._locked():
            column = self._find(wanted)
            if column is not None:
                if len(self._column_of) >= len(self._column_hashes):
                    self._column_of.clear()
                self._column_hashes[column] = wanted
                self._column_of[engine] = (column, wanted)
        return column

    def _find(self, wanted: int) -> int | None:
        hashes = self._column_hashes.tolist()
        for owner in (wanted, _FREE):
            if owner in hashes:
                return hashes.index(owner)
        return next((column for column in range(len(hashes)) if not self.sum(column)), None)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock out all other threads and processes; the system releases the lock of a process that dies."""
        with self._lock:
            if self._lock_file is None:
                yield
                return
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._lock_file, fcntl.LOCK_UN)
