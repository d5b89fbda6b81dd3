"""The process side of a worker: its signals, its threads and its state, where they differ from gunicorn's."""

import logging
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, Final

from gunicorn.workers import base
from gunicorn.workers.gthread import PollableMethodQueue

from router.balancing.accept_table import AcceptGate
from router.server.worker_state import WorkerState

MAX_THREADS: Final = 128
"""Most threads of a worker that open connections to engines, where that blocks: over TLS and for host names."""

_LOG = logging.getLogger("router")
_UNSUPPORTED: Final = {
    "proxy_protocol": ("--proxy-protocol", "the PROXY protocol"),
    "http2_cleartext": ("--http2-cleartext", "HTTP/2"),
}
"""Options of gunicorn for what this worker does not read: they must not be ignored silently."""


class Threads(ThreadPoolExecutor):
    """A pool of threads that goes on with those it has when the system gives no more."""

    is_short = False

    def _adjust_thread_count(self) -> None:
        # The work is already in the queue: a running thread takes it, or the next one that starts.
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            if not self.is_short:
                self.is_short = True
                _LOG.warning("the system cannot start a thread, so requests wait for the existing ones: %s", error)


class BaseWorker(base.Worker):  # type: ignore[misc] # gunicorn has no types
    """A worker as the arbiter and the system see it. It has one thread for requests, in which its event loop runs."""

    alive: bool

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - gunicorn's
        super().__init__(*arguments, **options)
        self.state = WorkerState()
        self.method_queue = PollableMethodQueue()
        self.accept_gate = AcceptGate(time.monotonic)
        self.nr_conns = 0
        """How many connections are open."""

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:  # noqa: ANN401, ARG003 - as gunicorn calls it
        """Stop the start for an option of gunicorn that this worker cannot honour."""
        for name, (option, what) in _UNSUPPORTED.items():
            if getattr(cfg, name) != "off":
                sys.exit(f"router: {option} cannot be used: the router's worker does not serve {what}; remove it")
        if "h2" in cfg.http_protocols:
            sys.exit("router: --http-protocols cannot be used: the router's worker serves HTTP/1 only; remove h2")

    def init_process(self) -> None:
        """Prepare the queue and the threads before the app is loaded."""
        self.method_queue.init()
        # One thread starts now: later the system may not be able to start one.
        self.threads = Threads(MAX_THREADS, "connect")
        self.threads.submit(int)
        super().init_process()

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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as gunicorn calls it
        """Begin to drain, and wake the event loop for it."""
        if self.alive:
            self.alive = False
            self.method_queue.defer(int)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as gunicorn calls it
        """Exit at once: gunicorn's handler waits for a lock that the interrupted code may hold."""
        self.alive = False
        self.cfg.worker_int(self)
        os._exit(0)

    def is_parent_alive(self) -> bool:
        """Return whether the arbiter that started this worker still runs."""
        if self.ppid == os.getppid():
            return True
        self.log.info("the arbiter has gone, so this worker stops")
        return False
