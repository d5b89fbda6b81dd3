"""Files that an operator names: read without ever waiting for somebody, as a pipe in their place would have it."""

import errno
import os
import stat
from pathlib import Path


class NotRegularError(OSError):
    """What stands at a path is no file: reading it may wait for whoever writes it, and has no end."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "not a regular file")


def read_regular(path: Path, most_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return at most so many bytes of a file, and its state as of then. Raises OSError, for a pipe too."""
    # Opening a pipe would wait as well.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise NotRegularError
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes), state
    finally:
        os.close(descriptor)


def state_of_regular(path: Path) -> os.stat_result:
    """Return the state of a file. Raises OSError, for what is no file too."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise NotRegularError
    return state
