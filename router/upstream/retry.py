"""Retry budget and backoff, so that retries do not multiply an outage."""

import random
import threading
from typing import Final

RATIO: Final = 0.1
"""Retries per request, in the long run."""
RESERVE: Final = 10.0
"""Retries that may come in a burst before the ratio applies."""
FIRST_BACKOFF_SECONDS: Final = 0.05
MAX_BACKOFF_SECONDS: Final = 1.0
_MAX_DOUBLINGS: Final = 10


class RetryBudget:
    """Limits retries to a share of the requests, over all engines of a process. Safe to use from many threads."""

    def __init__(self) -> None:
        self._balance = RESERVE
        self._lock = threading.Lock()

    def deposit(self) -> None:
        """Deposit the share of one new request."""
        with self._lock:
            self._balance = min(RESERVE, self._balance + RATIO)

    def withdraw(self) -> bool:
        """Withdraw one retry and return whether the budget had one."""
        with self._lock:
            if self._balance < 1:
                return False
            self._balance -= 1
            return True


def backoff_seconds(retries: int) -> float:
    """Return the backoff after so many retries: random, below a bound that doubles."""
    longest = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(retries, _MAX_DOUBLINGS))
    return random.uniform(0, longest)  # noqa: S311 - spreads load, keeps no secret
