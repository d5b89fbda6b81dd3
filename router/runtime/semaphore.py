"""Counting semaphores without a queue: they bound how many requests run at once, in a process or on a machine."""

import threading

from router.runtime.worker_table import WorkerTable


class Semaphore:
    """So many slots; each acquired one is released again."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = count
        self._lock = threading.Lock()

    def try_acquire(self) -> bool:
        """Acquire a slot if one is free; return whether one was."""
        with self._lock:
            if self._free == 0:
                return False
            self._free -= 1
            return True

    def release(self) -> None:
        """Release a slot."""
        with self._lock:
            self._free += 1


class SharedSemaphore:
    """So many slots for all workers of a machine. Each counts its own in its row of a table; the sum is compared.

    A worker that is killed leaves no slot behind: the arbiter clears its row.
    """

    def __init__(self, count: int, table: WorkerTable | None = None) -> None:
        """Make a semaphore over the first column of a table; without a table, for this process alone."""
        self.count = count
        self._table = table if table is not None else WorkerTable(1)
        # Each request counts twice: calls of the table's methods would take as long as the counting.
        self._cells, self._used = self._table.cells, self._table.used
        self._lock = threading.Lock()

    def try_acquire(self) -> bool:
        """Acquire a slot if one is free; return whether one was.

        The count rises before it is compared. So two workers that want the last slot at the same time may both get
        none, but never do both get it.
        """
        row = self._table.row
        if row is None:  # more workers than rows: the slots of this one are not counted
            return not self.is_exhausted()
        with self._lock:
            self._cells[row] += 1
            if sum(self._cells[: self._used[0]]) <= self.count:
                return True
            self._cells[row] -= 1
            return False

    def release(self) -> None:
        """Release a slot."""
        row = self._table.row
        if row is not None:
            with self._lock:
                self._cells[row] -= 1

    def in_use(self) -> int:
        """Return how many slots this process uses now."""
        row = self._table.row
        return int(self._cells[row]) if row is not None else 0

    def is_exhausted(self) -> bool:
        """Return whether no slot is free now."""
        return sum(self._cells[: self._used[0]]) >= self.count
