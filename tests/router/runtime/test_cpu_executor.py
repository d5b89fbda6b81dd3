"""Work that may compute long: at once while others hardly wait for it, else apart in one thread."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from router.runtime.cpu_executor import BURST_SECONDS, LONG_BYTES, SHARE, SHORT_BYTES, LongWork
from router.runtime.event_loop import Loop
from tests.router.runtime.test_event_loop import loop, run  # noqa: F401 - a fixture

HERE = threading.get_ident()


class _Clock:
    """A clock that goes on when work is done."""

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


def test_what_is_short_is_done_at_once(clock: _Clock) -> None:
    """However long it took, and however much of it there is."""
    work = LongWork(clock)
    assert {work.do(SHORT_BYTES, clock.work, 10.0) for _ in range(9)} == {HERE}


def test_what_is_long_is_done_apart_in_one_thread(clock: _Clock) -> None:
    """From wherever it is asked for, one after the other."""
    work = LongWork(clock)
    found: list[int] = []
    askers = [threading.Thread(target=lambda: found.append(work.do(LONG_BYTES + 1, clock.work, 0.0))) for _ in range(9)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(found) == 9
    assert len(set(found)) == 1
    assert HERE not in found


def test_what_is_between_is_done_at_once_within_its_share(clock: _Clock) -> None:
    """A burst is; more of it only when the share of the time has paid for it."""
    work = LongWork(clock)
    burst = BURST_SECONDS * SHARE / (SHARE - 1)
    assert {work.do(LONG_BYTES, clock.work, seconds) for seconds in (0.9 * burst, 0.2 * burst)} == {HERE}
    assert HERE not in {work.do(LONG_BYTES, clock.work, 0.0) for _ in range(9)}
    clock.now += 2 * BURST_SECONDS * SHARE
    assert work.do(LONG_BYTES, clock.work, 0.0) == HERE


def test_work_that_keeps_to_its_share_is_never_handed_over(clock: _Clock) -> None:
    """As nearly all requests do."""
    work = LongWork(clock)
    for _ in range(100):
        assert work.do(LONG_BYTES, clock.work, 0.001) == HERE
        clock.now += 0.001 * SHARE


def test_a_turn_lets_the_loop_go_on_meanwhile(loop: Loop) -> None:  # noqa: F811
    """The loop serves others until the work is done; its error is the turn's."""
    work, over, may_end = LongWork(), list[Any](), threading.Event()

    def fail() -> None:
        may_end.wait()
        raise ValueError("no")

    def serve() -> str:
        with pytest.raises(ValueError, match="no"):
            work.do(LONG_BYTES + 1, fail)
        return "done"

    loop.begin(serve, over.append)
    loop.begin(lambda: "another", over.append)
    assert over == ["another"]
    may_end.set()
    run(loop, over, 2)
    assert over == ["another", "done"]


def test_without_a_thread_it_is_done_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the system has no thread to give, others wait; nobody gets an error for it."""

    def refuse(*_: Any) -> Iterator[None]:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert LongWork().do(LONG_BYTES + 1, threading.get_ident) == HERE
