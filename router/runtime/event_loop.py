"""The event loop of a worker: it polls descriptors and runs requests as tasks, which are greenlets.

Code that runs in a task reads like code that runs in a thread. It waits for descriptors with `poll_fds`: in a thread
that blocks, in a task it switches to the loop, which runs other tasks until an event or the deadline.
"""

import math
import select
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from concurrent.futures import Future

ResultT = TypeVar("ResultT")
Masks = Mapping[int, int]
"""Descriptors and the events to wait for on each, as in `select.poll`; hang-up and error are always included.

They must not be changed after they were passed to `poll_fds`: waiting again for the same object is cheapest.
"""

Call = Callable[[int, int], object]
"""A callback: it gets a descriptor and the events on it."""

_NEVER: Final = math.inf
_ALWAYS: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_NOTHING: Final[Masks] = {}
MAX_IDLE_TASKS: Final = 64
"""How many finished tasks are kept for reuse."""
MAX_EVENTS: Final = 32
"""How many events are handled before the worker does its housekeeping: each may be a slow request.

epoll reports ready descriptors in turn, so none is starved.
"""
_HAS_EPOLL: Final = hasattr(select, "epoll")


class EventLoop:
    """Polls descriptors, calls their callbacks, and resumes tasks on events and deadlines.

    `run_in_executor` runs a function in another thread and returns its future; `call_soon_threadsafe` runs one in the
    thread of the loop.
    """

    def __init__(
        self, run_in_executor: Callable[..., "Future[Any]"], call_soon_threadsafe: Callable[..., None]
    ) -> None:
        # Without epoll (macOS), poll does the same; it scales worse and takes milliseconds.
        self._poll: Any = select.epoll() if _HAS_EPOLL else select.poll()
        self._interest: dict[int, tuple[int, Call]] = {}
        """For each descriptor that is waited for: the events and the callback."""
        self._registered: dict[int, int] = {}
        """The events registered with the system, which may be more: they are reduced when an unwanted one occurs."""
        self._running: dict[Task, None] = {}
        """The tasks that have work, in the order in which they began; each knows its deadline."""
        self._idle: list[Task] = []
        self._earliest = _NEVER
        """No deadline is earlier than this; infinity when no task has one."""
        self.greenlet = getcurrent()
        self.run_in_executor = run_in_executor
        self.call_soon_threadsafe = call_soon_threadsafe
        _LOOPS.add(self)

    def register(self, fd: int, events: int, call: Call) -> None:
        """Call `call` with the descriptor and its events whenever one of these events occurs.

        Call `invalidate_fd` first for a descriptor that was opened since its number was last registered.
        """
        self._interest[fd] = (events, call)
        watched = self._registered.get(fd)
        if watched is None:
            self._poll.register(fd, events)
            self._registered[fd] = events
        elif events & ~watched:
            self._modify(fd, events | watched)

    def unregister(self, fd: int) -> None:
        """Stop waiting for a descriptor, which may already be closed."""
        self._interest.pop(fd, None)

    def invalidate_fd(self, fd: int) -> None:
        """Drop the registration of a descriptor number that now names another file."""
        self._registered.pop(fd, None)

    def dispatch(self, seconds: float) -> None:
        """Poll for at most so many seconds, call the callbacks of what happened, and run the timers."""
        seconds = max(0.0, min(seconds, self._earliest - time.monotonic()))
        happened = self._poll.poll(seconds, MAX_EVENTS) if _HAS_EPOLL else self._poll.poll(math.ceil(seconds * 1000))
        interest = self._interest
        for fd, events, waiting in [(fd, events, interest.get(fd)) for fd, events in happened]:
            if waiting is None or not events & (waiting[0] | _ALWAYS):
                self._shrink_registration(fd)
            # A callback may have closed another descriptor, and its number may already be reused.
            elif interest.get(fd) is waiting:
                waiting[1](fd, events & (waiting[0] | _ALWAYS))
        if self._earliest <= time.monotonic():
            self._run_timers()

    def _modify(self, fd: int, events: int) -> None:
        self._poll.modify(fd, events)
        self._registered[fd] = events

    def _shrink_registration(self, fd: int) -> None:
        """Reduce the registration of a descriptor to the events that are waited for."""
        waiting = self._interest.get(fd)
        if waiting is not None:
            self._modify(fd, waiting[0])
            return
        self._registered.pop(fd, None)
        with suppress(OSError, KeyError):  # already closed
            self._poll.unregister(fd)

    def flush_interest(self) -> None:
        """Unregister what is no longer waited for: needed before closing a descriptor that other processes share."""
        for fd in self._registered.keys() - self._interest.keys():
            self._shrink_registration(fd)

    def _run_timers(self) -> None:
        now = time.monotonic()
        for task in [task for task in self._running if task.deadline <= now]:
            if task.deadline <= now:
                # If the whole process was stopped, the event may have arrived in time.
                task.resume(task.poll_now())
        self._earliest = min([task.deadline for task in self._running], default=_NEVER)

    def close(self) -> None:
        """Close the poller and forget all callbacks."""
        if _HAS_EPOLL:
            self._poll.close()
        self._interest.clear()

    def spawn(self, work: Callable[[], ResultT], on_done: Callable[[ResultT], object]) -> None:
        """Run `work`, which must not raise, as a task; `on_done` gets its result. Returns when the task first waits."""
        # Finished tasks are reused: each new greenlet needs a stack.
        task = self._idle.pop() if self._idle else Task(self)
        self._running[task] = None
        task.start(work, on_done)

    def recycle(self, task: "Task") -> None:
        """Keep a finished task for reuse, unless enough are kept."""
        self._running.pop(task, None)
        if len(self._idle) < MAX_IDLE_TASKS:
            self._idle.append(task)

    def has_tasks(self) -> bool:
        """Return whether a task has work."""
        return bool(self._running)

    def interrupt_tasks(self, make_error: Callable[[], Exception]) -> None:
        """Raise an error of its own in each task, where it waits. A task may handle it, and wait again."""
        for task in list(self._running):
            task.interrupt(make_error())

    def yield_(self, task: "Task", deadline: float) -> tuple[int, int] | None:
        """Switch from a task to the loop; return the event that resumed it, or None at its deadline.

        The deadline is a time of `time.monotonic()`.
        """
        task.deadline = deadline
        if deadline < self._earliest:  # noqa: PLR1730 - once for each piece of a stream
            self._earliest = deadline
        happened: tuple[int, int] | None = self.greenlet.switch()
        task.deadline = _NEVER
        return happened


