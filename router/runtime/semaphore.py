"""Places that requests take and give back: a bound without a queue."""

import threading


class Places:
    """So many places, of which each taken one is given back."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = count
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a place if one is free, and tell whether there was one."""
        with self._lock:
            if self._free == 0:
                return False
            self._free -= 1
            return True

    def give_back(self) -> None:
        """Free a place again."""
        with self._lock:
            self._free += 1

    def taken(self) -> int:
        """Return how many places are taken at the moment."""
        return self._count - self._free

    def are_taken(self) -> bool:
        """Tell whether there is no free place at the moment."""
        return self._free == 0
