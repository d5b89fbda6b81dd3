"""What a worker process tells its master of itself: that it serves by now, and that it takes nothing more."""

import mmap
import os
import signal
from contextlib import suppress
from typing import Final

_BOOTS: Final = 0
_SERVES: Final = 1
_FINISHES: Final = 2


class Standing:
    """A byte that the master makes before it forks a worker, and which that worker alone writes."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def boots(self) -> bool:
        """Tell whether the worker serves nobody yet."""
        return self._memory[0] == _BOOTS

    def finishes(self) -> bool:
        """Tell whether the worker only finishes what it has begun."""
        return self._memory[0] == _FINISHES

    def serve(self, master: int) -> None:
        """Tell the master that this worker takes requests."""
        self._tell(_SERVES, master)

    def finish(self, master: int) -> None:
        """Tell the master that this worker takes no more requests."""
        self._tell(_FINISHES, master)

    def _tell(self, what: int, master: int) -> None:
        self._memory[0] = what
        if master == os.getppid():
            # It looks at its workers when one has ended; a worker of another user is heard within a second.
            with suppress(OSError):
                os.kill(master, signal.SIGCHLD)
