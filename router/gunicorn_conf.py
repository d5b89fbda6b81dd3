"""gunicorn's configuration for the router: `gunicorn -c python:router.gunicorn_conf router.wsgi`.

gunicorn itself reads PORT and WEB_CONCURRENCY; flags on its command line override this file.
"""

import contextlib
import ctypes
import math
import os
import resource
import signal
import ssl
import sys
import time
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any, Final

from gunicorn import sock

from router import lifecycle, startup
from router.artifact.format import ArtifactError
from router.balancing.accept_table import AcceptGate
from router.discovery import discovery
from router.runtime.temporary import temporary_folder
from router.server import draining, tls
from router.server.arbiter import RouterArbiter
from router.server.limits import CUT_SECONDS, most_connections
from router.settings.declarations import SettingError, Settings, load
from router.telemetry import shared_metrics


def _settings() -> Settings:
    try:
        return load(os.environ)
    except SettingError as error:
        sys.exit(startup.start_error(error))


def _temporary_folder() -> str:
    try:
        return str(temporary_folder())
    except OSError as error:
        sys.exit(f"router: no folder for temporary files is writable: {error.strerror}")


M_ARENA_MAX: Final = -8
"""The parameter of glibc's mallopt (malloc.h) that limits the number of arenas."""

RESTART_DELAY_SECONDS: Final = 1.0
"""How long a worker that could not start waits before it exits, and another one is started."""

_own = _settings()

