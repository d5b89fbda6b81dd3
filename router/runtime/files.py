"""Reading files that an operator names, without blocking on a pipe or device at their path."""

import errno
import os
import stat
from pathlib import Path


class NotRegularFileError(OSError):
    """The path is not a regular file: reading it may block or never end."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "not a regular file")


def read_regular_file(path: Path, most_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return at most so many bytes of a regular file, and its `stat`. Raises OSError, also for a pipe."""
    # Opening a pipe would block, too.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise NotRegularFileError
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes), state
    finally:
        os.close(descriptor)


def stat_regular_file(path: Path) -> os.stat_result:
    """Return the `stat` of a regular file. Raises OSError, also for anything else."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise NotRegularFileError
    return state