class Task(greenlet):
    """A greenlet that runs one request after the other."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__(self._run_work, loop.greenlet)
        self.loop = loop
        self.deadline = _NEVER
        """When the task is resumed without an event, in time of `time.monotonic()`."""
        self._masks = _NOTHING
        self._call = self._on_event
        self._work: Callable[[], Any] | None = None
        self._on_done: Callable[[Any], object]
        self._result: Any = None

    def start(self, work: Callable[[], ResultT], on_done: Callable[[ResultT], object]) -> None:
        """Run `work` from the loop until it first waits or ends."""
        self._work, self._on_done = work, on_done
        self.resume()

    def resume(self, *happened: tuple[int, int] | None) -> None:
        """Resume the task from the loop until it waits again or ends."""
        self.switch(*happened)
        if self._work is None:
            self._finish()

    def interrupt(self, error: Exception) -> None:
        """Raise an error in the task where it waits, from the loop, and run it until it waits again or ends."""
        self.deadline = _NEVER
        self.throw(error)
        if self._work is None:
            self._finish()

    def _finish(self) -> None:
        self._change_masks(_NOTHING)
        on_done, result, self._result = self._on_done, self._result, None
        self.loop.recycle(self)
        on_done(result)

    def _run_work(self, *_: object) -> None:
        while self._work is not None:
            self._result = self._work()
            self._work = None
            self.loop.greenlet.switch()

    def _on_event(self, fd: int, events: int) -> None:
        # The same as `resume`, once for each piece of a stream.
        self.switch((fd, events))
        if self._work is None:
            self._finish()

    def poll_fds_until(self, masks: Masks, deadline: float) -> list[tuple[int, int]]:
        """Do what the function of this name does; waiting again for the same events costs no system call."""
        if masks is not self._masks:
            self._change_masks(masks)
        happened = self.loop.yield_(self, deadline)
        return [happened] if happened is not None else []

    def poll_now(self) -> tuple[int, int] | None:
        """Poll the task's descriptors without waiting; return one event, or None."""
        return next(iter(_poll_blocking(self._masks, 0.0)), None)

    def wait_future(self, running: "Future[Any]") -> None:
        """Suspend the task until a future of another thread is done."""
        self._change_masks(_NOTHING)
        running.add_done_callback(lambda _: self.loop.call_soon_threadsafe(self.resume, None))
        self.loop.yield_(self, _NEVER)

    def _change_masks(self, masks: Masks) -> None:
        before, self._masks = self._masks, masks
        for fd in before:
            if fd not in masks:
                self.loop.unregister(fd)
        for fd, events in masks.items():
            if before.get(fd) != events:
                self.loop.register(fd, events, self._call)

    def release_fd(self, fd: int) -> None:
        """Stop waiting for a descriptor that is about to be closed: its number may be reused."""
        if fd in self._masks:
            self._change_masks({other: events for other, events in self._masks.items() if other != fd})
        self.loop.invalidate_fd(fd)


