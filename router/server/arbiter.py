"""The arbiter (gunicorn's master process), with reloads in which old workers serve until the new ones are ready."""

import signal
import time
from collections.abc import Callable
from typing import Any, Final

from gunicorn.arbiter import Arbiter

START_SECONDS: Final = 10.0
"""How long another reload is held back while the workers of the previous one start."""


class RouterArbiter(Arbiter):  # type: ignore[misc] # gunicorn has no types
    """An arbiter that keeps the configured number of workers ready, however many old ones are still draining.

    gunicorn's arbiter stops the old workers of a reload before the new ones are ready, waits for them without handling
    further signals, and counts a draining worker as a worker: nothing replaces it while its streams run.
    """

    WORKERS: dict[int, Any]
    _replaced: dict[int, Any] = {}  # noqa: RUF012 - as gunicorn keeps its workers; replaced before it changes
    """Replaced workers by process id: they are draining or will be soon."""
    _still_serving: frozenset[int] = frozenset()
    """The replaced workers that serve until the new ones are ready."""
    _reload_pending = False
    _start_deadline = 0.0
    before_manage: Callable[[], object] | None = None
    """Called before each round of managing workers."""

    def all_workers(self) -> list[Any]:
        """Return all workers, including those that are draining."""
        return [*self._replaced.values(), *self.WORKERS.values()]

    def handle_hup(self) -> None:
        """Reload; while workers are starting, reload once after that, however often it was requested."""
        if self._is_starting():
            self._reload_pending = True
        else:
            self._reload_pending = False
            super().handle_hup()

    def reload(self) -> None:
        """Reload the configuration and start new workers; the old ones are stopped when the new ones are ready."""
        old: dict[int, Any] = dict(self.WORKERS)
        before = self._replaced, self._still_serving
        self.WORKERS = {}
        self._replaced = {**self._replaced, **old}
        self._still_serving |= old.keys()
        self._start_deadline = time.monotonic() + START_SECONDS
        try:
            super().reload()
        except BaseException:
            self._replaced, self._still_serving = before
            self.WORKERS = {**old, **self.WORKERS}
            raise

    def manage_workers(self) -> None:
        """Start missing workers and stop surplus ones.

        Called at least every second, and when a worker has changed its state.
        """
        if self.before_manage is not None:
            self.before_manage()
        draining = {pid: worker for pid, worker in self.WORKERS.items() if _is_draining(worker)}
        self._replaced = {**self._replaced, **draining}
        self.WORKERS = {pid: worker for pid, worker in self.WORKERS.items() if pid not in draining}
        super().manage_workers()
        self._stop_replaced()
        if self._reload_pending:
            self.handle_hup()

    def reap_workers(self) -> None:
        """Reap exited workers, including replaced ones."""
        self._with_replaced(super().reap_workers)

    def murder_workers(self) -> None:
        """Kill workers without a heartbeat, including replaced ones."""
        self._with_replaced(super().murder_workers)

    def stop(self, graceful: bool = True) -> None:
        """Stop all workers, gracefully or at once."""
        self.WORKERS = {**self._replaced, **self.WORKERS}
        self._replaced = {}
        super().stop(graceful)

    def _is_starting(self) -> bool:
        return time.monotonic() < self._start_deadline and any(map(_is_starting, self.WORKERS.values()))

    def _stop_replaced(self) -> None:
        """Stop one replaced worker for each new one that is ready, and all that never became ready."""
        missing = self.num_workers - sum(not _is_starting(worker) for worker in self.WORKERS.values())
        waiting = {pid: worker for pid, worker in self._replaced.items() if pid in self._still_serving}
        serving = sorted((pid for pid in waiting if not _is_starting(waiting[pid])), reverse=True)
        kept = frozenset(serving[: max(0, missing)])
        for pid in waiting.keys() - kept:
            self.kill_worker(pid, signal.SIGTERM)
        self._still_serving = kept

    def _with_replaced(self, step: Any) -> None:  # noqa: ANN401 - a method of gunicorn's
        """Run a step of gunicorn's arbiter on all workers, and separate the remaining replaced ones again."""
        replaced = self._replaced
        self.WORKERS = {**replaced, **self.WORKERS}
        try:
            step()
        finally:
            self._replaced = {pid: worker for pid, worker in replaced.items() if pid in self.WORKERS}
            self.WORKERS = {pid: worker for pid, worker in self.WORKERS.items() if pid not in replaced}


def _is_starting(worker: Any) -> bool:  # noqa: ANN401 - gunicorn's; workers of other classes have no known state
    return hasattr(worker, "state") and bool(worker.state.is_starting())


def _is_draining(worker: Any) -> bool:  # noqa: ANN401 - gunicorn's
    return hasattr(worker, "state") and bool(worker.state.is_draining())
