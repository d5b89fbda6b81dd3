"""The process beside the router of `profilec serve`: runs the mock engine, watches sources, removes what was made.

It is forked before this process becomes gunicorn, whose child it then is. It ends when the last process of the router
has: all of these hold the write end of a pipe.
"""

import os
import select
import signal
import traceback
from contextlib import ExitStack
from typing import IO, Final, NoReturn

from compiler.diagnostics import CommandError
from compiler.serve.contract import ServedContract
from compiler.serve.watch import POLL_SECONDS, SourceWatcher
from router.mock_engine import MockEngine

_HUP: Final = {signal.SIGHUP}


class Sidecar:
    """What has to run as long as the router does; `models` are those of a mock engine, None: there is none."""

    def __init__(self, contract: ServedContract, models: tuple[str, ...] | None, *, watches: bool) -> None:
        self._contract = contract
        self._models = models
        self._watches = watches
        self.is_needed = contract.is_compiled or watches or models is not None
        self.engine_url: str | None = None
        """Where the mock engine listens, once started; None where there is none."""

    def start(self) -> None:
        """Fork the process, and wait until its engine listens. Raises CommandError when it does not."""
        # A reload that comes before gunicorn is ready would kill it; its conf lets signals through then.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HUP)
        router = os.getpid()
        router_exit, router_end = os.pipe()
        url, url_of_child = os.pipe()
        if os.fork() == 0:
            os.close(router_end)
            os.close(url)
            _run_and_exit(self, router, router_exit, os.fdopen(url_of_child, "w"))
        os.close(router_exit)
        os.close(url_of_child)
        os.set_inheritable(router_end, True)
        with os.fdopen(url) as reader:
            said = reader.read()
        if self._models is not None and not said:
            raise CommandError("the mock engine did not start")
        self.engine_url = said or None

    def run_until_router_exits(self, router: int, router_exit: int, ready: IO[str]) -> None:
        """Do what there is to do until the router has ended."""
        with ExitStack() as stack:
            stack.callback(self._contract.remove)
            with ready:
                if self._models is not None:
                    engine = stack.enter_context(MockEngine(self._models))
                    engine.recording = False
                    ready.write(engine.url)
            watch = SourceWatcher(self._contract) if self._watches else None
            while not select.select([router_exit], [], [], POLL_SECONDS if watch else None)[0]:
                # The id of a master that has ended may be another process's by now.
                if watch is not None and watch.poll() and os.getppid() == router:
                    os.kill(router, signal.SIGHUP)


def _run_and_exit(sidecar: Sidecar, router: int, router_exit: int, ready: IO[str]) -> NoReturn:
    """Run in the forked process, of which nothing may return into what the parent does next."""
    code = 1
    try:
        # Ctrl-C in a terminal is for the router: its last streams still need their engine.
        os.setsid()
        sidecar.run_until_router_exits(router, router_exit, ready)
        code = 0
    except Exception:  # noqa: BLE001 - the router goes on without it, and people should know why
        traceback.print_exc()
    finally:
        os._exit(code)
