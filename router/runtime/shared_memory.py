"""A record in shared memory: all processes forked after its creation read and write it."""

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

_HEADER: Final = struct.Struct("QQ")
"""The length and the checksum of the data after it: a process may die while it writes."""


class SharedRecord:
    """A record of at most so many bytes, in memory that the arbiter maps before it forks."""

    def __init__(self, most_bytes: int) -> None:
        self._memory = mmap.mmap(-1, _HEADER.size + most_bytes)
        self.max_bytes = most_bytes
        self._threads = threading.Lock()
        self._processes = open_lock_file()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock on the record; the system releases it when a process dies."""
        with self._threads:
            fcntl.lockf(self._processes, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._processes, fcntl.LOCK_UN)

    def read(self) -> bytes:
        """Return the record; b"" when there is none or it is incomplete."""
        length, checksum = _HEADER.unpack_from(self._memory)
        data = self._memory[_HEADER.size : _HEADER.size + length] if length <= self.max_bytes else b""
        return data if zlib.crc32(data) == checksum else b""

    def write(self, data: bytes) -> bool:
        """Replace the record; return False, and change nothing, when it is too long."""
        if len(data) > self.max_bytes:
            return False
        self._memory[_HEADER.size : _HEADER.size + len(data)] = data
        _HEADER.pack_into(self._memory, 0, len(data), zlib.crc32(data))
        return True


def open_lock_file() -> int:
    """Open an anonymous file for record locks, which belong to processes and not to open files."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("router-lock")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
