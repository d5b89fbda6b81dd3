"""The worker process: one event loop that accepts clients, reads their requests and serves each in a task.

The loop holds every connection that waits for a request, for the rest of one, or for its end. A request that is
complete, or whose body is long, runs as a task of the loop. Nothing in the loop blocks for a client.
"""

import errno
import os
import select
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER

from router.contract.errors import ApiError
from router.contract.schema.model import Contract
from router.request.context import RequestContext
from router.request.headers import new_request_id
from router.request.routes import protocol_of
from router.runtime.byte_budget import ByteBudget
from router.runtime.event_loop import EventLoop, poll_fds
from router.server import draining, parse_errors, sockets, tls
from router.server.connection import BUFFERED_BYTES, RECEIVE_BYTES, Connection, Stage
from router.server.handler import handle
from router.server.limits import ACCEPT_BACKOFF_SECONDS, CUT_SECONDS, DRAIN_BYTES
from router.server.request_parser import HeaderLimits, RequestError
from router.server.timeout_queue import TimeoutQueue, longest_idle
from router.server.worker_process import BaseWorker
from router.settings.declarations import load

HEARTBEAT_SECONDS: Final = 1.0
"""The longest time between two heartbeats to the arbiter."""
LINGERING_SECONDS: Final = 2.0
"""The timeout of a lingering close: the client gets the response and not a reset."""

_NO_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_CONNECTION: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)


