"""The queue of finished requests for metrics or traces; a background thread exports them."""

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
"""Interval of the exports."""
PAUSE_SECONDS: Final = 10.0
"""Delay before an exporter that could not be opened is tried again."""
MAX_QUEUED: Final = 1000
"""Queue length at which the thread of the next request exports the queue itself."""

_LOG = logging.getLogger("router")


class Exporter(Protocol):
    """Receives finished requests."""

    def add(self, contexts: Iterator[RequestContext]) -> None:
        """Export finished requests; called regularly, also without any."""


ExporterT = TypeVar("ExporterT", bound=Exporter)


class ExporterQueue(Generic[ExporterT]):
    """Gives each finished request to an exporter and drops none. Each process opens its own exporter.

    Threads and connections of exporters do not survive a fork.
    """

    def __init__(self, open_exporter: Callable[[], ExporterT]) -> None:
        self._open_exporter = open_exporter
        self._queue: deque[RequestContext] = deque()
        self._lock = threading.Lock()
        self._process = 0
        self._failed_in = 0
        self._try_again_at = 0.0
        self._cause = ""
        """Last reason why no exporter could be opened."""
        self._exporter: ExporterT

    def note(self, context: RequestContext) -> None:
        """Queue a finished request; without an exporter it is ignored."""
        if self.has_failed():
            return
        self._queue.append(context)
        if self._process != cached_pid():
            with suppress(Exception):  # it was logged
                self.start()
        elif len(self._queue) >= MAX_QUEUED:
            self.flush()

    def start(self) -> ExporterT:
        """Return the exporter of this process; the first call opens it. Raises what opening raises."""
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
                    if cause != self._cause:  # log each cause once
                        _LOG.error("metrics or traces cannot start and are missing from this process: %s", cause)
                    self._cause = cause
                    raise
                self._process = cached_pid()
                self._failed_in = 0
                atexit.register(self.flush)
                self._start_thread()
        return self._exporter

    def has_failed(self) -> bool:
        """Return whether nothing is recorded because the exporter of this process could not be opened."""
        return self._failed_in == cached_pid() and time.monotonic() < self._try_again_at

    def flush(self) -> None:
        """Export the queue."""
        with self._lock:
            if self._process != cached_pid():
                return
            try:
                self._exporter.add(_taken(self._queue))
            except Exception:  # noqa: BLE001 - a failed export must not stop serving
                _LOG.exception("some requests are missing in the metrics or traces")

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._flush_loop, name="recorder", daemon=True).start()
        except RuntimeError:
            _LOG.warning("metrics and traces are delayed: no thread could be started for them")

    def _flush_loop(self) -> None:
        while True:
            time.sleep(TICK_SECONDS)
            self.flush()


def _taken(waiting: deque[RequestContext]) -> Iterator[RequestContext]:
    while waiting:
        yield waiting.popleft()
