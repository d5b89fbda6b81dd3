"""A budget of bytes in memory: a task reserves what it will hold, and waits while others hold too much."""

from collections import deque
from collections.abc import Callable

from greenlet import getcurrent

from router.runtime.event_loop import Task, poll_fds_until


class _Waiter:
    __slots__ = ("amount", "is_granted", "is_waiting", "task")

    def __init__(self, task: Task, amount: int) -> None:
        self.task = task
        self.amount = amount
        self.is_granted = False
        self.is_waiting = True


class ByteBudget:
    """A number of bytes for the tasks of one event loop. Tasks that wait for some get them in the order of arrival.

    A task reserves all that it needs at once, so tasks that wait never hold what another one needs. `call_soon` calls a
    function in the loop, not within the caller.
    """

    def __init__(self, capacity: int, call_soon: Callable[..., object]) -> None:
        self.capacity = capacity
        self._free = capacity
        self._waiting: deque[_Waiter] = deque()
        self._call_soon = call_soon

    def acquire(self, amount: int, fd: int, deadline: float) -> bool:
        """Reserve bytes, in a task; return False at the deadline, a time of `time.monotonic()`, or if `fd` hangs up.

        An amount above the capacity is all of it.
        """
        amount = min(amount, self.capacity)
        if not self._waiting and amount <= self._free:
            self._free -= amount
            return True
        task = getcurrent()
        assert isinstance(task, Task)  # noqa: S101 - nothing else may wait here
        waiter = _Waiter(task, amount)
        self._waiting.append(waiter)
        try:
            poll_fds_until({fd: 0}, deadline)
        except BaseException:
            self._give_up(waiter)
            raise
        if not waiter.is_granted:
            self._give_up(waiter)
        waiter.is_waiting = False
        return waiter.is_granted

    def release(self, amount: int) -> None:
        """Give back what `acquire` reserved for the same amount."""
        self._free += min(amount, self.capacity)
        self._grant()

    def _give_up(self, waiter: _Waiter) -> None:
        waiter.is_waiting = False
        if waiter.is_granted:
            self._free += waiter.amount
        else:
            self._waiting.remove(waiter)
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self._waiting[0].amount <= self._free:
            waiter = self._waiting.popleft()
            self._free -= waiter.amount
            waiter.is_granted = True
            self._call_soon(self._wake, waiter)

    @staticmethod
    def _wake(waiter: _Waiter) -> None:
        # It may have gone on since, at its deadline.
        if waiter.is_waiting:
            waiter.task.resume(None)
