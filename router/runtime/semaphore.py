"""A counting semaphore without a queue: it bounds how many requests run at once."""

import threading


class Semaphore:
    """So many slots; each acquired one is released again."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = count
        self._lock = threading.Lock()

    def try_acquire(self) -> bool:
        """Acquire a slot if one is free; return whether one was."""
        with self._lock:
            if self._free == 0:
                return False
            self._free -= 1
            return True

    def release(self) -> None:
        """Release a slot."""
        with self._lock:
            self._free += 1

    def in_use(self) -> int:
        """Return how many slots are in use now."""
        return self._count - self._free

    def is_exhausted(self) -> bool:
        """Return whether no slot is free now."""
        return self._free == 0