class Worker(BaseWorker):
    """A worker that serves all requests in one event loop, and closes its listening sockets when it drains.

    gunicorn's workers keep them open until they exit: the kernel would accept connections that no process serves, for
    as long as the longest stream runs.
    """

    _accepting = False

    def load_wsgi(self) -> None:
        """Load the app, and set up timeouts and limits from its settings, or from the environment for another app."""
        super().load_wsgi()
        services = getattr(self.wsgi, "extensions", {}).get("router")
        self.settings = services.settings if services is not None else load(os.environ)
        contract = services.artifact.contract if services is not None else Contract()
        self.errors = contract.errors
        # A body that the app rejects for its length is not received first.
        self.buffered_bytes = min(BUFFERED_BYTES, contract.limits.max_body_bytes)
        self.limits = _limits(self.cfg)
        self.tls = tls.ServerTls(self.cfg) if self.cfg.is_ssl else None
        self.worker_connections: int = self.cfg.worker_connections
        self.own_send_seconds = min(sockets.OWN_SEND_SECONDS, self.settings.client_send_timeout_seconds)
        self.new = TimeoutQueue(self.settings.client_header_timeout_seconds)
        self.reading_header = TimeoutQueue(self.settings.client_header_timeout_seconds)
        self.reading_body = TimeoutQueue(self.settings.client_body_timeout_seconds)
        self.keep_alive, self.lingering = TimeoutQueue(self.cfg.keepalive), TimeoutQueue(LINGERING_SECONDS)
        # One body of the longest kind always has room.
        capacity = max(self.settings.max_buffered_bytes, contract.limits.max_body_bytes)
        self.budget = ByteBudget(capacity, self.method_queue.defer)
        self.accept_backoff_until = self.housekeeping_at = 0.0
        self.loop = EventLoop(self.threads.submit, self.method_queue.defer)

    # --- the loop ---

    def run(self) -> None:
        """Serve until stopped, then drain."""
        self.loop.register(self.method_queue.fileno(), select.POLLIN, lambda *_: self.method_queue.run_callbacks(None))
        self.set_accept_enabled(True)
        self.state.set_ready(self.ppid)
        while self.alive:
            self._run_once()
        self._drain()

    def _drain(self) -> None:
        self.set_accept_enabled(False)
        self.show_draining()
        for queue in (self.new, self.keep_alive):
            queue.shorten(STOP_KEEPALIVE_LINGER)
        # Nothing waits for a replaced worker, so its requests may run up to the total timeout.
        end = time.monotonic() + self.settings.upstream_total_timeout_seconds
        is_capped = False
        while self.nr_conns > 0 and time.monotonic() < end:
            if not is_capped and (draining.is_draining() or not self.is_parent_alive()):
                is_capped = True
                end = min(end, time.monotonic() + self._graceful_seconds())
            self._run_once()
        for connection in [connection for queue in self._timeout_queues() for connection in queue.all()]:
            self._close(connection)
        self._cut_requests()
        self.threads.shutdown(wait=False)
        self.loop.close()
        self.method_queue.close()

    def _graceful_seconds(self) -> float:
        """Return how long requests may run at a stop: the arbiter kills the worker soon after."""
        seconds: float = min(self.settings.graceful_timeout_seconds, self.cfg.graceful_timeout - CUT_SECONDS)
        return max(0.0, seconds)

    def _cut_requests(self) -> None:
        """End the requests that outlast the drain: each gets an error and a line of the access log."""
        if self.nr_conns <= 0:
            return
        self.log.warning("the drain deadline passed: %d requests are cut off", self.nr_conns)
        self.loop.interrupt_tasks(_cut_error)
        end = time.monotonic() + CUT_SECONDS
        while self.loop.has_tasks() and time.monotonic() < end:
            self._run_once()

    def _run_once(self) -> None:
        """Run one iteration of the loop: housekeeping, then events until the next housekeeping."""
        now = time.monotonic()
        if now >= self.housekeeping_at:
            self._do_housekeeping(now)
        self.loop.dispatch(self.housekeeping_at - now)

    def _do_housekeeping(self, now: float) -> None:
        """Send a heartbeat, check that the arbiter lives, and expire timeouts."""
        self.notify()
        self._expire_timeouts()
        if not self.is_parent_alive():
            self.alive = False
        self.set_accept_enabled(now >= self.accept_backoff_until)
        accept_at = self.accept_backoff_until if self.alive and not self._accepting else now + HEARTBEAT_SECONDS
        deadlines = [queue.next_deadline() for queue in self._timeout_queues()]
        self.housekeeping_at = min(now + HEARTBEAT_SECONDS, accept_at, *deadlines)

    def _expire_timeouts(self) -> None:
        for connection in self._expired(self.reading_header):
            self._reject(connection, parse_errors.late_headers(self.settings.client_header_timeout_seconds))
        for connection in self._expired(self.reading_body):
            # The app responds itself: it knows the contract of the route.
            connection.end_body(is_late=True)
            self._dispatch(connection)
        for connection in (*self._expired(self.new), *self._expired(self.keep_alive), *self.lingering.late()):
            self._close(connection)

    def _expired(self, queue: TimeoutQueue) -> Iterator[Connection]:
        """Yield the connections whose deadline passed and that are still not readable."""
        for connection in queue.late():
            # If the whole process was stopped, data may have arrived in time: poll once more without waiting.
            if poll_fds({connection.sock.fileno(): select.POLLIN}, 0.0):
                self._on_readable(connection)
            if connection.waits_in is queue:
                yield connection

    def _timeout_queues(self) -> tuple[TimeoutQueue, ...]:
        return (self.lingering, self.keep_alive, self.new, self.reading_header, self.reading_body)

    # --- accepting ---

    def set_accept_enabled(self, enabled: bool) -> None:
        """Start or pause accepting; once the worker drains, close its listening sockets."""
        alive = self.alive  # read once: a signal may change it at any time
        enabled = enabled and alive
        if enabled != self._accepting:
            self._accepting = enabled
            for listener in self.sockets:
                if enabled:
                    listener.setblocking(False)
                    self.loop.register(listener.fileno(), select.POLLIN, partial(self.accept, listener))
                else:
                    self.loop.unregister(listener.fileno())
        if not alive:
            self.loop.flush_interest()
            for listener in self.sockets:
                listener.close()

    def accept(self, listener: Any, *_: int) -> None:  # noqa: ANN401 - gunicorn's socket
        """Accept a connection; when the worker is full, evict the one that has been idle longest."""
        is_full = self.nr_conns >= self.worker_connections
        is_stuck = is_full and longest_idle(*self._timeout_queues()) is None
        pause = ACCEPT_BACKOFF_SECONDS if is_stuck else self.accept_gate.pause(self.nr_conns)
        if pause:
            self._back_off(pause)
            return
        try:
            accepted, address = listener.accept()
        except OSError as error:
            self._on_accept_error(error)
            return
        try:
            with accepted:
                client = self.tls.wrap(accepted) if self.tls is not None else sockets.of_accepted(accepted)
        except OSError as error:  # the client disconnected, or the certificate is gone
            self.log.info("could not start TLS with a client: %s", error)
            return
        connection = Connection(client, (address, listener.getsockname()), self.limits, self.buffered_bytes)
        if is_full:
            self._evict()
        self.count_connection(1)
        self.loop.invalidate_fd(client.fileno())
        self._enqueue(connection, self.new)

    def _on_accept_error(self, error: OSError) -> None:
        """Handle an error of accept: evict a connection, or pause accepting."""
        if error.errno in _NO_CONNECTION:
            return
        if error.errno not in _NO_RESOURCES or not self._evict():
            self.log.warning("could not accept a connection: %s", error)
            self._back_off()

    def _back_off(self, seconds: float = ACCEPT_BACKOFF_SECONDS) -> None:
        self.accept_backoff_until = time.monotonic() + seconds
        self.housekeeping_at = min(self.housekeeping_at, self.accept_backoff_until)
        self.set_accept_enabled(False)

    def _evict(self) -> bool:
        """Close the connection that has been idle longest; return False when none is idle."""
        longest = longest_idle(*self._timeout_queues())
        if longest is not None:
            self._close(longest)
        return longest is not None

    # --- reading ---

    def _on_readable(self, connection: Connection, *_: int) -> None:
        if connection.waits_in is None:  # evicted for another connection earlier in this round
            return
        if connection.waits_in is self.lingering:
            self._drain_lingering(connection)
        elif connection.awaits_handshake:
            self._shake_hands(connection)
        else:
            self._receive(connection)

    def _shake_hands(self, connection: Connection) -> None:
        try:
            is_done = connection.shake_hands()
        except OSError as error:
            if isinstance(error, ssl.SSLError) and not tls.is_disconnect(error):
                self._note_rejection(connection, parse_errors.tls_error(error), _new_context(None))
            self._close(connection)
            return
        if is_done:  # the first bytes of a request may have come with the end of the handshake
            self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        try:
            piece = connection.receive()
        except sockets.WOULD_BLOCK:
            return
        except OSError:
            self._close(connection)
            return
        if piece:
            self._feed(connection, piece)
        elif connection.has_begun():
            connection.end_body()
            self._dispatch(connection)
        else:
            self._close(connection)

    def _feed(self, connection: Connection, piece: bytes) -> None:
        """Give received bytes to a connection, and serve its request or move it to the queue of its stage."""
        before = connection.stage
        try:
            stage = connection.feed(piece)
        except RequestError as error:
            self._reject(connection, error)
            return
        if stage is Stage.READY:
            self._dispatch(connection)
        elif stage is not before or connection.waits_in is None:
            self._enqueue(connection, self.reading_header if stage is Stage.HEADERS else self.reading_body)

    def _enqueue(self, connection: Connection, queue: TimeoutQueue) -> None:
        if connection.waits_in is None:
            self.loop.register(connection.sock.fileno(), select.POLLIN, partial(self._on_readable, connection))
        else:
            connection.waits_in.remove(connection)
        connection.waits_in = queue
        self.housekeeping_at = min(self.housekeeping_at, queue.add(connection))

    def _unregister(self, connection: Connection) -> None:
        if connection.waits_in is not None:
            connection.waits_in.remove(connection)
            connection.waits_in = None
            self.loop.unregister(connection.sock.fileno())

    # --- serving ---

    def _dispatch(self, connection: Connection) -> None:
        """Run a request as a task."""
        self._unregister(connection)
        connection.sock.send_seconds = self.own_send_seconds
        request = connection.take_request(self.budget)
        on_done = partial(self._on_request_done, connection)
        self.loop.spawn(partial(handle, self, connection, request), on_done)

    def _on_request_done(self, connection: Connection, keeps: bool) -> None:
        """Take a connection back after a request, with the bytes of the next one."""
        behind = connection.end_request()
        if behind is None:
            connection.must_reset = True
        if connection.is_cut:
            self._close(connection)
        elif not keeps or behind is None:
            self._linger(connection)
        elif behind:
            # Deferred: pipelined requests would otherwise recurse.
            self.method_queue.defer(self._feed, connection, behind)
        else:
            self._enqueue(connection, self.keep_alive)

    # --- errors and closing ---

    def _reject(self, connection: Connection, error: ApiError) -> None:
        """Send an error response without blocking: it fits into the send buffer of a fresh connection."""
        target = getattr(error, "target", None) or connection.target()
        context = _new_context(target)
        response = parse_errors.wire_bytes(error, context, self.errors)
        self._note_rejection(connection, error, context, target)
        with suppress(OSError):
            connection.sock.send(response)
        connection.must_reset = True
        self._linger(connection)

    def _note_rejection(
        self, connection: Connection, error: ApiError, context: RequestContext, target: str | None = None
    ) -> None:
        peer = connection.peer[0] if connection.peer is not None else "a local client"
        self.log.info("rejected a request of %s: %s", peer, parse_errors.redacted(error))
        context.ended_at = time.monotonic()
        getattr(self.wsgi, "note_rejected", lambda *_: None)(context, target)

    def _linger(self, connection: Connection) -> None:
        """Start a lingering close: shut down sending, and close once the client has closed or a timeout passed."""
        try:
            connection.stop_sending()
        except OSError:
            self._close(connection)
        else:
            self._enqueue(connection, self.lingering)

    def _drain_lingering(self, connection: Connection) -> None:
        try:
            piece = connection.sock.recv(RECEIVE_BYTES)
        except sockets.WOULD_BLOCK:
            return
        except OSError:
            piece = b""
        connection.drained += len(piece)
        connection.must_reset = connection.must_reset and bool(piece)
        if not piece or connection.drained > DRAIN_BYTES:
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._unregister(connection)
        self.count_connection(-1)
        connection.close()


def _cut_error() -> ApiError:
    message = "The router was stopped before this response was complete"
    return ApiError("shutting_down", message, may_have_run=True)


def _limits(cfg: Any) -> HeaderLimits:  # noqa: ANN401 - gunicorn's Config
    """Return gunicorn's limits; what it calls unlimited has a limit here."""
    longest = HeaderLimits(8190, 32768, 8190)
    return HeaderLimits(
        min(cfg.limit_request_line or longest.line_bytes, longest.line_bytes),
        min(cfg.limit_request_fields or longest.fields, longest.fields),
        cfg.limit_request_field_size or longest.field_bytes,
    )


def _new_context(target: str | None) -> RequestContext:
    path = target.partition("?")[0] if target is not None else None
    return RequestContext(request_id=new_request_id(), protocol=protocol_of(path))
