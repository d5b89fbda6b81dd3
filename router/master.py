"""The master process: gunicorn's, which does not stand still while workers that a reload replaced finish."""

import signal
from typing import Any

from gunicorn.arbiter import Arbiter

from router import lifecycle


class Master(Arbiter):  # type: ignore[misc] # gunicorn has no types
    """A master that keeps as many workers at work as it should, whatever older ones still have to finish.

    gunicorn's own waits in a reload for the old workers, deaf to further signals, and counts them as workers: one that
    dies meanwhile is not replaced as long as an old stream runs.
    """

    WORKERS: dict[int, Any]
    _replaced: dict[int, Any] = {}  # noqa: RUF012 - as gunicorn has its own workers; set anew before it changes
    """Workers by process id that a reload replaced, and which finish what they have."""

    def living(self) -> list[Any]:
        """Return all workers, those that only finish too."""
        return [*self._replaced.values(), *self.WORKERS.values()]

    def reload(self) -> None:
        """Read everything anew, let new workers work, and tell the old ones to finish, without waiting for them."""
        old: dict[int, Any] = dict(self.WORKERS)
        self.WORKERS = {}
        self._replaced = {**self._replaced, **old}
        try:
            super().reload()
        except BaseException:
            for process in old:
                self._replaced.pop(process, None)
            self.WORKERS = {**old, **self.WORKERS}
            raise
        for process in old:
            self.kill_worker(process, signal.SIGTERM)

    def reap_workers(self) -> None:
        """Take leave of workers that ended, whichever they are."""
        self._with_replaced(super().reap_workers)

    def manage_workers(self) -> None:
        """Fork the workers that are missing; every second, take note of the API keys that they would begin with."""
        lifecycle.reread_keys_in_master()
        super().manage_workers()

    def murder_workers(self) -> None:
        """Kill workers that show no sign of life, whichever they are."""
        self._with_replaced(super().murder_workers)

    def stop(self, graceful: bool = True) -> None:
        """Let all workers finish, or kill them."""
        self.WORKERS = {**self._replaced, **self.WORKERS}
        self._replaced = {}
        super().stop(graceful)

    def _with_replaced(self, step: Any) -> None:  # noqa: ANN401 - a method of gunicorn's
        """Do a step of gunicorn's on all workers, and keep apart again those of them that are left."""
        replaced = self._replaced
        self.WORKERS = {**replaced, **self.WORKERS}
        try:
            step()
        finally:
            self._replaced = {process: worker for process, worker in replaced.items() if process in self.WORKERS}
            self.WORKERS = {process: worker for process, worker in self.WORKERS.items() if process not in replaced}
