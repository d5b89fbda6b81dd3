"""The process side of a worker: where its signals, its thread pool and its state differ from gunicorn's."""

import os
import signal
import time
from types import FrameType
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from router.balancing.accept_table import AcceptGate
from router.server.limits import Threads
from router.server.worker_state import WorkerState


class BaseWorker(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """A threaded worker as the arbiter and the system see it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - gunicorn's
        super().__init__(*arguments, **options)
        self.state = WorkerState()
        self.accept_gate = AcceptGate(time.monotonic)

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:  # noqa: ANN401 - gunicorn's
        """Do not warn about too few connections for the threads: waiting connections need no thread here."""

    def count_connection(self, change: int) -> None:
        """Count a connection that was opened (1) or closed (-1), for the arbiter and for the other workers."""
        self.nr_conns += change
        self.accept_gate.count(self.nr_conns)

    def notify(self) -> None:
        """Send a heartbeat to the arbiter and, while this worker accepts, to the other workers."""
        super().notify()
        if self.alive:
            self.accept_gate.beat()

    def show_draining(self) -> None:
        """Show the arbiter and the other workers that this worker accepts nothing more."""
        self.accept_gate.close()
        self.state.set_draining(self.ppid)

    def init_signals(self) -> None:
        """Ignore Ctrl-C, which a terminal sends to the workers too: the arbiter stops them.

        Two signals at once would deadlock in gunicorn's handler.
        """
        super().init_signals()
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def get_thread_pool(self) -> Threads:
        """Return the thread pool for requests. One thread starts now: later the system may not be able to start one."""
        pool = Threads(self.cfg.threads, "request")
        pool.submit(int)
        return pool

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as gunicorn calls it
        """Exit at once: gunicorn's handler waits for a lock that the interrupted code may hold."""
        self.alive = False
        self.cfg.worker_int(self)
        os._exit(0)
