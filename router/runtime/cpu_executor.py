"""The CPU executor: it moves long computations out of the event loop, so that other clients are served meanwhile.

It has one thread. With a second computing thread the loop would wait twice as long for the interpreter lock, and the
computations would not finish sooner.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from greenlet import getcurrent

from router.runtime.event_loop import Task

ResultT = TypeVar("ResultT")

INLINE_BYTES: Final = 16 * 1024
"""Up to this size work runs inline: it usually takes 20 µs, and 3 ms at worst."""
OFFLOAD_BYTES: Final = 1024 * 1024
"""Above this size work runs in the thread: it usually takes 1 ms per MB, and up to 200 ms for a hostile body."""
DUTY_CYCLE: Final = 2
"""Work between the two sizes runs inline for at most one second in so many.

Handing it to the thread takes 0.1 ms, and 5 ms while the loop is busy. Bodies of 1 MB one after the other, which
take 0.7 ms of each 2.2 ms, should not pay for that.
"""
BURST_SECONDS: Final = 0.02
"""How long a burst of such work may block the loop."""


class CpuExecutor:
    """Runs a computation inline, or in the thread when it may take long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "cpu-executor")
        self._budget_at = 0.0
        """When the inline work so far is within its duty cycle again."""

    def run(self, size: int, function: Callable[..., ResultT], *arguments: Any) -> ResultT:  # noqa: ANN401 - its own
        """Return the result of a function that works on so many bytes and does not wait for anything."""
        if size <= INLINE_BYTES:
            return function(*arguments)
        started = self._clock()
        if size > OFFLOAD_BYTES or self._budget_at - started > BURST_SECONDS * DUTY_CYCLE:
            return self._offload(function, *arguments)
        try:
            return function(*arguments)
        finally:
            self._budget_at = max(self._budget_at, started) + (self._clock() - started) * DUTY_CYCLE

    def _offload(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT:  # noqa: ANN401 - as above
        try:
            running = self._thread.submit(function, *arguments)
        except RuntimeError:  # the system cannot start a thread
            return function(*arguments)
        current = getcurrent()
        if isinstance(current, Task):
            current.wait_future(running)
        try:
            return running.result()
        finally:
            # The future keeps the exception, whose traceback keeps this frame.
            del running


run: Final = CpuExecutor().run
"""Runs the computations of this process. The thread starts with the first long one, so forking before is safe."""
