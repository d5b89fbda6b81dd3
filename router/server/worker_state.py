"""The state of a worker process, which the arbiter reads: starting, ready or draining."""

import mmap
import os
import signal
from contextlib import suppress
from typing import Final

_STARTING: Final = 0
_READY: Final = 1
_DRAINING: Final = 2


class WorkerState:
    """A shared byte that the arbiter creates before it forks a worker, and that only this worker writes."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def is_starting(self) -> bool:
        """Return whether the worker does not serve yet."""
        return self._memory[0] == _STARTING

    def is_draining(self) -> bool:
        """Return whether the worker accepts nothing more and finishes its requests."""
        return self._memory[0] == _DRAINING

    def set_ready(self, arbiter_pid: int) -> None:
        """Mark this worker as ready and notify the arbiter."""
        self._set(_READY, arbiter_pid)

    def set_draining(self, arbiter_pid: int) -> None:
        """Mark this worker as draining and notify the arbiter."""
        self._set(_DRAINING, arbiter_pid)

    def _set(self, state: int, arbiter_pid: int) -> None:
        self._memory[0] = state
        if arbiter_pid == os.getppid():
            # SIGCHLD wakes the arbiter. A worker of another user may not send it; the arbiter polls each second.
            with suppress(OSError):
                os.kill(arbiter_pid, signal.SIGCHLD)
