"""The event loop and its tasks: a task that waits lets others run."""

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from router.runtime import event_loop
from router.runtime.event_loop import EventLoop, Task, poll_fds

LONG = 20.0


class _ThreadsafeCalls:
    """Calls from other threads into the loop, which a pipe wakes as in the worker."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.calls: list[Any] = []

    def __call__(self, call: Any, *arguments: Any) -> None:
        self.calls.append((call, arguments))
        self.theirs.send(b"x")

    def run(self, *_: int) -> None:
        self.ours.recv(1)
        call, arguments = self.calls.pop(0)
        call(*arguments)


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    """A loop with an executor of one thread."""
    calls = _ThreadsafeCalls()
    with ThreadPoolExecutor(1) as threads, calls.ours, calls.theirs:
        made = EventLoop(threads.submit, calls)
        made.register(calls.ours.fileno(), select.POLLIN, calls.run)
        yield made
        made.close()


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Some connected pairs of sockets."""
    made = [socket.socketpair() for _ in range(3)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


def run(loop: EventLoop, over: list[Any], count: int = 1) -> None:
    """Run a loop until so much is over."""
    end = time.monotonic() + LONG
    while len(over) < count:
        assert time.monotonic() < end
        loop.dispatch(1.0)


def test_tasks_wait_concurrently(loop: EventLoop, pairs: Any) -> None:
    """Each resumes as soon as its descriptor has an event, in whatever order they started."""
    over: list[int] = []

    def work(number: int) -> int:
        (happened,) = poll_fds({pairs[number][0].fileno(): select.POLLIN}, LONG)
        assert happened == (pairs[number][0].fileno(), select.POLLIN)
        return number

    for number in range(3):
        loop.spawn(lambda number=number: work(number), over.append)
    for number in (2, 0, 1):
        pairs[number][1].send(b"x")
        run(loop, over, len(over) + 1)
    assert over == [2, 0, 1]


def test_a_wait_of_a_task_ends_at_its_deadline(loop: EventLoop, pairs: Any) -> None:
    """Without an event the wait returns an empty list, while another task still waits."""
    over: list[Any] = []
    loop.spawn(lambda: poll_fds({pairs[0][0].fileno(): select.POLLIN}, LONG), over.append)
    loop.spawn(lambda: poll_fds({pairs[1][0].fileno(): select.POLLIN}, 0.01), over.append)
    run(loop, over)
    assert over == [[]]


def test_a_task_may_wait_for_other_events_each_time(loop: EventLoop, pairs: Any) -> None:
    """A descriptor, other events of it, and another descriptor: each wait is for its own."""
    over: list[Any] = []
    first, second = pairs[0][0].fileno(), pairs[1][0].fileno()

    def work() -> list[Any]:
        pairs[0][1].send(b"x")
        return [
            poll_fds({first: 0, second: 0}, 0.01),
            poll_fds({first: select.POLLOUT}, LONG),
            poll_fds({first: select.POLLIN}, LONG),
            poll_fds({second: select.POLLIN}, 0.01),
            poll_fds({}, 0.01),
        ]

    loop.spawn(work, over.append)
    run(loop, over)
    assert over == [[[], [(first, select.POLLOUT)], [(first, select.POLLIN)], [], []]]


def test_a_finished_task_releases_its_descriptors(loop: EventLoop, pairs: Any) -> None:
    """The next task, or the loop itself, may wait for the same descriptor."""
    over: list[Any] = []
    fd = pairs[0][0].fileno()
    pairs[0][1].send(b"x")
    for count in (1, 2):
        loop.spawn(lambda: poll_fds({fd: select.POLLIN}, LONG), over.append)
        run(loop, over, count)
    loop.register(fd, select.POLLIN, lambda *happened: over.append(happened))
    run(loop, over, 3)
    assert over == [[(fd, select.POLLIN)], [(fd, select.POLLIN)], (fd, select.POLLIN)]


def test_events_of_a_closed_descriptor_do_not_reach_its_successor(loop: EventLoop, pairs: Any) -> None:
    """A new descriptor with the number of a closed one gets no event of it, not even in the same round."""
    called: list[str] = []
    (one, one_end), (other, other_end), _ = pairs

    def close_other(*_: int) -> None:
        called.append("one")
        loop.unregister(one.fileno())
        number = other.fileno()
        loop.unregister(number)
        other.close()
        third, third_end = socket.socketpair()
        pairs.append((third, third_end))
        assert third.fileno() == number
        loop.register(number, select.POLLIN, lambda *_: called.append("third"))

    loop.register(one.fileno(), select.POLLIN, close_other)
    loop.register(other.fileno(), select.POLLIN, lambda *_: called.append("other"))
    one_end.send(b"x")
    other_end.send(b"x")
    loop.dispatch(LONG)
    loop.dispatch(0.0)
    assert called[0] in {"one", "other"}
    assert "third" not in called


def test_a_task_may_wait_for_a_reused_descriptor_number(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine's socket is closed and the next one gets its number: the wait is for that one."""
    over: list[Any] = []
    late: list[Task] = []
    poll_now = Task.poll_now
    monkeypatch.setattr(Task, "poll_now", lambda task: late.append(task) or poll_now(task))

    def work() -> list[Any]:
        first, first_end = socket.socketpair()
        second, second_end = socket.socketpair()
        number = first.fileno()
        assert poll_fds({number: select.POLLIN}, 0.01) == []
        event_loop.release_fd(number)
        # Closes the first and gives its number to the second, whatever other threads open and close meanwhile.
        os.dup2(second.fileno(), first.detach())
        with first_end, second, second_end:
            second_end.send(b"x")
            ready = poll_fds({number: select.POLLIN}, LONG)
        os.close(number)
        return ready

    loop.spawn(work, over.append)
    run(loop, over)
    assert len(over[0]) == 1
    assert len(late) == 1, "only the first wait ends at its deadline"


def test_blocking_calls_run_in_the_executor(loop: EventLoop) -> None:
    """A task gets the result or the error of another thread; meanwhile the loop runs."""
    over: list[Any] = []
    here = threading.get_ident()

    def fail() -> None:
        raise ValueError("no")

    def work() -> tuple[int, str]:
        where = event_loop.run_in_executor(threading.get_ident)
        try:
            event_loop.run_in_executor(fail)
        except ValueError as error:
            return where, str(error)
        return where, ""

    loop.spawn(work, over.append)
    assert not over
    run(loop, over)
    ((where, error),) = over
    assert where != here
    assert error == "no"


def test_outside_of_tasks_waits_block(pairs: Any) -> None:
    """In a plain thread a wait blocks, and a function runs where it is called."""
    assert poll_fds({pairs[0][0].fileno(): select.POLLIN}, 0.001) == []
    pairs[0][1].send(b"x")
    assert poll_fds({pairs[0][0].fileno(): select.POLLIN}, LONG) == [(pairs[0][0].fileno(), select.POLLIN)]
    assert event_loop.run_in_executor(threading.get_ident) == threading.get_ident()
    assert not event_loop.in_task()
    event_loop.release_fd(pairs[0][0].fileno())


def test_a_shared_descriptor_can_be_unregistered(loop: EventLoop, pairs: Any) -> None:
    """A descriptor closed here and open in other processes, as listening sockets are, never wakes the loop again."""
    ours, theirs = pairs[0]
    elsewhere = ours.dup()
    loop.register(ours.fileno(), select.POLLIN, lambda *_: None)
    loop.unregister(ours.fileno())
    loop.flush_interest()
    ours.close()
    theirs.send(b"x")
    with elsewhere:
        assert loop._poll.poll(0) == []


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="poll reports all ready descriptors")
def test_one_round_handles_a_bounded_number_of_events(loop: EventLoop) -> None:
    """Each round handles some of the ready descriptors, and the next rounds the others; none is starved."""
    called: list[int] = []
    with ExitStack() as opened:
        for _ in range(3 * event_loop.MAX_EVENTS):
            ours, theirs = socket.socketpair()
            opened.enter_context(ours)
            opened.enter_context(theirs)
            theirs.send(b"x")
            loop.register(ours.fileno(), select.POLLIN, lambda fd, _: called.append(fd))
        for rounds in range(1, 4):
            loop.dispatch(0.0)
            assert len(called) == rounds * event_loop.MAX_EVENTS
        assert len(set(called)) == 3 * event_loop.MAX_EVENTS
