"""Requests that are served within a worker's loop, in turns: one that has to wait lets the others go on.

Each is a greenlet, so that what serves it reads as in a thread. Whatever waits for descriptors does so by `wait_for`,
which polls them in a thread, and in a turn gives way to the loop until something happens.
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
"""Descriptors, and the events of each that are waited for, as `select.poll` has them; hang-up and error always are."""

Call = Callable[[int, int], object]
"""What is called with a descriptor and what happened at it."""

_NEVER: Final = math.inf
_ALWAYS: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_NOTHING: Final[Masks] = {}
MOST_IDLE: Final = 64
"""How many turns that are over are kept for other work."""
MOST_AT_ONCE: Final = 32
"""How many descriptors are seen to before the worker looks around: each may be a request that takes its time.

Of those that are ready the system names first the ones that it has not named for longest.
"""
_HAS_EPOLL: Final = hasattr(select, "epoll")


class Loop:
    """What a worker's loop waits for: descriptors, and turns that must not wait any longer.

    `aside` has a function run in another thread, `later` has one run in the loop's.
    """

    def __init__(self, aside: Callable[..., "Future[Any]"], later: Callable[..., None]) -> None:
        # Where there is no epoll, poll does the same for fewer descriptors; it counts in milliseconds.
        self._poll: Any = select.epoll() if _HAS_EPOLL else select.poll()
        self._waited_for: dict[int, tuple[int, Call]] = {}
        """The events of each descriptor that somebody waits for, and who."""
        self._watched: dict[int, int] = {}
        """What the system watches of each, which may be more: it is told so only once that happens."""
        self._deadlines: dict[Turn, float] = {}
        self._idle: list[Turn] = []
        self._earliest = _NEVER
        """When to look for turns that are late: none is before."""
        self.greenlet = getcurrent()
        self.aside = aside
        self.later = later
        _LOOPS.add(self)

    def register(self, fd: int, events: int, call: Call) -> None:
        """Have `call` called, with the descriptor and what happened, whenever one of these events is there.

        Of a descriptor that was opened since its number was last waited for, `opened` has to tell before.
        """
        self._waited_for[fd] = (events, call)
        watched = self._watched.get(fd)
        if watched is None:
            self._poll.register(fd, events)
            self._watched[fd] = events
        elif events & ~watched:
            self._watch(fd, events | watched)

    def unregister(self, fd: int) -> None:
        """Wait for a descriptor no more, which may be closed already."""
        self._waited_for.pop(fd, None)

    def forget_number(self, fd: int) -> None:
        """Take a descriptor for another one than that which had its number before."""
        self._watched.pop(fd, None)

    def dispatch(self, seconds: float) -> None:
        """Wait so long for something to happen, and let it be dealt with."""
        seconds = max(0.0, min(seconds, self._earliest - time.monotonic()))
        happened = self._poll.poll(seconds, MOST_AT_ONCE) if _HAS_EPOLL else self._poll.poll(math.ceil(seconds * 1000))
        waited_for = self._waited_for
        for fd, events, waiting in [(fd, events, waited_for.get(fd)) for fd, events in happened]:
            if waiting is None or not events & (waiting[0] | _ALWAYS):
                self._watch_less(fd)
            # What was done about one may have closed another, whose number may be a third one's by now.
            elif waited_for.get(fd) is waiting:
                waiting[1](fd, events & (waiting[0] | _ALWAYS))
        if self._earliest <= time.monotonic():
            self._end_late()

    def _watch(self, fd: int, events: int) -> None:
        self._poll.modify(fd, events)
        self._watched[fd] = events

    def _watch_less(self, fd: int) -> None:
        """Have the system watch no more of a descriptor than is waited for."""
        waiting = self._waited_for.get(fd)
        if waiting is not None:
            self._watch(fd, waiting[0])
            return
        self._watched.pop(fd, None)
        with suppress(OSError, KeyError):  # it was closed
            self._poll.unregister(fd)

    def settle(self) -> None:
        """Have the system watch only what somebody waits for: due before one is closed that others have open too."""
        for fd in self._watched.keys() - self._waited_for.keys():
            self._watch_less(fd)

    def _end_late(self) -> None:
        now = time.monotonic()
        for turn in [turn for turn, deadline in self._deadlines.items() if deadline <= now]:
            if self._deadlines.get(turn, _NEVER) <= now:
                # Where all of the process stood still, what it waits for may have come in time.
                turn.go_on(turn.what_happened())
        self._earliest = min(self._deadlines.values(), default=_NEVER)

    def close(self) -> None:
        """Wait for nothing any more."""
        if _HAS_EPOLL:
            self._poll.close()
        self._waited_for.clear()

    def begin(self, work: Callable[[], ResultT], then: Callable[[ResultT], object]) -> None:
        """Let work begin, which must not raise, until it gives way; when it is over, `then` gets what it returns."""
        # One that is over serves the next request: the system gives each new one memory for its calls.
        turn = self._idle.pop() if self._idle else Turn(self)
        turn.begin(work, then)

    def take_back(self, turn: "Turn") -> None:
        """Keep a turn that is over for other work; it ends where there are enough."""
        if len(self._idle) < MOST_IDLE:
            self._idle.append(turn)

    def give_way(self, turn: "Turn", deadline: float) -> tuple[int, int] | None:
        """Return what let a turn go on; None when that is its deadline, a time of `time.monotonic()`."""
        if deadline != _NEVER:
            self._deadlines[turn] = deadline
            self._earliest = min(self._earliest, deadline)
        happened: tuple[int, int] | None = self.greenlet.switch()
        self._deadlines.pop(turn, None)
        return happened


class Turn(greenlet):
    """One request after the other in its turns."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(self._serve, loop.greenlet)
        self.loop = loop
        self._masks = _NOTHING
        self._call = self._take
        self._work: Callable[[], Any] | None = None
        self._then: Callable[[Any], object]
        self._result: Any = None

    def begin(self, work: Callable[[], ResultT], then: Callable[[ResultT], object]) -> None:
        """Begin a request, from within the loop, until it gives way or is over."""
        self._work, self._then = work, then
        self.go_on()

    def go_on(self, *happened: tuple[int, int] | None) -> None:
        """Let it go on, from within the loop, until it gives way again or is over."""
        self.switch(*happened)
        if self._work is None:
            self._wait_for_other(_NOTHING)
            then, result, self._result = self._then, self._result, None
            self.loop.take_back(self)
            then(result)

    def _serve(self, *_: object) -> None:
        while self._work is not None:
            self._result = self._work()
            self._work = None
            self.loop.greenlet.switch()

    def _take(self, fd: int, events: int) -> None:
        self.go_on((fd, events))

    def wait_for(self, masks: Masks, seconds: float) -> list[tuple[int, int]]:
        """See the function of that name; what is waited for again costs nothing."""
        if masks is not self._masks and masks != self._masks:
            self._wait_for_other(masks)
        happened = self.loop.give_way(self, time.monotonic() + seconds)
        return [happened] if happened is not None else []

    def what_happened(self) -> tuple[int, int] | None:
        """Return what has happened, unseen yet, at one of the descriptors that it waits for; None where nothing has."""
        return next(iter(_polled(self._masks, 0.0)), None)

    def wait_for_thread(self, running: "Future[Any]") -> None:
        """Give way until another thread is done."""
        self._wait_for_other(_NOTHING)
        running.add_done_callback(lambda _: self.loop.later(self.go_on, None))
        self.loop.give_way(self, _NEVER)

    def _wait_for_other(self, masks: Masks) -> None:
        before, self._masks = self._masks, dict(masks)
        for fd in before:
            if fd not in masks:
                self.loop.unregister(fd)
        for fd, events in masks.items():
            if before.get(fd) != events:
                self.loop.register(fd, events, self._call)

    def forget(self, fd: int) -> None:
        """Wait no more for a descriptor that is being closed: its number may soon be another one's."""
        if fd in self._masks:
            self._wait_for_other({other: events for other, events in self._masks.items() if other != fd})
        self.loop.forget_number(fd)


