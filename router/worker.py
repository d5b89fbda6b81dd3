"""The worker process: gunicorn's threaded worker, which closes its port when it stops and cannot hang at Ctrl-C."""

import os
import signal
from types import FrameType

from gunicorn.workers.gthread import ThreadWorker


class Worker(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """A threaded worker that refuses new connections while its last requests finish.

    gunicorn's own keeps its listening socket open until it exits: connections made meanwhile would be taken by the
    kernel and answered by nobody, for as long as the longest stream runs.
    """

    def init_signals(self) -> None:
        """Leave Ctrl-C, which a terminal sends to the workers too, to the master: it tells them to stop.

        Two signals at once would meet in gunicorn's handler, which locks itself out then.
        """
        super().init_signals()
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as gunicorn calls it
        """Stop at once, whatever runs: gunicorn's own waits for a lock that the code it interrupts may hold."""
        self.alive = False
        self.cfg.worker_int(self)
        os._exit(0)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Take connections or pause; once the worker stops, close its listening sockets."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listener in self.sockets:
                listener.close()
