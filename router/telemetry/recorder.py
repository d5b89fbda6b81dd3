"""Requests that are over, on their way to metrics or traces: taken there by a thread, not by those that serve."""

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from router.request.context import RequestContext
from router.runtime.pid import cached_pid

TICK_SECONDS: Final = 0.1
"""How long a request that is over may wait."""
PAUSE_SECONDS: Final = 10.0
"""How long after a sink could not be opened that is tried again."""
MAX_QUEUED: Final = 1000
"""How many wait before the thread that ends one more takes all of them there."""

_LOG = logging.getLogger("router")


class Exporter(Protocol):
    """Where requests that are over are taken."""

    def add(self, contexts: Iterator[RequestContext]) -> None:
        """Take in requests that are over; called in regular time without any, too."""


ExporterT = TypeVar("ExporterT", bound=Exporter)


class ExporterQueue(Generic[ExporterT]):
    """Takes each request that is over to a sink, dropping none. Each process opens its own, at the latest at its first.

    Neither threads nor what sinks hold open survive a fork.
    """

    def __init__(self, open_exporter: Callable[[], ExporterT]) -> None:
        self._open_exporter = open_exporter
        self._queue: deque[RequestContext] = deque()
        self._lock = threading.Lock()
        self._process = 0
        self._failed_in = 0
        self._try_again_at = 0.0
        self._cause = ""
        """Why no sink could be opened, at last."""
        self._exporter: ExporterT

    def note(self, context: RequestContext) -> None:
        """Have a request recorded that is over; where no sink could be opened, nothing is."""
        if self.has_failed():
            return
        self._queue.append(context)
        if self._process != cached_pid():
            with suppress(Exception):  # it said so itself
                self.start()
        elif len(self._queue) >= MAX_QUEUED:
            self.flush()

    def start(self) -> ExporterT:
        """Return the sink of this process; the first to ask opens it. Raises what opening it raises."""
        if self._process == cached_pid():
            return self._exporter
        with self._lock:
            if self._process != cached_pid():
                try:
                    self._exporter = self._open_exporter()
                except Exception as error:
                    self._failed_in = cached_pid()
                    self._try_again_at = time.monotonic() + PAUSE_SECONDS
                    self._queue.clear()
                    cause = " ".join(str(error).split()) or type(error).__name__
                    if cause != self._cause:  # it is tried again and again
                        _LOG.error("metrics or traces cannot begin, and are missing from this process: %s", cause)
                    self._cause = cause
                    raise
                self._process = cached_pid()
                self._failed_in = 0
                atexit.register(self.flush)
                self._start_thread()
        return self._exporter

    def has_failed(self) -> bool:
        """Tell whether nothing is recorded in this process, because its sink could not be opened a moment ago."""
        return self._failed_in == cached_pid() and time.monotonic() < self._try_again_at

    def flush(self) -> None:
        """Take all that waits to the sink."""
        with self._lock:
            if self._process != cached_pid():
                return
            try:
                self._exporter.add(_taken(self._queue))
            except Exception:  # noqa: BLE001 - no record is worth the end of what serves
                _LOG.exception("some requests are missing in the metrics or traces")

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._flush_loop, name="recorder", daemon=True).start()
        except RuntimeError:
            _LOG.warning("metrics and traces come late: the system has no thread for them")

    def _flush_loop(self) -> None:
        while True:
            time.sleep(TICK_SECONDS)
            self.flush()


def _taken(waiting: deque[RequestContext]) -> Iterator[RequestContext]:
    while waiting:
        yield waiting.popleft()
