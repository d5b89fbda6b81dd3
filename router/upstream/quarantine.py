"""Quarantine: connections to an engine that sent unsolicited bytes are not reused for a while."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from router.upstream.connection import Endpoint

QUARANTINE_SECONDS: Final = 60.0
"""How long no connection to such an engine is reused."""

WHILE_IDLE: Final = "over an idle connection"
AFTER_RESPONSE: Final = "after a response"
BEFORE_REQUEST: Final = "before it received the request"
FOREIGN_ID: Final = "with the id of another request"
_LOG = logging.getLogger("router")


class Quarantine:
    """The engines that sent unsolicited bytes lately, with counts. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[Endpoint, float] = {}
        self.counts: Counter[Endpoint] = Counter()
        """How often each engine sent such bytes to this process; engines that have left keep their count."""
        self._lock = threading.Lock()

    def add(self, endpoint: Endpoint, how: str) -> None:
        """Record and log that an engine sent such bytes; `how` is one of the constants above."""
        with self._lock:
            self._until[endpoint] = self._clock() + QUARANTINE_SECONDS
            self.counts[endpoint] += 1
            count = self.counts[endpoint]
        url = f"{endpoint.scheme}://{endpoint.authority}"
        text = "engine %s sent unsolicited bytes %s: its connections are not reused for %.0f s (count: %d)"
        _LOG.error(text, url, how, QUARANTINE_SECONDS, count)

    def is_quarantined(self, endpoint: Endpoint) -> bool:
        """Return whether no connection to an engine may be reused at the moment."""
        until = self._until.get(endpoint) if self._until else None
        if until is None:
            return False
        if until > self._clock():
            return True
        self._until.pop(endpoint, None)
        return False

    def forget(self, endpoint: Endpoint) -> None:
        """End the quarantine of an engine that has left."""
        with self._lock:
            self._until.pop(endpoint, None)
