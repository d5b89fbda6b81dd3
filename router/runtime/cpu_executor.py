"""What may compute long is done apart from a worker's loop, so that other clients are served meanwhile.

That is one thread: a second one that computes would make the loop, and every other thread, wait twice as long for each
of their own steps, and nothing would be done sooner.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from greenlet import getcurrent

from router.runtime.event_loop import Turn

ResultT = TypeVar("ResultT")

SHORT_BYTES: Final = 16 * 1024
"""What is no longer is done at once: it takes 3 ms at worst, and 20 µs as a rule."""
LONG_BYTES: Final = 1024 * 1024
"""What is longer is done apart: as a rule it takes 1 ms for each MB, and up to 200 ms where a client means ill."""
SHARE: Final = 2
"""What is between the two is done at once as long as that is one in so many seconds.

To hand it over takes 0.1 ms, and 5 ms where the loop has other things to do: bodies of 1 MB from one client after the
other, 0.7 ms in 2.2, should not wait for that.
"""
BURST_SECONDS: Final = 0.02
"""How long work of that kind may keep a loop from all else, in a moment in which much of it comes."""


class LongWork:
    """Does what may compute long, at once or apart."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._apart = ThreadPoolExecutor(1, "long-work")
        self._paid_at = 0.0
        """When what was done at once has taken no more than its share."""

    def do(self, size: int, function: Callable[..., ResultT], *arguments: Any) -> ResultT:  # noqa: ANN401 - its own
        """Return what a function returns, which works on so many bytes and waits for nothing."""
        if size <= SHORT_BYTES:
            return function(*arguments)
        begun = self._clock()
        if size > LONG_BYTES or self._paid_at - begun > BURST_SECONDS * SHARE:
            return self._do_apart(function, *arguments)
        try:
            return function(*arguments)
        finally:
            self._paid_at = max(self._paid_at, begun) + (self._clock() - begun) * SHARE

    def _do_apart(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT:  # noqa: ANN401 - as above
        try:
            running = self._apart.submit(function, *arguments)
        except RuntimeError:  # the system gives no thread
            return function(*arguments)
        current = getcurrent()
        if isinstance(current, Turn):
            current.wait_for_thread(running)
        try:
            return running.result()
        finally:
            # It keeps what was raised, and that keeps this frame.
            del running


do: Final = LongWork().do
"""Does the long work of this process. No thread begins before there is some, so that workers may be forked before."""
