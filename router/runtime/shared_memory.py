"""One record that all processes forked from here on read and write, those of later generations too."""

import fcntl
import mmap
import os
import struct
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_HEAD: Final = struct.Struct("QQ")
"""The length of what follows, and its checksum: a process may die while it writes."""


class SharedRecord:
    """A record of at most so many bytes, in memory that the master maps before it forks."""

    def __init__(self, most_bytes: int) -> None:
        self._memory = mmap.mmap(-1, _HEAD.size + most_bytes)
        self._most_bytes = most_bytes
        self._threads = threading.Lock()
        self._processes = open_lock_file()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let nobody else read or write; the system takes the lock from a process that dies."""
        with self._threads:
            fcntl.lockf(self._processes, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._processes, fcntl.LOCK_UN)

    def read(self) -> bytes:
        """Return the record; b"" where there is none, or none that is whole."""
        length, checksum = _HEAD.unpack_from(self._memory)
        data = self._memory[_HEAD.size : _HEAD.size + length] if length <= self._most_bytes else b""
        return data if zlib.crc32(data) == checksum else b""

    def write(self, data: bytes) -> bool:
        """Replace the record; False, and nothing is done, where it has no room."""
        if len(data) > self._most_bytes:
            return False
        self._memory[_HEAD.size : _HEAD.size + len(data)] = data
        _HEAD.pack_into(self._memory, 0, len(data), zlib.crc32(data))
        return True


def open_lock_file() -> int:
    """Open a file that nobody else sees; its record locks are those of processes, as locks of open files are not."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("router-lock")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
