"""Numbers of all workers of a machine in shared memory: a row per worker, which only that worker writes.

The arbiter maps a table before it forks, allocates a row for each worker, and clears the rows of workers that ended.
"""

import mmap
from array import array
from collections.abc import Collection, Sequence
from typing import Final

ROWS: Final = 512
"""Workers that can be counted at once; after a reload old and new ones live side by side."""

CELL: Final = "I"
CELL_BYTES: Final = 4
MAX_COUNT: Final = 2**32 - 1
"""The largest number in a cell."""
_USED: Final = "Q"
_USED_BYTES: Final = 8


class WorkerTable:
    """Columns of numbers from 0 to `MAX_COUNT`, as one process sees them.

    Rows of a column are adjacent. A cell is read and written as a whole, so readers need no lock.
    """

    def __init__(self, columns: int, rows: int = 1, *, is_shared: bool = False) -> None:
        """Make a table: shared with all processes forked from here on, or private, with its first row for this one."""
        length = _USED_BYTES + CELL_BYTES * rows * columns
        memory = memoryview(mmap.mmap(-1, length) if is_shared else bytearray(length))
        self.rows = rows
        self.cells = memory[_USED_BYTES:].cast(CELL)
        """Column by column."""
        self.row: int | None = None if is_shared else 0
        """The row of this process, or of the worker that is forked next; None if there is none for it."""
        self.used = memory[:_USED_BYTES].cast(_USED)
        """How many of the first rows were ever allocated."""
        self.used[0] = 0 if is_shared else 1

    def column(self, column: int) -> memoryview:
        """Return the numbers of a column, in all rows that were ever allocated."""
        start = column * self.rows
        return self.cells[start : start + self.used[0]]

    def sum(self, column: int) -> int:
        """Return the sum of a column."""
        return sum(self.column(column))

    def use_row(self, row: int | None) -> None:
        """Set the row of the worker that is forked next."""
        self.row = row
        if row is not None:
            self.used[0] = max(self.used[0], row + 1)

    def clear_row(self, row: int) -> None:
        """Set a row to 0."""
        count = len(self.cells) // self.rows
        self.cells[row :: self.rows] = array(CELL, bytes(CELL_BYTES * count))


class WorkerRows:
    """Which worker has which row, the same in all tables. Known to the arbiter alone."""

    def __init__(self, tables: Sequence[WorkerTable], rows: int = ROWS) -> None:
        self._tables = tables
        self._rows = rows
        self._row_of: dict[int, int] = {}

    def allocate(self, worker: int, others: Collection[int] = ()) -> None:
        """Allocate the first free row for the worker that is forked next; without one, it is not counted.

        `others` are the live workers: rows of workers that ended unnoticed are freed as well.
        """
        for gone in set(self._row_of).difference(others):
            self.free(gone)
        free = set(range(self._rows)).difference(self._row_of.values())
        row = min(free, default=None)
        if row is not None:
            self._row_of[worker] = row
        for table in self._tables:
            table.use_row(row)

    def free(self, worker: int) -> None:
        """Clear and free the row of a worker that has ended."""
        row = self._row_of.pop(worker, None)
        if row is not None:
            for table in self._tables:
                table.clear_row(row)
