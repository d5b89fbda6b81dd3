"""The master process: gunicorn's, in which workers take turns: the old one serves until the new one does."""

import signal
import time
from typing import Any, Final

from gunicorn.arbiter import Arbiter

from router import lifecycle

BOOT_SECONDS: Final = 10.0
"""How long a reload waits, together with those that come meanwhile, for the workers that are just being started."""


class Master(Arbiter):  # type: ignore[misc] # gunicorn has no types
    """A master that keeps as many workers at work as it should, whatever older ones still have to finish.

    gunicorn's own stops the old workers of a reload before the new ones serve, waits for them, deaf to further signals,
    and counts them as workers, as it does one that stops by itself: nothing replaces it as long as its streams run.
    """

    WORKERS: dict[int, Any]
    _replaced: dict[int, Any] = {}  # noqa: RUF012 - as gunicorn has its own workers; set anew before it changes
    """Workers by process id in whose place there are others: they finish what they have, or will soon."""
    _serving_on: frozenset[int] = frozenset()
    """Those of them that were not told to finish yet: they serve until the others do."""
    _is_reload_due = False
    _booted_by = 0.0

    def living(self) -> list[Any]:
        """Return all workers, those that only finish too."""
        return [*self._replaced.values(), *self.WORKERS.values()]

    def handle_hup(self) -> None:
        """Reload, unless workers are just being started: then once they serve, for all that was asked for meanwhile."""
        if self._is_booting():
            self._is_reload_due = True
        else:
            self._is_reload_due = False
            super().handle_hup()

    def reload(self) -> None:
        """Read everything anew and start new workers; the old ones are told to finish when those serve."""
        old: dict[int, Any] = dict(self.WORKERS)
        before = self._replaced, self._serving_on
        self.WORKERS = {}
        self._replaced = {**self._replaced, **old}
        self._serving_on |= old.keys()
        self._booted_by = time.monotonic() + BOOT_SECONDS
        try:
            super().reload()
        except BaseException:
            self._replaced, self._serving_on = before
            self.WORKERS = {**old, **self.WORKERS}
            raise

    def manage_workers(self) -> None:
        """Start the workers that are missing, and let those finish that are in excess.

        Called at least every second, and when a worker has told something of itself.
        """
        lifecycle.reread_keys_in_master()
        finishing = {process: worker for process, worker in self.WORKERS.items() if _finishes(worker)}
        self._replaced = {**self._replaced, **finishing}
        self.WORKERS = {process: worker for process, worker in self.WORKERS.items() if process not in finishing}
        super().manage_workers()
        self._relieve()
        if self._is_reload_due:
            self.handle_hup()

    def reap_workers(self) -> None:
        """Take leave of workers that ended, whichever they are."""
        self._with_replaced(super().reap_workers)

    def murder_workers(self) -> None:
        """Kill workers that show no sign of life, whichever they are."""
        self._with_replaced(super().murder_workers)

    def stop(self, graceful: bool = True) -> None:
        """Let all workers finish, or kill them."""
        self.WORKERS = {**self._replaced, **self.WORKERS}
        self._replaced = {}
        super().stop(graceful)

    def _is_booting(self) -> bool:
        return time.monotonic() < self._booted_by and any(map(_boots, self.WORKERS.values()))

    def _relieve(self) -> None:
        """Tell as many replaced workers to finish as there are new ones that serve, and those that never served."""
        missing = self.num_workers - sum(not _boots(worker) for worker in self.WORKERS.values())
        waiting = {process: worker for process, worker in self._replaced.items() if process in self._serving_on}
        serving = sorted((process for process in waiting if not _boots(waiting[process])), reverse=True)
        stay = frozenset(serving[: max(0, missing)])
        for process in waiting.keys() - stay:
            self.kill_worker(process, signal.SIGTERM)
        self._serving_on = stay

    def _with_replaced(self, step: Any) -> None:  # noqa: ANN401 - a method of gunicorn's
        """Do a step of gunicorn's on all workers, and keep apart again those of them that are left."""
        replaced = self._replaced
        self.WORKERS = {**replaced, **self.WORKERS}
        try:
            step()
        finally:
            self._replaced = {process: worker for process, worker in replaced.items() if process in self.WORKERS}
            self.WORKERS = {process: worker for process, worker in self.WORKERS.items() if process not in replaced}


def _boots(worker: Any) -> bool:  # noqa: ANN401 - gunicorn's; of another class than ours nobody knows
    return hasattr(worker, "standing") and bool(worker.standing.boots())


def _finishes(worker: Any) -> bool:  # noqa: ANN401 - gunicorn's
    return hasattr(worker, "standing") and bool(worker.standing.finishes())
