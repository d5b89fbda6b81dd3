"""The worker process: gunicorn's threaded worker, which closes its port when it stops and cannot hang at Ctrl-C."""

import signal

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

    def set_accept_enabled(self, enabled: bool) -> None:
        """Take connections or pause; once the worker stops, close its listening sockets."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listener in self.sockets:
                listener.close()
