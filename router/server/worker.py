"""The worker process: gunicorn's threaded worker, in which no client holds a thread before its request is here.

One loop holds every connection that waits: for a request, for the rest of one, or for its end. A plain request that has
come is served in turns of the loop; a thread is taken for any other, and for one whose rest only gunicorn's parser can
judge. Nothing in the loop ever waits for one client.
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

from router import lifecycle
from router.contract.errors import ApiError, overloaded
from router.contract.schema.model import Contract
from router.runtime.event_loop import EventLoop, poll_fds
from router.server import parse_errors, sockets, tls
from router.server.connection import FINISH_SECONDS, Connection, Waiting, missed_least
from router.server.handler import serve
from router.server.limits import ReadingPlaces, most_long
from router.server.request_framing import HELD_BYTES, Stage
from router.server.request_parser import PlainReader
from router.server.worker_process import Process

ROUND_SECONDS: Final = 1.0
"""Longest time between two signs of life to the master."""
PAUSE_SECONDS: Final = 0.1
"""How long no connection is accepted when the system has no room for one, and none can be given up for it."""
FINISH_BYTES: Final = 64 * 1024 * 1024
"""How much is read, and dropped, from a connection that is being closed."""

_OUT_OF_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOBODY_THERE: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)


class Worker(Process):
    """A threaded worker whose threads are for requests alone, and which closes its port when it stops.

    gunicorn's own keeps its listening socket open until it exits: connections made meanwhile would be taken by the
    kernel and answered by nobody, for as long as the longest stream runs.
    """

    def set_accept_enabled(self, enabled: bool) -> None:
        """Take connections or pause; once the worker stops, close its listening sockets."""
        alive = self.alive  # once, as a signal may end it at any time
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
        """Load the app, and learn from it and its settings how long clients may take."""
        super().load_wsgi()
        self.own = lifecycle.settings_in_force(os.environ)
        services = getattr(self.wsgi, "extensions", {}).get("router")
        contract = services.artifact.contract if services is not None else Contract()
        # A body that the app refuses for its length has to be told at once.
        self.most_body = min(HELD_BYTES, contract.limits.max_body_bytes)
        self.errors = contract.errors
        self.silent, self.heads = (Waiting(self.own.client_header_timeout_seconds) for _ in range(2))
        self.bodies = Waiting(self.own.client_body_timeout_seconds)
        self.kept, self.finishing = Waiting(self.cfg.keepalive), Waiting(FINISH_SECONDS)
        self.reading = ReadingPlaces(most_long(self.own.max_in_flight), self.method_queue.defer)
        self.accept_from = self.look_at = 0.0  # when to see to something else than what happens at descriptors
        # gunicorn's own takes off what its threads may need; here connections make room for each other.
        self.max_keepalived = self.worker_connections
        # Other protocols than HTTP/1 are none of the loop's business.
        self.is_opaque = self.cfg.http2_cleartext != "off"
        self.poller.close()
        self.loop = EventLoop(self.tpool.submit, self.method_queue.defer)
        in_turns = () if self.log.access_log_enabled else getattr(self.wsgi, "async_routes", ())
        self.plain = PlainReader(self.cfg, in_turns)

    # --- the loop ---

    def run(self) -> None:
        """Serve until told to stop, then finish what has begun."""
        self.loop.register(self.method_queue.fileno(), select.POLLIN, lambda *_: self.method_queue.run_callbacks(None))
        self.set_accept_enabled(True)
        self.standing.serve(self.ppid)
        while self.alive:
            self._round()
        self._finish()

    def _finish(self) -> None:
        self.set_accept_enabled(False)
        self.standing.finish(self.ppid)
        for queue in (self.silent, self.kept):
            queue.shorten(STOP_KEEPALIVE_LINGER)
        # Nothing waits for a worker that was replaced, so its requests may take the time that requests may take.
        end = time.monotonic() + self.own.upstream_total_timeout_seconds
        is_capped = False
        while self.nr_conns > 0 and time.monotonic() < end:
            if not is_capped and (lifecycle.is_draining() or not self.is_parent_alive()):
                is_capped = True
                end = min(end, time.monotonic() + self.cfg.graceful_timeout)
            self._round()
        for connection in [connection for queue in self._queues() for connection in queue.all()]:
            self._drop(connection)
        if self.nr_conns > 0:
            self.log.warning("the time to finish is over: %d requests are cut", self.nr_conns)
        self.tpool.shutdown(wait=False)
        self.loop.close()
        self.method_queue.close()

    def _round(self) -> None:
        """Do what is to be done now, or wait a moment for it."""
        now = time.monotonic()
        if now >= self.look_at:
            self._look_around(now)
        self.loop.dispatch(self.look_at - now)

    def _look_around(self, now: float) -> None:
        """Show the master a sign of life, look for its own, and for connections that have had their time."""
        self.notify()
        self._expire_timeouts()
        if not self.is_parent_alive():
            self.alive = False
        self.set_accept_enabled(now >= self.accept_from)
        accept_from = self.accept_from if self.alive and not self._accepting else now + ROUND_SECONDS
        self.look_at = min(now + ROUND_SECONDS, accept_from, *[queue.next_deadline() for queue in self._queues()])

    def _expire_timeouts(self) -> None:
        for connection in self._late(self.heads):
            self._refuse(connection, parse_errors.late_head(self.own.client_header_timeout_seconds))
        for connection in self._late(self.bodies):
            # The app says so itself, as of a body that a thread waits for: it knows the contract of the route.
            connection.sock.is_late = True
            self._hand_over(connection)
        for connection in (*self._late(self.silent), *self._late(self.kept), *self.finishing.late()):
            self._drop(connection)

    def _late(self, queue: Waiting) -> Iterator[Connection]:
        """Yield the connections whose time is over, of which not even now has come what they wait for."""
        for connection in queue.late():
            # Where all of the process stood still, it may have come in time; once more is looked, and no longer waited.
            if poll_fds({connection.sock.fileno(): select.POLLIN}, 0.0):
                self._on_readable(connection)
            if connection.waits_in is queue:
                yield connection

    def _queues(self) -> tuple[Waiting, ...]:
        return (self.finishing, self.kept, self.silent, self.heads, self.bodies)

    # --- a connection comes ---

    def accept(self, listener: Any, *_: int) -> None:  # noqa: ANN401 - gunicorn's socket
        """Take a connection; when there is no room for it, the one that has waited longest has to go."""
        is_full = self.nr_conns >= self.worker_connections
        if is_full and missed_least(*self._queues()) is None:
            self._pause()
            return
        try:
            accepted, address = listener.accept()
        except OSError as error:
            self._bear(error)
            return
        try:
            with accepted:
                client = tls.wrapped(accepted, self.cfg) if self.cfg.is_ssl else sockets.of_accepted(accepted)
        except OSError as error:  # the client is gone, or the certificate
            self.log.info("no TLS with a client: %s", error)
            return
        connection = Connection(self.cfg, client, (address, listener.getsockname()), self.own, self.most_body)
        if is_full:
            self._shed()
        self.nr_conns += 1
        self.loop.invalidate_fd(client.fileno())
        self._wait(connection, self.silent)

    def _bear(self, error: OSError) -> None:
        """Outlive what the system says at accept."""
        if error.errno in _NOBODY_THERE:
            return
        if error.errno not in _OUT_OF_ROOM or not self._shed():
            self.log.warning("no connection can be accepted: %s", error)
            self._pause()

    def _pause(self) -> None:
        self.accept_from = time.monotonic() + PAUSE_SECONDS
        self.look_at = min(self.look_at, self.accept_from)
        self.set_accept_enabled(False)

    def _shed(self) -> bool:
        """Close the connection that has waited longest; False when none waits."""
        longest = missed_least(*self._queues())
        if longest is not None:
            self._drop(longest)
        return longest is not None

    # --- a connection has something to say ---

    def _on_readable(self, connection: Connection, *_: int) -> None:
        if connection.waits_in is None:  # it was given up for another one earlier in this round
            return
        if connection.waits_in is self.finishing:
            self._read_to_end(connection)
        elif self.is_opaque or connection.is_http2:
            self._hand_over(connection)
        elif connection.awaits_handshake:
            self._shake_hands(connection)
        else:
            self._receive(connection)

    def _shake_hands(self, connection: Connection) -> None:
        try:
            is_done = connection.shake_hands()
        except OSError as error:
            refused = parse_errors.refusal(error)
            if refused is not None and not tls.is_left(error):
                self._note_refusal(connection.client, error, refused)
            self._drop(connection)
            return
        if is_done and tls.is_http2(connection.sock):
            self._hand_over(connection)
        elif is_done:
            # The first bytes of a request may have come with the end of the handshake.
            self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        try:
            piece = connection.receive()
        except tls.NOT_YET:
            return
        except OSError:
            self._drop(connection)
            return
        connection.arrival.data += piece
        if piece:
            self._place(connection)
        elif connection.arrival.data:
            # What is cut off is the parser's to judge, which will find the end at once.
            self._hand_over(connection)
        else:
            self._drop(connection)

    def _place(self, connection: Connection) -> None:
        """Put a connection where it belongs after what has come."""
        stage = connection.arrival.stage()
        if stage is Stage.HERE:
            self._hand_over(connection)
        elif stage is Stage.LONG:
            self._hand_over_long(connection)
        elif stage is not connection.stage or connection.waits_in is None:
            connection.stage = stage
            self._wait(connection, {Stage.HEAD: self.heads, Stage.BODY: self.bodies}.get(stage, self.kept))

    def _wait(self, connection: Connection, queue: Waiting) -> None:
        if connection.waits_in is None:
            self.loop.register(connection.sock.fileno(), select.POLLIN, partial(self._on_readable, connection))
        else:
            connection.waits_in.remove(connection)
        connection.waits_in = queue
        self.look_at = min(self.look_at, queue.add(connection))

    def _leave(self, connection: Connection) -> None:
        if connection.waits_in is not None:
            connection.waits_in.remove(connection)
            connection.waits_in = None
            self.loop.unregister(connection.sock.fileno())

    def _hand_over(self, connection: Connection) -> None:
        """Have a request served, in turns if it is plain, else by a thread."""
        self._leave(connection)
        plain = self.plain.read(connection)
        if plain is None:
            self.enqueue_req(connection)
        else:
            self.loop.spawn(partial(serve, self, connection, plain), partial(self._end_turn, connection, plain.left))

    def _hand_over_long(self, connection: Connection) -> None:
        """Have the rest of a request read, unless too many are: a thread must be left for requests that are here."""
        if self.reading.take(connection):
            self._hand_over(connection)
        else:
            self._refuse(connection, overloaded())

    # --- a request is over ---

    def _end_turn(self, connection: Connection, left: bytes, keeps: bool) -> None:
        """Take a connection back behind a request that was served in turns, with what has come of the next one."""
        self.reading.give_back(connection)
        connection.expect(left)
        if not keeps:
            self._close_softly(connection)
        elif left:
            # From here it could begin at once, and so could the one behind it, each deeper than the one before.
            self.method_queue.defer(self._place, connection)
        else:
            self._place(connection)

    def handle_request(self, req: Any, conn: Connection) -> bool:  # noqa: ANN401 - gunicorn's
        """Serve a request whose head was read."""
        conn.sock.deadline = time.monotonic() + self.own.client_body_timeout_seconds
        conn.sock.send_seconds = conn.own_send_seconds
        try:
            return bool(super().handle_request(req, conn))
        except OSError:
            # Where no length was said either, such a client would take the connection's end for that of the answer.
            conn.is_cut = req.version < (1, 1)
            raise

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        # What the app left of a body is read in one go, which must not be for ever.
        conn.sock.deadline = time.monotonic() + FINISH_SECONDS
        return bool(super()._keepalive_after(conn, keepalive))

    def finish_request(self, conn: Connection, fs: Future[bool]) -> None:
        """Take a connection back from a thread."""
        self.reading.give_back(conn)
        conn.forget_request()
        try:
            keeps = not fs.cancelled() and fs.exception() is None and fs.result()
            if conn.is_cut:
                conn.reset()
                self._drop(conn)
                return
            if not keeps:
                self._close_softly(conn)
                return
            conn.rest()
            if conn.is_http2 and conn.has_decrypted():
                self._hand_over(conn)
            else:
                self._place(conn)
        except (OSError, ValueError):  # the socket is closed already
            self._drop(conn)

    # --- a connection ends ---

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:  # noqa: ANN401, ARG002 - gunicorn's
        """Answer what gunicorn could not read, or could not write, in the shape of all errors."""
        refused = parse_errors.refusal(exc)
        if refused is None:
            self.log.error("error handling a request", exc_info=exc)
            refused = ApiError("internal_error", "The router failed to handle this request")
        else:
            self._note_refusal(addr, exc, refused)
        with suppress(OSError):
            client.sendall(self._told(refused, getattr(exc, "target", None)))

    def _refuse(self, connection: Connection, error: ApiError) -> None:
        """Answer from within the loop, which cannot wait: what a fresh connection has room for is enough for it."""
        self._note_refusal(connection.client, error, error)
        with suppress(OSError):
            connection.sock.send(self._told(error, connection.arrival.target()))
        self._close_softly(connection)

    def _note_refusal(self, address: Any, error: Exception, told: ApiError) -> None:  # noqa: ANN401 - as the system has it
        peer = address[0] if isinstance(address, tuple) else "a local client"
        self.log.info("refused a request of %s: %s", peer, parse_errors.told_of(error))
        count = getattr(self.wsgi, "count_rejected", None)
        if count is not None:
            count(told)

    def _told(self, error: ApiError, target: str | None) -> bytes:
        return parse_errors.wire_bytes(error, self.errors, target)

    def _close_softly(self, connection: Connection) -> None:
        """Say that nothing more comes, and close once the client has closed or had the time to read."""
        try:
            connection.stop_blocking()
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(connection)
        else:
            self._wait(connection, self.finishing)

    def _read_to_end(self, connection: Connection) -> None:
        try:
            piece = connection.sock.recv(HELD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        connection.drained += len(piece)
        if not piece or connection.drained > FINISH_BYTES:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._leave(connection)
        self.nr_conns -= 1
        connection.close()
