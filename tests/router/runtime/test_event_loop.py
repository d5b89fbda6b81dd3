"""Turns of a worker's loop: what waits lets others go on."""

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
from router.runtime.event_loop import Loop, wait_for

LONG = 20.0


class _Later:
    """What other threads want done in the loop, which a pipe wakes as in the worker."""

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
def loop() -> Iterator[Loop]:
    """A loop with one thread beside it."""
    later = _Later()
    with ThreadPoolExecutor(1) as threads, later.ours, later.theirs:
        made = Loop(threads.submit, later)
        made.register(later.ours.fileno(), select.POLLIN, later.run)
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


def run(loop: Loop, over: list[Any], count: int = 1) -> None:
    """Run a loop until so much is over."""
    end = time.monotonic() + LONG
    while len(over) < count:
        assert time.monotonic() < end
        loop.dispatch(1.0)


def test_turns_wait_beside_each_other(loop: Loop, pairs: Any) -> None:
    """Each goes on as soon as something happens at what it waits for, whoever began first."""
    over: list[int] = []

    def work(number: int) -> int:
        (happened,) = wait_for({pairs[number][0].fileno(): select.POLLIN}, LONG)
        assert happened == (pairs[number][0].fileno(), select.POLLIN)
        return number

    for number in range(3):
        loop.begin(lambda number=number: work(number), over.append)
    for number in (2, 0, 1):
        pairs[number][1].send(b"x")
        run(loop, over, len(over) + 1)
    assert over == [2, 0, 1]


def test_a_turn_waits_no_longer_than_it_wants(loop: Loop, pairs: Any) -> None:
    """Nothing happened in its time: it is told so, while another one waits on."""
    over: list[Any] = []
    loop.begin(lambda: wait_for({pairs[0][0].fileno(): select.POLLIN}, LONG), over.append)
    loop.begin(lambda: wait_for({pairs[1][0].fileno(): select.POLLIN}, 0.01), over.append)
    run(loop, over)
    assert over == [[]]


def test_what_a_turn_waits_for_may_change(loop: Loop, pairs: Any) -> None:
    """A descriptor, other events of it, and another descriptor: each wait is for its own."""
    over: list[Any] = []
    first, second = pairs[0][0].fileno(), pairs[1][0].fileno()

    def work() -> list[Any]:
        pairs[0][1].send(b"x")
        return [
            wait_for({first: 0, second: 0}, 0.01),
            wait_for({first: select.POLLOUT}, LONG),
            wait_for({first: select.POLLIN}, LONG),
            wait_for({second: select.POLLIN}, 0.01),
            wait_for({}, 0.01),
        ]

    loop.begin(work, over.append)
    run(loop, over)
    assert over == [[[], [(first, select.POLLOUT)], [(first, select.POLLIN)], [], []]]


def test_a_descriptor_is_free_once_its_turn_is_over(loop: Loop, pairs: Any) -> None:
    """What one turn waited for the next one may wait for, and the loop itself too."""
    over: list[Any] = []
    fd = pairs[0][0].fileno()
    pairs[0][1].send(b"x")
    for count in (1, 2):
        loop.begin(lambda: wait_for({fd: select.POLLIN}, LONG), over.append)
        run(loop, over, count)
    loop.register(fd, select.POLLIN, lambda *happened: over.append(happened))
    run(loop, over, 3)
    assert over == [[(fd, select.POLLIN)], [(fd, select.POLLIN)], (fd, select.POLLIN)]


def test_a_number_that_is_used_again_is_not_taken_for_the_former(loop: Loop, pairs: Any) -> None:
    """What happened at a closed descriptor is not told of the one that has its number now, in the same round either."""
    told: list[str] = []
    (one, one_end), (other, other_end), _ = pairs

    def close_other(*_: int) -> None:
        told.append("one")
        loop.unregister(one.fileno())
        number = other.fileno()
        loop.unregister(number)
        other.close()
        third, third_end = socket.socketpair()
        pairs.append((third, third_end))
        assert third.fileno() == number
        loop.register(number, select.POLLIN, lambda *_: told.append("third"))

    loop.register(one.fileno(), select.POLLIN, close_other)
    loop.register(other.fileno(), select.POLLIN, lambda *_: told.append("other"))
    one_end.send(b"x")
    other_end.send(b"x")
    loop.dispatch(LONG)
    loop.dispatch(0.0)
    assert told[0] in {"one", "other"}
    assert "third" not in told


def test_a_turn_that_closes_a_descriptor_may_wait_for_its_number_again(loop: Loop) -> None:
    """An engine's socket is closed and the next one gets its number: the wait is for that one."""
    over: list[Any] = []

    def work() -> list[Any]:
        first, first_end = socket.socketpair()
        assert wait_for({first.fileno(): select.POLLIN}, 0.01) == []
        number = first.fileno()
        event_loop.forget(number)
        first.close()
        second, second_end = socket.socketpair()
        with first_end, second, second_end:
            assert second.fileno() == number
            second_end.send(b"x")
            return wait_for({number: select.POLLIN}, LONG)

    loop.begin(work, over.append)
    run(loop, over)
    assert len(over[0]) == 1


def test_what_cannot_give_way_runs_aside(loop: Loop) -> None:
    """A turn gets the result of another thread, or its error; meanwhile the loop goes on."""
    over: list[Any] = []
    here = threading.get_ident()

    def fail() -> None:
        raise ValueError("no")

    def work() -> tuple[int, str]:
        where = event_loop.aside(threading.get_ident)
        try:
            event_loop.aside(fail)
        except ValueError as error:
            return where, str(error)
        return where, ""

    loop.begin(work, over.append)
    assert not over
    run(loop, over)
    ((where, error),) = over
    assert where != here
    assert error == "no"


def test_outside_of_turns_nothing_is_different(pairs: Any) -> None:
    """In a thread of its own whoever waits blocks, and a function runs where it is called."""
    assert wait_for({pairs[0][0].fileno(): select.POLLIN}, 0.001) == []
    pairs[0][1].send(b"x")
    assert wait_for({pairs[0][0].fileno(): select.POLLIN}, LONG) == [(pairs[0][0].fileno(), select.POLLIN)]
    assert event_loop.aside(threading.get_ident) == threading.get_ident()
    assert not event_loop.is_turn()
    event_loop.forget(pairs[0][0].fileno())


def test_a_descriptor_that_others_have_open_too_can_be_left(loop: Loop, pairs: Any) -> None:
    """Closed here and open elsewhere, as listening sockets are, it never wakes the loop again."""
    ours, theirs = pairs[0]
    elsewhere = ours.dup()
    loop.register(ours.fileno(), select.POLLIN, lambda *_: None)
    loop.unregister(ours.fileno())
    loop.settle()
    ours.close()
    theirs.send(b"x")
    with elsewhere:
        assert loop._poll.poll(0) == []


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="poll names all that are ready")
def test_between_many_that_are_ready_the_worker_looks_around(loop: Loop) -> None:
    """A round sees to some of them, and the next ones to the others, none of which is left out for another."""
    told: list[int] = []
    with ExitStack() as opened:
        for _ in range(3 * event_loop.MOST_AT_ONCE):
            ours, theirs = socket.socketpair()
            opened.enter_context(ours)
            opened.enter_context(theirs)
            theirs.send(b"x")
            loop.register(ours.fileno(), select.POLLIN, lambda fd, _: told.append(fd))
        for rounds in range(1, 4):
            loop.dispatch(0.0)
            assert len(told) == rounds * event_loop.MOST_AT_ONCE
        assert len(set(told)) == 3 * event_loop.MOST_AT_ONCE
