"""The worker process: gunicorn's threaded worker with an event loop, in which waiting clients hold no thread.

The loop holds every connection that waits for a request, for the rest of one, or for its end. A plain request that is
complete runs as a task of the loop, any other in a thread, after gunicorn's parser. The loop never blocks for a client.
"""

import errno
import os
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final

from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER

from router.contract.errors import ApiError, overloaded
from router.contract.schema.model import Contract
from router.runtime.event_loop import EventLoop, poll_fds
from router.server import draining, parse_errors, sockets, tls
from router.server.connection import FINISH_SECONDS, Connection, Waiting, missed_least
from router.server.handler import handle
from router.server.limits import ACCEPT_BACKOFF_SECONDS, ReadingPlaces, most_long
from router.server.request_framing import HELD_BYTES, Stage
from router.server.request_parser import PlainReader
from router.server.worker_process import BaseWorker
from router.settings.declarations import load

HEARTBEAT_SECONDS: Final = 1.0
"""The longest time between two heartbeats to the arbiter."""
LINGERING_BYTES: Final = 64 * 1024 * 1024
"""How much is read and dropped from a lingering connection."""

_NO_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_CONNECTION: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)


class Worker(BaseWorker):
    """A threaded worker whose threads only run requests, and which closes its listening sockets when it drains.

    gunicorn's worker keeps them open until it exits: the kernel would accept connections that no process serves, for as
    long as the longest stream runs.
    """

    def set_accept_enabled(self, enabled: bool) -> None:
        """Start or pause accepting; once the worker drains, close its listening sockets."""
        alive = self.alive  # read once: a signal may change it at any time
        enabled = enabled and alive
        if enabled != self._accepting:
            self._accepting: bool = enabled
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

    def load_wsgi(self) -> None:
        """Load the app, and set up timeouts and limits from its settings, or from the environment for another app."""
        super().load_wsgi()
        services = getattr(self.wsgi, "extensions", {}).get("router")
        self.settings = services.settings if services is not None else load(os.environ)
        contract = services.artifact.contract if services is not None else Contract()
        # A body that the app rejects for its length is dispatched at once.
        self.most_body = min(HELD_BYTES, contract.limits.max_body_bytes)
        self.errors = contract.errors
        self.new = Waiting(self.settings.client_header_timeout_seconds)
        self.reading_header = Waiting(self.settings.client_header_timeout_seconds)
        self.reading_body = Waiting(self.settings.client_body_timeout_seconds)
        self.keep_alive, self.lingering = Waiting(self.cfg.keepalive), Waiting(FINISH_SECONDS)
        self.uploads = ReadingPlaces(most_long(self.settings.max_in_flight), self.method_queue.defer)
        self.accept_backoff_until = self.housekeeping_at = 0.0
        # gunicorn subtracts what its threads may need; here idle connections are evicted instead.
        self.max_keepalived = self.worker_connections
        # The loop only frames HTTP/1.
        self.is_opaque = self.cfg.http2_cleartext != "off"
        self.poller.close()
        self.loop = EventLoop(self.tpool.submit, self.method_queue.defer)
        async_routes = () if self.log.access_log_enabled else getattr(self.wsgi, "async_routes", ())
        self.plain = PlainReader(self.cfg, async_routes)

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
                end = min(end, time.monotonic() + self.cfg.graceful_timeout)
            self._run_once()
        for connection in [connection for queue in self._timeout_queues() for connection in queue.all()]:
            self._close(connection)
        if self.nr_conns > 0:
            self.log.warning("the drain deadline passed: %d requests are cut off", self.nr_conns)
        self.tpool.shutdown(wait=False)
        self.loop.close()
        self.method_queue.close()

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
            self._reject(connection, parse_errors.late_head(self.settings.client_header_timeout_seconds))
        for connection in self._expired(self.reading_body):
            # The app responds itself, as when a thread reads the body: it knows the contract of the route.
            connection.sock.is_late = True
            self._dispatch(connection)
        for connection in (*self._expired(self.new), *self._expired(self.keep_alive), *self.lingering.late()):
            self._close(connection)

    def _expired(self, queue: Waiting) -> Iterator[Connection]:
        """Yield the connections whose deadline passed and that are still not readable."""
        for connection in queue.late():
            # If the whole process was stopped, data may have arrived in time: poll once more without waiting.
            if poll_fds({connection.sock.fileno(): select.POLLIN}, 0.0):
                self._on_readable(connection)
            if connection.waits_in is queue:
                yield connection

    def _timeout_queues(self) -> tuple[Waiting, ...]:
        return (self.lingering, self.keep_alive, self.new, self.reading_header, self.reading_body)

    # --- accepting ---

    def accept(self, listener: Any, *_: int) -> None:  # noqa: ANN401 - gunicorn's socket
        """Accept a connection; when the worker is full, evict the one that has been idle longest."""
        is_full = self.nr_conns >= self.worker_connections
        is_stuck = is_full and missed_least(*self._timeout_queues()) is None
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
                client = tls.wrap(accepted, self.cfg) if self.cfg.is_ssl else sockets.of_accepted(accepted)
        except OSError as error:  # the client disconnected, or the certificate is gone
            self.log.info("could not start TLS with a client: %s", error)
            return
        connection = Connection(self.cfg, client, (address, listener.getsockname()), self.settings, self.most_body)
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
        longest = missed_least(*self._timeout_queues())
        if longest is not None:
            self._close(longest)
        return longest is not None

    # --- reading ---

    def _on_readable(self, connection: Connection, *_: int) -> None:
        if connection.waits_in is None:  # evicted for another connection earlier in this round
            return
        if connection.waits_in is self.lingering:
            self._drain_lingering(connection)
        elif self.is_opaque or connection.is_http2:
            self._dispatch(connection)
        elif connection.awaits_handshake:
            self._do_handshake(connection)
        else:
            self._receive(connection)

    def _do_handshake(self, connection: Connection) -> None:
        try:
            is_done = connection.shake_hands()
        except OSError as error:
            response = parse_errors.refusal(error)
            if response is not None and not tls.is_disconnect(error):
                self._note_rejection(connection.client, error, response)
            self._close(connection)
            return
        if is_done and tls.is_http2(connection.sock):
            self._dispatch(connection)
        elif is_done:  # the first bytes of a request may have come with the end of the handshake
            self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        try:
            piece = connection.receive()
        except tls.WOULD_BLOCK:
            return
        except OSError:
            self._close(connection)
            return
        connection.arrival.data += piece
        if piece:
            self._requeue(connection)
        elif connection.arrival.data:
            # The parser handles a truncated request: it finds the end at once.
            self._dispatch(connection)
        else:
            self._close(connection)

    def _requeue(self, connection: Connection) -> None:
        """Move a connection to the timeout queue of its current stage, or dispatch its request."""
        stage = connection.arrival.stage()
        if stage is Stage.HERE:
            self._dispatch(connection)
        elif stage is Stage.LONG:
            self._dispatch_streaming(connection)
        elif stage is not connection.stage or connection.waits_in is None:
            connection.stage = stage
            queues = {Stage.HEAD: self.reading_header, Stage.BODY: self.reading_body}
            self._enqueue(connection, queues.get(stage, self.keep_alive))

    def _enqueue(self, connection: Connection, queue: Waiting) -> None:
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

    def _dispatch(self, connection: Connection) -> None:
        """Run a request: as a task of the loop if it is plain, else in a thread."""
        self._unregister(connection)
        plain = self.plain.read(connection)
        if plain is None:
            self.enqueue_req(connection)
        else:
            on_done = partial(self._on_request_done, connection, plain.left)
            self.loop.spawn(partial(handle, self, connection, plain), on_done)

    def _dispatch_streaming(self, connection: Connection) -> None:
        """Run a request whose body is still arriving, unless too many are: some threads are kept for complete ones."""
        if self.uploads.take(connection):
            self._dispatch(connection)
        else:
            self._reject(connection, overloaded())

    # --- after a request ---

    def _on_request_done(self, connection: Connection, left: bytes, keeps: bool) -> None:
        """Take a connection back after a request that ran as a task, with the bytes of the next one."""
        self.uploads.give_back(connection)
        connection.expect(left)
        if not keeps:
            self._linger(connection)
        elif left:
            # Deferred: pipelined requests would otherwise recurse.
            self.method_queue.defer(self._requeue, connection)
        else:
            self._requeue(connection)

    def handle_request(self, req: Any, conn: Connection) -> bool:  # noqa: ANN401 - gunicorn's
        """Run a request in a thread, after gunicorn parsed its headers."""
        conn.sock.deadline = time.monotonic() + self.settings.client_body_timeout_seconds
        conn.sock.send_seconds = conn.own_send_seconds
        try:
            return bool(super().handle_request(req, conn))
        except OSError:
            # Without Content-Length, an HTTP/1.0 client takes the end of the connection for the end of the response.
            conn.is_cut = req.version < (1, 1)
            raise

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        # gunicorn reads the unread rest of the body: bound its time.
        conn.sock.deadline = time.monotonic() + FINISH_SECONDS
        return bool(super()._keepalive_after(conn, keepalive))

    def finish_request(self, conn: Connection, fs: Future[bool]) -> None:
        """Take a connection back from a thread."""
        self.uploads.give_back(conn)
        conn.forget_request()
        try:
            keeps = not fs.cancelled() and fs.exception() is None and fs.result()
            if conn.is_cut:
                conn.reset()
                self._close(conn)
                return
            if not keeps:
                self._linger(conn)
                return
            conn.rest()
            if conn.is_http2 and conn.has_decrypted():
                self._dispatch(conn)
            else:
                self._requeue(conn)
        except (OSError, ValueError):  # the socket is already closed
            self._close(conn)

    # --- errors and closing ---

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:  # noqa: ANN401, ARG002 - gunicorn's
        """Send the error response for what gunicorn could not parse or the app could not handle."""
        response = parse_errors.refusal(exc)
        if response is None:
            self.log.error("error handling a request", exc_info=exc)
            response = ApiError("internal_error", "The router failed to handle this request")
        else:
            self._note_rejection(addr, exc, response)
        with suppress(OSError):
            client.sendall(self._error_bytes(response, getattr(exc, "target", None)))

    def _reject(self, connection: Connection, error: ApiError) -> None:
        """Send an error response without blocking: it fits into the send buffer of a fresh connection."""
        self._note_rejection(connection.client, error, error)
        with suppress(OSError):
            connection.sock.send(self._error_bytes(error, connection.arrival.target()))
        self._linger(connection)

    def _note_rejection(self, address: Any, error: Exception, response: ApiError) -> None:  # noqa: ANN401 - as the system has it
        peer = address[0] if isinstance(address, tuple) else "a local client"
        self.log.info("rejected a request of %s: %s", peer, parse_errors.told_of(error))
        getattr(self.wsgi, "count_rejected", lambda _: None)(response)

    def _error_bytes(self, error: ApiError, target: str | None) -> bytes:
        return parse_errors.wire_bytes(error, self.errors, target)

    def _linger(self, connection: Connection) -> None:
        """Start a lingering close: shut down sending, and close once the client has closed or a timeout passed."""
        try:
            connection.stop_blocking()
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(connection)
        else:
            self._enqueue(connection, self.lingering)

    def _drain_lingering(self, connection: Connection) -> None:
        try:
            piece = connection.sock.recv(HELD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        connection.drained += len(piece)
        if not piece or connection.drained > LINGERING_BYTES:
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._unregister(connection)
        self.count_connection(-1)
        connection.close()
