"""Whether the router is draining before it stops: one flag, shared by the arbiter and all workers."""

import mmap
from typing import Final

_SHARED = mmap.mmap(-1, 1)
_DRAINING: Final = 1


def begin_draining() -> None:
    """Mark the router as draining, for the workers that run and those that start later."""
    _SHARED[0] = _DRAINING


def is_draining() -> bool:
    """Return whether the arbiter has begun to stop."""
    return _SHARED[0] == _DRAINING
