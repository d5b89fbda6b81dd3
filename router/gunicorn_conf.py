"""gunicorn's configuration for the router: `gunicorn -c python:router.gunicorn_conf router.wsgi`.

PORT and WEB_CONCURRENCY are gunicorn's own and honoured by it; flags on its command line win over what stands here.
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
from types import FrameType
from typing import Any, Final

from gunicorn import sock

from router import lifecycle, settings, startup
from router.artifact.format import ArtifactError
from router.discovery import discovery
from router.runtime.temporary import temporary_folder
from router.server.arbiter import Master
from router.server.limits import most_connections, most_long
from router.server.sockets import TlsClientSocket
from router.settings import SettingError, Settings
from router.telemetry import shared_metrics


def _settings() -> Settings:
    try:
        return settings.load(os.environ)
    except SettingError as error:
        sys.exit(startup.prefixed(error))


def _temporary_folder() -> str:
    try:
        return str(temporary_folder())
    except OSError as error:
        sys.exit(f"router: there is no folder for temporary files: {error.strerror}")


M_ARENA_MAX: Final = -8
"""The parameter of glibc's mallopt (malloc.h) that bounds how many arenas there are."""

PAUSE_SECONDS: Final = 1.0
"""Time between two tries to begin, of a worker that could not."""

_own = _settings()

wsgi_app = "router.wsgi"
worker_class = "router.server.worker.Worker"
logger_class = "router.telemetry.diagnostics.NonBlockingLogger"
# Beyond the inference requests in flight there are threads for long ones on their way in, and some that refuse one more
# or tell a probe that all is well.
threads = _own.max_in_flight + most_long(_own.max_in_flight) + 16
worker_connections = most_connections(_own.max_in_flight, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
# Under a read-only root gunicorn's own choice may not exist.
worker_tmp_dir = _temporary_folder()
# A worker of this class is alive while its main loop is; a long stream does not count.
timeout = 60
graceful_timeout = math.ceil(_own.graceful_timeout_seconds)
# Longer than the idle time of the usual load balancers (60 s), so that they never write to a connection closing here.
keepalive = 75
control_socket_disable = True
# The other one waits for more of what this one refuses, and what is plain is read without either.
http_parser = "python"
# No header of a client may say where it comes from or rename a path.
forwarded_allow_ips = ""
forwarder_headers = ""
header_map = "refuse"


def ssl_context(config: Any, default_ssl_context_factory: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:  # noqa: ANN401, ARG001 - gunicorn's Config
    """Bound reads and sends of clients under TLS as of those in the clear."""
    context = default_ssl_context_factory()
    context.sslsocket_class = TlsClientSocket
    return context


def on_starting(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Read and check the artifact before anything listens; workers inherit it over fork."""
    server.__class__ = Master  # gunicorn's command line makes its own, and asks nobody
    startup.configure_logging()
    if server.cfg.workers < 1:
        sys.exit(f"router: --workers cannot be used: found {server.cfg.workers}, expected at least 1")
    lifecycle.share_in_flight_table()
    if discovery.names_in(_own.engines):
        discovery.load_resolver()
    _take_all_descriptors()
    _take_few_arenas()
    try:
        startup.say_what_is_enforced(_own, lifecycle.load_in_master(_own))
    except ArtifactError as error:
        sys.exit(startup.prefixed(error))
    startup.say_what_is_open(_own, server.cfg.address)
    if _own.metrics:
        try:
            shared_metrics.prepare()
        except OSError as error:
            sys.exit(f"router: ROUTER_METRICS finds no room in the folder of temporary files: {error.strerror}")


def _take_few_arenas() -> None:
    """Let glibc keep the memory of all threads in two arenas: of one for each thread it frees little again."""
    with contextlib.suppress(OSError, AttributeError):  # another C library has its own ways
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def _take_all_descriptors() -> None:
    """Raise the soft limit of open files to the hard one: it is low for the sake of select(), which is not used here.

    Each connection of a client costs a descriptor, and each request one more to an engine.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS says unlimited, and takes less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def on_reload(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Read the artifact anew at SIGHUP; a broken one changes nothing."""
    own = lifecycle.settings_in_force(os.environ)
    startup.say_what_is_enforced(own, lifecycle.reload_in_master(own), reloaded=True)
    if server.cfg.preload_app:
        # gunicorn itself would hand the app that it has loaded already to the new workers.
        sys.modules.pop(wsgi_app, None)
        server.app.callable = None
        server.app.wsgi()
    _listen_for_metrics(server)


def when_ready(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Put the drain before gunicorn's own stop, which closes the listening socket at once; open the metrics' port."""
    # `profilec serve` holds reloads back until here: before gunicorn has its handlers, one would end the process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    _listen_for_metrics(server)

    def stop(_signal: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        server.signal(signal.SIGTERM, frame)

    def drop_reload() -> None:
        return

    def drain(signal_number: int, frame: FrameType | None) -> None:
        if os.getpid() != server.pid:
            # A worker that is told to stop before it set its own handlers; the drain is not its to begin.
            sys.exit(0)
        # Reloads that wait would each be worked off before the stop.
        server.handle_hup = drop_reload
        is_over = lifecycle.is_draining() or _own.drain_seconds == 0
        # Workers also tell by it that this is no reload, after which requests may take their time.
        lifecycle.begin_draining()
        if is_over:
            stop(signal_number, frame)
            return
        server.log.info("Draining: /readyz says 503 for %g s, while requests are still served", _own.drain_seconds)
        signal.setitimer(signal.ITIMER_REAL, _own.drain_seconds)

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, drain)


def _listen_for_metrics(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter
    """Open the metrics' own port, on the same address as the main one: gunicorn's flags would win over its `bind`."""
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
    """Let no worker begin with API keys of long ago, should their file be broken when it looks; give it its row."""
    lifecycle.reread_keys_in_master()
    lifecycle.share_in_flight_table().allocate_slot(worker.age, [other.age for other in server.living()])


def post_worker_init(worker: Any) -> None:  # noqa: ANN401 - gunicorn's Worker
    """Let a worker know its engines before it takes requests; one that was forked from a loaded app does not yet."""
    try:
        startup.meet_engines(worker.wsgi)
    except Exception:  # at exit codes 3 and 4 gunicorn would give all up, the workers that serve included
        worker.log.exception("a worker could not begin; another one is tried")
        time.sleep(PAUSE_SECONDS)
        os._exit(1)


def worker_int(worker: Any) -> None:  # noqa: ANN401 - gunicorn's Worker
    """Write and count what is still to be told before a worker ends at once."""
    startup.flush(getattr(worker, "wsgi", None))


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter and Worker
    """Write and count what is still to be told before a worker ends."""
    startup.flush(getattr(worker, "wsgi", None))


def child_exit(server: Any, worker: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter and Worker
    """Keep what a worker that has ended had counted, however it did, and count nothing more as in flight there."""
    lifecycle.share_in_flight_table().free_slot(worker.age)
    shared_metrics.merge_dead_worker(worker.pid)


def on_exit(server: Any) -> None:  # noqa: ANN401, ARG001 - gunicorn's Arbiter
    """Leave nothing behind."""
    shared_metrics.remove()
