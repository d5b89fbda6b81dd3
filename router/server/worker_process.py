"""What gunicorn's threaded worker does otherwise here as a process: its signals, its threads, its standing."""

import os
import signal
from types import FrameType
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from router.server.limits import Threads
from router.server.worker_state import Standing


class Process(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """A worker process as its master and the system see it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - gunicorn's
        super().__init__(*arguments, **options)
        self.standing = Standing()

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:  # noqa: ANN401 - gunicorn's
        """Say nothing of too few connections for the threads: here connections that wait need none."""

    def init_signals(self) -> None:
        """Leave Ctrl-C, which a terminal sends to the workers too, to the master: it tells them to stop.

        Two signals at once would meet in gunicorn's handler, which locks itself out then.
        """
        super().init_signals()
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def get_thread_pool(self) -> Threads:
        """Return the threads for requests, of which one starts now: later the system may have none to give."""
        pool = Threads(self.cfg.threads, "request")
        pool.submit(int)
        return pool

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as gunicorn calls it
        """Stop at once, whatever runs: gunicorn's own waits for a lock that the code it interrupts may hold."""
        self.alive = False
        self.cfg.worker_int(self)
        os._exit(0)