def poll_fds(masks: Masks, seconds: float) -> list[tuple[int, int]]:
    """Return the events on descriptors, as `select.poll` does; an empty list after so many seconds."""
    return poll_fds_until(masks, time.monotonic() + seconds)


def poll_fds_until(masks: Masks, deadline: float) -> list[tuple[int, int]]:
    """Return the same, an empty list at a deadline of `time.monotonic()`."""
    current = getcurrent()
    if isinstance(current, Task):
        return current.poll_fds_until(masks, deadline)
    return _poll_blocking(masks, deadline - time.monotonic())


def _poll_blocking(masks: Masks, seconds: float) -> list[tuple[int, int]]:
    polled = select.poll()
    for fd, events in masks.items():
        polled.register(fd, events)
    return polled.poll(math.ceil(max(0.0, min(seconds * 1000, MAX_MILLISECONDS))))


MAX_MILLISECONDS: Final = 2**31 - 1
"""The longest timeout that poll accepts, almost 25 days."""


def in_task() -> bool:
    """Return whether this code runs in a task, where nothing may block."""
    return isinstance(getcurrent(), Task)


def invalidate_fd(fd: int) -> None:
    """Drop what all loops know of a descriptor number. Call it for a new descriptor: its number may be a reused one."""
    for loop in list(_LOOPS):
        loop.invalidate_fd(fd)


_LOOPS: "Final[WeakSet[EventLoop]]" = WeakSet()


def release_fd(fd: int) -> None:
    """Stop waiting for a descriptor in the current task. Call it before closing one."""
    current = getcurrent()
    if isinstance(current, Task):
        current.release_fd(fd)


def run_in_executor(function: Callable[..., ResultT], *arguments: Any) -> ResultT:  # noqa: ANN401 - whatever it takes
    """Return the result of a blocking function: in a task, it runs in a thread of the executor meanwhile."""
    current = getcurrent()
    if not isinstance(current, Task):
        return function(*arguments)
    running: Future[ResultT] = current.loop.run_in_executor(function, *arguments)
    current.wait_future(running)
    try:
        return running.result()
    finally:
        # The future keeps the exception, whose traceback keeps this frame.
        del running
