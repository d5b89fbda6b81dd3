"""gunicorn's configuration for the router: `gunicorn -c python:router.gunicorn_conf router.wsgi`.

PORT and WEB_CONCURRENCY are gunicorn's own and honoured by it; flags on its command line win over what stands here.
"""

import math
import os
import signal
import sys
from types import FrameType
from typing import Any

from router import lifecycle, settings, startup
from router.artifact import ArtifactError
from router.settings import SettingError, Settings


def _settings() -> Settings:
    try:
        return settings.load(os.environ)
    except SettingError as error:
        sys.exit(f"router: {error}")


_own = _settings()

wsgi_app = "router.wsgi"
worker_class = "router.worker.Worker"
threads = _own.max_in_flight
worker_connections = max(1000, 4 * _own.max_in_flight)
# A worker of this class is alive while its main loop is; a long stream does not count.
timeout = 60
graceful_timeout = math.ceil(_own.graceful_seconds)
# Longer than the idle time of the usual load balancers (60 s), so that they never write to a connection closing here.
keepalive = 75
control_socket_disable = True
# No header of a client may say where it comes from or rename a path.
forwarded_allow_ips = ""
forwarder_headers = ""
header_map = "refuse"


def on_starting(server: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter
    """Read and check the artifact before anything listens; workers inherit it over fork."""
    startup.configure_logging()
    try:
        startup.say_what_is_enforced(_own, lifecycle.load_in_master(_own))
    except ArtifactError as error:
        sys.exit(f"router: {error}")


def on_reload(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Read the artifact anew at SIGHUP; a broken one changes nothing."""
    own = lifecycle.settings_in_force(os.environ)
    startup.say_what_is_enforced(own, lifecycle.reload_in_master(own), reloaded=True)
    if server.cfg.preload_app:
        # gunicorn itself would hand the app that it has loaded already to the new workers.
        sys.modules.pop(wsgi_app, None)
        server.app.callable = None
        server.app.wsgi()


def when_ready(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Put the drain before gunicorn's own stop, which closes the listening socket at once."""

    def stop(_signal: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        server.signal(signal.SIGTERM, frame)

    def drain(signal_number: int, frame: FrameType | None) -> None:
        if os.getpid() != server.pid:
            # A worker that is told to stop before it set its own handlers; the drain is not its to begin.
            sys.exit(0)
        if lifecycle.is_draining() or _own.drain_seconds == 0:
            stop(signal_number, frame)
            return
        lifecycle.begin_draining()
        signal.setitimer(signal.ITIMER_REAL, _own.drain_seconds)

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, drain)


def pre_fork(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter and Worker
    """Let no worker begin with API keys of long ago, should their file be broken when it looks."""
    lifecycle.reread_keys_in_master()


def post_worker_init(worker: Any) -> None:  # noqa: ANN401 - gunicorn's Worker
    """Let a worker know its engines before it takes requests; one that was forked from a loaded app does not yet."""
    startup.meet_engines(worker.wsgi)


def worker_int(worker: Any) -> None:  # noqa: ANN401 - gunicorn's Worker
    """Write what the access log still holds before a worker ends at once."""
    startup.flush_access_log(getattr(worker, "wsgi", None))


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter and Worker
    """Write what the access log still holds before a worker ends."""
    startup.flush_access_log(getattr(worker, "wsgi", None))
