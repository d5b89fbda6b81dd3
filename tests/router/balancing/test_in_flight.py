"""The table of what is in flight: counted once, seen by all workers, cleared of those that died."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from router.balancing.in_flight import InFlightTable
from router.runtime.worker_table import WorkerRows

A, B, C = "http://a", "http://b", "http://c"


@pytest.fixture(params=[False, True], ids=["private", "shared"])
def in_flight_table(request: pytest.FixtureRequest) -> InFlightTable:
    """A table for a process of its own."""
    table = InFlightTable(4, 8, is_shared=request.param)
    if request.param:
        WorkerRows([table]).allocate(1)
    return table


def test_a_request_counts_until_its_end(in_flight_table: InFlightTable) -> None:
    """A load is the number of requests that began and did not end; an end that is told twice counts once."""
    first, second = in_flight_table.begin(A), in_flight_table.begin(A)
    other = in_flight_table.begin(B)
    assert [in_flight_table.load(each) for each in (A, B, C)] == [2, 1, 0]
    first.end()
    first.end()
    assert in_flight_table.load(A) == 1
    second.end()
    other.end()
    assert [in_flight_table.load(each) for each in (A, B, C)] == [0, 0, 0]


def test_threads_lose_no_count(in_flight_table: InFlightTable) -> None:
    """Whatever many threads begin and end is counted, to the last."""
    kept = [in_flight_table.begin(A)]

    def work(_: int) -> None:
        for _ in range(200):
            in_flight_table.begin(A).end()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert in_flight_table.load(A) == 1
    kept[0].end()
    assert in_flight_table.load(A) == 0


def _in_child(work: Callable[[], object]) -> int:
    """Run something in a forked process, which then waits for its end, and return its process id."""
    done, tell = os.pipe()
    process = os.fork()
    if process == 0:  # pragma: no cover - coverage does not see it
        with suppress(BaseException):
            work()
            os.write(tell, b"1")
            signal.pause()
        os._exit(1)
    os.close(tell)
    assert os.read(done, 1) == b"1"
    os.close(done)
    return process


def _kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_workers_see_each_others_requests_until_they_die() -> None:
    """Counts of forked workers add up, in whatever order each met the engines; a killed one's are cleared alone."""
    table = InFlightTable(4, 8, is_shared=True)
    rows = WorkerRows([table])
    rows.allocate(1)
    first = _in_child(lambda: [table.begin(engine) for engine in (A, B, B)])
    rows.allocate(2, [1])
    second = _in_child(lambda: [table.begin(engine) for engine in (C, B, A)])
    try:
        assert [table.load(each) for each in (A, B, C)] == [2, 3, 1]
    finally:
        _kill(first)
    rows.free(1)
    assert [table.load(each) for each in (A, B, C)] == [1, 1, 1]
    rows.allocate(3, [2])
    third = _in_child(lambda: table.begin(A))
    assert table.load(A) == 2
    _kill(second)
    _kill(third)
    rows.allocate(4)
    assert [table.load(each) for each in (A, B, C)] == [0, 0, 0]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_worker_that_is_killed_leaves_no_lock_behind() -> None:
    """Engines can be met after a worker died in the middle of meeting one."""
    table = InFlightTable(4, 8, is_shared=True)
    rows = WorkerRows([table])
    rows.allocate(1)

    def die_within() -> None:
        table._locked().__enter__()

    _kill(_in_child(die_within))
    assert table.load(A) == 0


def test_rows_are_used_again() -> None:
    """A row that its worker left is the next worker's; where all are taken, one more is not counted and still sees."""
    table = InFlightTable(2, 8, is_shared=True)
    rows = WorkerRows([table], 2)
    for worker in (1, 2):
        rows.allocate(worker, [1])
        table.begin(A)
    rows.allocate(3, [1, 2])
    uncounted = table.begin(A)
    assert table.load(A) == 2
    uncounted.end()
    rows.free(1)
    assert table.load(A) == 1
    rows.allocate(4, [2])
    table.begin(A)
    assert table.load(A) == 2
    rows.free(7)  # nobody's
    assert table.load(A) == 2


def test_columns_are_used_again() -> None:
    """When all columns are taken, an engine that has nothing in flight gives its own up, and gets another later."""
    table = InFlightTable(1, 2)
    at_a = table.begin(A)
    table.begin(B).end()
    at_c = table.begin(C)
    assert [table.load(A), table.load(C)] == [1, 1]
    assert table.load(B) == 0
    table.begin(B).end()  # there is no room for it
    at_c.end()
    at_b = table.begin(B)
    assert [table.load(A), table.load(B)] == [1, 1]
    at_a.end()
    at_b.end()
    assert [table.load(each) for each in (A, B, C)] == [0, 0, 0]


def test_engines_may_come_and_go_for_ever() -> None:
    """However many engines were met in the course of time, the table holds those that have something in flight."""
    table = InFlightTable(1, 4)
    stays = table.begin(A)
    for number in range(100):
        table.begin(f"http://{number}").end()
    assert table.load(A) == 1
    stays.end()
