"""The CPU executor: computations run inline while that delays others little, else in one thread."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from router.runtime.cpu_executor import BURST_SECONDS, DUTY_CYCLE, INLINE_BYTES, OFFLOAD_BYTES, CpuExecutor
from router.runtime.event_loop import EventLoop
from tests.router.runtime.test_event_loop import loop, run  # noqa: F401 - a fixture

HERE = threading.get_ident()


class _Clock:
    """A clock that advances with the work."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> int:
        """Take so long; return in which thread."""
        self.now += seconds
        return threading.get_ident()


@pytest.fixture
def clock() -> _Clock:
    """A clock."""
    return _Clock()


def test_short_work_runs_inline(clock: _Clock) -> None:
    """Small inputs run inline, however long and however often."""
    executor = CpuExecutor(clock)
    assert {executor.run(INLINE_BYTES, clock.work, 10.0) for _ in range(9)} == {HERE}


def test_long_work_runs_in_one_thread(clock: _Clock) -> None:
    """Large inputs run in one thread, one after the other, whichever thread asks."""
    executor = CpuExecutor(clock)
    found: list[int] = []
    askers = [
        threading.Thread(target=lambda: found.append(executor.run(OFFLOAD_BYTES + 1, clock.work, 0.0)))
        for _ in range(9)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(found) == 9
    assert len(set(found)) == 1
    assert HERE not in found


def test_medium_work_runs_inline_within_its_duty_cycle(clock: _Clock) -> None:
    """A burst runs inline; more only once the duty cycle allows it."""
    executor = CpuExecutor(clock)
    burst = BURST_SECONDS * DUTY_CYCLE / (DUTY_CYCLE - 1)
    assert {executor.run(OFFLOAD_BYTES, clock.work, seconds) for seconds in (0.9 * burst, 0.2 * burst)} == {HERE}
    assert HERE not in {executor.run(OFFLOAD_BYTES, clock.work, 0.0) for _ in range(9)}
    clock.now += 2 * BURST_SECONDS * DUTY_CYCLE
    assert executor.run(OFFLOAD_BYTES, clock.work, 0.0) == HERE


def test_work_within_its_duty_cycle_never_leaves_the_loop(clock: _Clock) -> None:
    """Work of nearly all requests runs inline."""
    executor = CpuExecutor(clock)
    for _ in range(100):
        assert executor.run(OFFLOAD_BYTES, clock.work, 0.001) == HERE
        clock.now += 0.001 * DUTY_CYCLE


def test_a_task_leaves_the_loop_free_while_its_work_runs(loop: EventLoop) -> None:  # noqa: F811
    """The loop serves others until the work is done; its error is the task's."""
    executor, over, may_end = CpuExecutor(), list[Any](), threading.Event()

    def fail() -> None:
        may_end.wait()
        raise ValueError("no")

    def serve() -> str:
        with pytest.raises(ValueError, match="no"):
            executor.run(OFFLOAD_BYTES + 1, fail)
        return "done"

    loop.spawn(serve, over.append)
    loop.spawn(lambda: "another", over.append)
    assert over == ["another"]
    may_end.set()
    run(loop, over, 2)
    assert over == ["another", "done"]


def test_without_a_thread_long_work_runs_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the system cannot start a thread, the work runs inline and no error is raised."""

    def fail_to_start(*_: Any) -> Iterator[None]:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail_to_start)
    assert CpuExecutor().run(OFFLOAD_BYTES + 1, threading.get_ident) == HERE