wsgi_app = "router.wsgi"
worker_class = "router.server.worker.Worker"
logger_class = "router.telemetry.diagnostics.NonBlockingLogger"
worker_connections = most_connections(_own.max_in_flight, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
# Under a read-only root gunicorn's default may not exist.
worker_tmp_dir = _temporary_folder()
# Seconds without a heartbeat of the event loop; a long stream does not count.
timeout = 60
# The arbiter kills what is left after this time: later than the worker cuts it, with an error for each client.
graceful_timeout = math.ceil(_own.graceful_timeout_seconds + CUT_SECONDS) + 1
# Longer than the idle timeout of common load balancers (60 s): they never reuse a connection that closes here.
keepalive = 75
control_socket_disable = True
# For gunicorn's own workers: its other parser waits for more input where this one rejects.
http_parser = "python"
# Clients' headers must not change the peer address or the path.
forwarded_allow_ips = ""
forwarder_headers = ""
header_map = "refuse"


def ssl_context(config: Any, default_ssl_context_factory: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:  # noqa: ANN401, ARG001 - gunicorn's Config
    """Give TLS connections the same deadlines as plain ones, and offer HTTP/1.1 alone."""
    return tls.configure(default_ssl_context_factory())


def on_starting(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Load and check the artifact before any socket listens; workers inherit it over fork."""
    server.__class__ = RouterArbiter  # gunicorn's command line creates its own class, without an option
    server.before_manage = lifecycle.reload_keys
    startup.configure_logging()
    if server.cfg.workers < 1:
        sys.exit(f"router: --workers cannot be used: found {server.cfg.workers}, expected at least 1")
    lifecycle.shared_tables()
    if discovery.names_in(_own.engines):
        discovery.load_resolver()
    _raise_descriptor_limit()
    _limit_arenas()
    try:
        startup.log_enforced_contract(_own, lifecycle.load_artifact(_own))
    except ArtifactError as error:
        sys.exit(startup.start_error(error))
    startup.log_exposure(_own, server.cfg.address)
    if _own.metrics:
        try:
            shared_metrics.prepare()
        except OSError as error:
            sys.exit(f"router: ROUTER_METRICS: no space in the folder for temporary files: {error.strerror}")
    # Workers inherit the modules: each then starts without importing them, and shares their memory. Not before
    # the metrics are prepared, since prometheus_client looks for their folder when it is imported.
    import_module("router.app")


def _limit_arenas() -> None:
    """Limit glibc to two malloc arenas: with one per thread it returns little memory to the system."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard one; it is low only for programs that use select().

    Each client connection needs a descriptor, and each request another one for its engine.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS reports unlimited but accepts less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def on_reload(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Reload the artifact at SIGHUP; an invalid one changes nothing."""
    own = lifecycle.active_settings(os.environ)
    startup.log_enforced_contract(own, lifecycle.reload_artifact(own), reloaded=True)
    if server.cfg.preload_app:
        # gunicorn would give the new workers the app that it loaded before.
        sys.modules.pop(wsgi_app, None)
        server.app.callable = None
        server.app.wsgi()
    _listen_for_metrics(server)


def when_ready(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Install the drain before gunicorn's stop, which closes the listening sockets at once; open the metrics port."""
    # `profilec serve` blocks SIGHUP until here: before gunicorn installs its handlers, it would end the process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    _listen_for_metrics(server)

    def stop(_signal: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        server.signal(signal.SIGTERM, frame)

    def drop_reload() -> None:
        return

    def drain(signal_number: int, frame: FrameType | None) -> None:
        if os.getpid() != server.pid:
            # A worker that is stopped before it installed its handlers; only the arbiter drains.
            sys.exit(0)
        # Pending reloads would run before the stop.
        server.handle_hup = drop_reload
        is_immediate = draining.is_draining() or _own.drain_seconds == 0
        # It also shows workers that this is a stop and not a reload, after which requests may run on.
        draining.begin_draining()
        if is_immediate:
            stop(signal_number, frame)
            return
        server.log.info("Draining: /readyz responds 503 for %g s, while requests are still served", _own.drain_seconds)
        signal.setitimer(signal.ITIMER_REAL, _own.drain_seconds)

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, drain)


def _listen_for_metrics(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Open the metrics port on the address of the main one; gunicorn's flags would override it in `bind`."""
    addresses = [listener.getsockname() for listener in server.LISTENERS]
    hosts = [(address[0], address[1]) for address in addresses if isinstance(address, tuple)]
    port = _own.metrics_port
    if port is None or port in [port for _, port in hosts]:
        return
    host = hosts[0][0] if hosts else "127.0.0.1"
    kind = sock.TCP6Socket if ":" in host else sock.TCPSocket
    try:
        listener = kind((host, port), server.cfg, server.log)
    except OSError as error:
        sys.exit(f"router: ROUTER_METRICS_PORT cannot be listened on: {error.strerror}")
    server.LISTENERS.append(listener)
    server.log.info("Metrics at: %s", listener)


def pre_fork(server: Any, worker: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter and Worker
    """Keep the newest valid API keys for the new worker, and allocate its row of the shared tables."""
    lifecycle.reload_keys()
    tables = lifecycle.shared_tables()
    tables.rows.allocate(worker.age, [other.age for other in server.all_workers()])
    # With a listening socket of its own, a worker cannot leave a connection to others.
    if not server.cfg.reuse_port:
        worker.accept_gate = AcceptGate(time.monotonic, tables.accept)


def post_worker_init(worker: Any) -> None:  # noqa: ANN401 - gunicorn's Worker
    """Start discovery, health checks and telemetry before a worker accepts requests."""
    try:
        startup.start_services(worker.wsgi)
    except Exception:  # with exit codes 3 and 4 gunicorn would stop, including the workers that serve
        worker.log.exception("a worker could not start; another one is started")
        time.sleep(RESTART_DELAY_SECONDS)
        os._exit(1)


def worker_int(worker: Any) -> None:  # noqa: ANN401 - gunicorn's Worker
    """Flush the telemetry of a worker before it exits at once."""
    startup.flush_telemetry(getattr(worker, "wsgi", None))


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter and Worker
    """Flush the telemetry of a worker before it exits."""
    startup.flush_telemetry(getattr(worker, "wsgi", None))


def child_exit(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter and Worker
    """Keep the counters of a worker that exited, and clear its row of the shared tables."""
    lifecycle.shared_tables().rows.free(worker.age)
    shared_metrics.merge_dead_worker(worker.pid)


def on_exit(server: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter
    """Remove the files of the metrics."""
    shared_metrics.remove()