def wait_for(masks: Masks, seconds: float) -> list[tuple[int, int]]:
    """Return what happened at descriptors, as `select.poll` tells it; nothing once so many seconds are over."""
    current = getcurrent()
    if isinstance(current, Turn):
        return current.wait_for(masks, seconds)
    return _polled(masks, seconds)


def _polled(masks: Masks, seconds: float) -> list[tuple[int, int]]:
    polled = select.poll()
    for fd, events in masks.items():
        polled.register(fd, events)
    return polled.poll(math.ceil(max(0.0, min(seconds * 1000, MAX_MILLISECONDS))))


MAX_MILLISECONDS: Final = 2**31 - 1
"""Longest wait that poll takes, almost 25 days."""


def is_turn() -> bool:
    """Tell whether this runs in a turn, where nothing may block."""
    return isinstance(getcurrent(), Turn)


def opened(fd: int) -> None:
    """Say that a descriptor was opened, before it is waited for: its number may have been another one's."""
    for loop in list(_LOOPS):
        loop.forget_number(fd)


_LOOPS: "Final[WeakSet[Loop]]" = WeakSet()


def forget(fd: int) -> None:
    """Say, before it is closed, that a descriptor may have been waited for."""
    current = getcurrent()
    if isinstance(current, Turn):
        current.forget(fd)


def aside(function: Callable[..., ResultT], *arguments: Any) -> ResultT:  # noqa: ANN401 - whatever it takes
    """Return what a function returns that cannot give way: where this is a turn, it runs in a thread meanwhile."""
    current = getcurrent()
    if not isinstance(current, Turn):
        return function(*arguments)
    running: Future[ResultT] = current.loop.aside(function, *arguments)
    current.wait_for_thread(running)
    try:
        return running.result()
    finally:
        # It keeps what was raised, and that keeps this frame.
        del running
