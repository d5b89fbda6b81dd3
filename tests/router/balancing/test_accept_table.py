"""Accepting by load: connections spread over the workers, and no worker waits for one that stalls or is gone."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from router.balancing.accept_table import (
    BEAT_SECONDS,
    MAX_WAIT_SECONDS,
    PAUSE_SECONDS,
    TOLERANCE,
    AcceptGate,
    AcceptPolicy,
    AcceptRow,
    AcceptTable,
)
from router.runtime.worker_table import MAX_COUNT, WorkerRows


class _Workers:
    """Workers with one table and one clock, each of which shares the row of its number."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.table = AcceptTable(count, is_shared=True)
        rows = WorkerRows([self.table], count)
        for worker in range(count):
            rows.allocate(worker, range(count))
        self.gates = [AcceptGate(lambda: self.now, self.table) for _ in range(count)]
        self.open = [0] * count
        for worker in range(count):
            self.act(worker, AcceptGate.beat)

    def act(self, worker: int, step: Callable[[AcceptGate], object]) -> object:
        """Run a step of a worker, in whose process the table has its row."""
        self.table.row = worker
        return step(self.gates[worker])

    def offer(self, worker: int) -> bool:
        """Offer the next connection to a worker; return whether it accepted."""
        accepted = not self.act(worker, lambda gate: gate.pause(self.open[worker]))
        if accepted:
            self.open[worker] += 1
            self.act(worker, lambda gate: gate.count(self.open[worker]))
        return accepted


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("connections", [16, 64, 1000])
def test_the_worker_that_wakes_first_takes_its_share(count: int, connections: int) -> None:
    """Whichever worker the system wakes first, the busiest has at most 1.25 times its share at every even number."""
    workers = _Workers(count)
    for _ in range(connections):
        assert any(workers.offer(worker) for worker in range(count))
    assert max(workers.open) <= 1.25 * connections / count


def test_a_stalled_worker_is_waited_for_less_and_less() -> None:
    """One, two, four connections are accepted after 50 ms each, evenly by the others, until the worker is back."""
    workers = _Workers(3)
    accepted_at = []
    while len(accepted_at) < 64:
        if True in [workers.offer(0), workers.offer(1)]:
            accepted_at.append(workers.now)
        else:
            workers.now += PAUSE_SECONDS
    assert abs(workers.open[0] - workers.open[1]) <= 2 + max(workers.open) // TOLERANCE
    waits = [later - earlier for earlier, later in pairwise([0.0, *accepted_at]) if later > earlier]
    assert max(waits) <= MAX_WAIT_SECONDS + 2 * PAUSE_SECONDS
    assert len(waits) <= 8
    workers.now += BEAT_SECONDS
    workers.act(2, AcceptGate.beat)
    assert [workers.offer(worker) for worker in (0, 1, 2)] == [False, False, True]


def test_workers_that_wait_do_not_prolong_each_others_waits() -> None:
    """Two workers that wait for a third one see no progress in each other, however often they ask."""
    workers = _Workers(3)
    workers.open[:2] = [5, 5]
    for worker in (0, 1):
        workers.act(worker, lambda gate: gate.count(5))
    began = workers.now
    while not (workers.offer(0) or workers.offer(1)):
        workers.now += PAUSE_SECONDS
    assert workers.now - began <= MAX_WAIT_SECONDS + PAUSE_SECONDS


def test_draining_and_dead_workers_do_not_count() -> None:
    """A worker that drains, was killed or is not yet ready keeps no connection from the others."""
    workers = _Workers(2)
    workers.open[0] = 5
    assert not workers.offer(0)
    workers.act(1, AcceptGate.close)
    assert workers.offer(0)
    workers.act(1, AcceptGate.beat)
    workers.now += BEAT_SECONDS
    workers.act(1, AcceptGate.beat)
    assert not workers.offer(0)
    workers.table.clear_row(1)
    assert workers.offer(0)


def test_a_listening_socket_of_its_own_is_always_accepted_from() -> None:
    """Without a table, or without a row in it, a worker accepts whenever it can."""
    without_row = AcceptTable(1, is_shared=True)
    for gate in (AcceptGate(lambda: 0.0), AcceptGate(lambda: 0.0, without_row)):
        gate.beat()
        gate.count(1000)
        assert gate.pause(1000) == 0
        gate.close()
    assert without_row.others() == {}


def test_turns_wrap_around_without_becoming_zero() -> None:
    """After 2**32 turns a worker still shows that it accepts, with another number than before."""
    table = AcceptTable(2, is_shared=True)
    table.use_row(1)
    table.cells[3] = MAX_COUNT - 1
    turns = []
    for _ in range(3):
        table.show_turn()
        table.row = 0
        turns.append(table.others()[1].turns)
        table.row = 1
    assert all(turns)
    assert all(one != other for one, other in pairwise(turns))


def test_the_tolerance_grows_with_the_connections() -> None:
    """With few connections no worker is ahead by more than one; with many, by a sixteenth."""
    accepts = AcceptPolicy().accepts
    assert [accepts(here, {1: AcceptRow(there, 1)}, 0.0) for here, there in ((1, 0), (1, 1), (34, 32), (35, 32))] == [
        False,
        True,
        True,
        False,
    ]
