"""A budget of bytes: never exceeded, and given in the order of arrival."""

import random
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from router.runtime.byte_budget import ByteBudget
from router.runtime.event_loop import EventLoop, poll_fds

NEVER = float("inf")


class _Soon:
    """Calls that the loop makes when it has nothing else to do."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __call__(self, call, *arguments):
        self.calls.append((call, arguments))

    def run(self):
        while self.calls:
            call, arguments = self.calls.pop(0)
            call(*arguments)


@pytest.fixture
def soon():
    return _Soon()


@pytest.fixture
def loop(soon) -> Iterator[EventLoop]:
    """A loop whose tasks run in this thread."""
    with ThreadPoolExecutor(1) as threads:
        made = EventLoop(threads.submit, soon)
        yield made
        made.close()


@pytest.fixture
def pairs():
    """Sockets that clients may close, and their other ends; each task waits for one of its own."""
    made = [socket.socketpair() for _ in range(30)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


def test_tasks_get_their_bytes_in_order(loop, soon, pairs):
    """A later one that would fit does not pass an earlier one, and an amount above the capacity is all of it."""
    budget, order = ByteBudget(10, soon), []

    def hold(name, amount, pair):
        assert budget.acquire(amount, pair[0].fileno(), NEVER)
        order.append(name)

    for pair, (name, amount) in zip(pairs, (("first", 7), ("large", 100), ("small", 1)), strict=False):
        loop.spawn(lambda name=name, amount=amount, pair=pair: hold(name, amount, pair), lambda _: None)
    assert order == ["first"]
    budget.release(7)
    soon.run()
    assert order == ["first", "large"]
    budget.release(100)
    soon.run()
    assert order == ["first", "large", "small"]


@pytest.mark.parametrize("cause", ["deadline", "hang-up", "interrupt"])
def test_a_task_that_gives_up_lets_the_next_one_in(loop, soon, pairs, cause):
    """At its deadline, when its client hangs up, or when it is interrupted, the next one is looked at."""
    budget, results = ByteBudget(10, soon), []
    assert budget.acquire(8, -1, NEVER)

    def wait(amount, pair, seconds):
        try:
            return budget.acquire(amount, pair[0].fileno(), time.monotonic() + seconds)
        except RuntimeError:
            return "interrupted"

    loop.spawn(lambda: wait(5, pairs[0], 0 if cause == "deadline" else 60), results.append)
    if cause == "interrupt":
        loop.interrupt_tasks(RuntimeError)
    if cause == "hang-up":
        pairs[0][1].close()
    loop.spawn(lambda: wait(2, pairs[1], 60), results.append)
    _run(loop, soon, lambda: len(results) == 2)
    assert results == ["interrupted" if cause == "interrupt" else False, True]
    budget.release(8)
    assert budget._free == 8


def _run(loop, soon, is_over):
    for _ in range(1000):
        if is_over():
            return
        loop.dispatch(0.02)
        soon.run()
    raise AssertionError("the tasks do not end")


@pytest.mark.parametrize("seed", range(5))
def test_the_budget_is_never_exceeded(loop, soon, pairs, seed):
    """Tasks that come, wait, hold and go at random never hold more together, and leave nothing behind."""
    chance, held, done = random.Random(seed), [0], []
    budget = ByteBudget(100, soon)

    def work(amount, rounds, pair):
        if budget.acquire(amount, pair[0].fileno(), time.monotonic() + chance.choice([0.0, 60.0])):
            held[0] += min(amount, 100)
            assert held[0] <= 100
            for _ in range(rounds):
                poll_fds({pair[0].fileno(): select.POLLOUT}, 60)
            held[0] -= min(amount, 100)
            budget.release(amount)

    for pair in pairs:
        amount, rounds = chance.choice([1, 30, 60, 150]), chance.randrange(4)
        loop.spawn(lambda amount=amount, rounds=rounds, pair=pair: work(amount, rounds, pair), done.append)
    _run(loop, soon, lambda: len(done) == len(pairs))
    assert (held[0], budget._free) == (0, 100)
