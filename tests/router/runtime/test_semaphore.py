"""The limit of a machine: never exceeded by workers that count at the same time, and free of those that were killed."""

import os
import signal
from collections.abc import Callable

import pytest

from router.runtime.semaphore import SharedSemaphore
from router.runtime.worker_table import WorkerRows, WorkerTable
from tests.router.serving import wait_until

LIMIT = 5


def test_a_slot_is_for_one_request_until_it_is_released() -> None:
    """So many slots are acquired, then none, and a released one is acquired again."""
    semaphore = SharedSemaphore(LIMIT)
    assert [semaphore.try_acquire() for _ in range(LIMIT + 2)] == [True] * LIMIT + [False] * 2
    assert semaphore.is_exhausted()
    assert semaphore.in_use() == LIMIT
    semaphore.release()
    assert not semaphore.is_exhausted()
    assert [semaphore.try_acquire(), semaphore.try_acquire()] == [True, False]


def test_a_worker_without_a_row_sees_the_limit_and_is_not_counted() -> None:
    """When there are more workers than rows, the last one still rejects what is beyond the limit."""
    table = WorkerTable(1, 1, is_shared=True)
    rows = WorkerRows([table], 1)
    rows.allocate(1)
    semaphore = SharedSemaphore(1, table)
    rows.allocate(2, [1])
    assert semaphore.try_acquire()
    semaphore.release()
    assert semaphore.in_use() == 0
    table.cells[0] = 1
    assert not semaphore.try_acquire()


def _fork(work: Callable[[], object]) -> int:
    process = os.fork()
    if process == 0:  # pragma: no cover - coverage does not see it
        try:
            work()
        finally:
            os._exit(0)
    return process


class _Contender:
    """A worker that acquires and releases slots, and notes the most that all workers held at once."""

    def __init__(self, semaphore: SharedSemaphore, held: WorkerTable, most: WorkerTable) -> None:
        self._semaphore, self._held, self._most = semaphore, held, most

    def run(self) -> None:
        """Acquire twice as often as release, so that the last slots are always contended for."""
        row = self._held.row or 0
        for turn in range(20_000):
            if turn % 3 and self._semaphore.try_acquire():
                self._held.cells[row] += 1
                self._most.cells[row] = max(self._most.cells[row], self._held.sum(0))
            elif self._held.cells[row]:
                self._held.cells[row] -= 1
                self._semaphore.release()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_workers_together_never_exceed_the_limit() -> None:
    """However three workers contend for the last slots, no more are acquired than there are."""
    table, held, most = (WorkerTable(1, 4, is_shared=True) for _ in range(3))
    rows = WorkerRows([table, held, most], 4)
    contender = _Contender(SharedSemaphore(LIMIT, table), held, most)
    workers = []
    for worker in (1, 2, 3):
        rows.allocate(worker, range(1, worker))
        workers.append(_fork(contender.run))
    for process in workers:
        os.waitpid(process, 0)
    assert 1 < max(most.column(0)) <= LIMIT


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_killed_worker_gives_its_slots_back() -> None:
    """The slots of a worker that was killed are free as soon as its row is."""
    table = WorkerTable(1, 4, is_shared=True)
    rows = WorkerRows([table], 4)
    semaphore = SharedSemaphore(LIMIT, table)
    rows.allocate(1)

    def hold() -> None:
        while semaphore.try_acquire():
            pass
        signal.pause()

    holder = _fork(hold)
    wait_until(semaphore.is_exhausted)
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    rows.allocate(2)
    assert semaphore.try_acquire()
