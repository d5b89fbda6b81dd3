"""The mock engine itself: listens, records, and answers by script or by its own behaviour."""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread, current_thread
from types import TracebackType
from typing import Final, Self

from router.mock_engine import behaviour
from router.mock_engine.connection import MockConnection
from router.mock_engine.request import (
    IncompleteBodyError,
    MalformedRequestError,
    ReceivedRequest,
    RequestHeaders,
    read_body,
    read_headers,
)
from router.mock_engine.response import MockResponse, ScriptedResponse

HOST: Final = "127.0.0.1"
BACKLOG: Final = 1024
CONTROL_PATH: Final = "/received"
TIMEOUT_SECONDS: Final = 5.0
"""Seconds that the waiting methods wait by default."""

Script = Callable[[ReceivedRequest], ScriptedResponse | None]
"""Returns the response to a request, or None for the mock engine's default."""


class MockEngine:
    """A real HTTP/1.1 inference server on a loopback port that records its requests and takes scripted responses.

    It has default responses for the routes of an inference server. Health checks of routers (GET /health, /v1/models
    and below) are recorded separately in `health_checks`, so that `received` and `answer_next` concern only requests of
    a test. GET and DELETE /received return and clear the recorded requests, if it runs as a process of its own.

    models: the served names; the first is the one it answers as. May be changed while it runs.
    host: the loopback address to listen on.
    port: 0 takes a free one, which is kept over `stop` and `start`.
    text: what it says, whatever it is asked; a word is a token.
    max_model_len: context length in tokens, as the model cards tell it.
    """

    def __init__(
        self,
        models: Sequence[str] = ("served",),
        *,
        host: str = HOST,
        port: int = 0,
        text: str = behaviour.TEXT,
        max_model_len: int = 32768,
    ) -> None:
        self.models = tuple(models)
        self.text = text
        self.max_model_len = max_model_len
        self.healthy = True
        """False lets GET /health answer 503."""
        self.recording = True
        """False keeps nothing of what comes, for load that would fill the memory."""
        self._host = host
        self._port = port
        self._changed = Condition()
        self._received: list[ReceivedRequest] = []
        self._health_checks: list[ReceivedRequest] = []
        self._queued: deque[ScriptedResponse] = deque()
        self._script: Script | None = None
        self._connections: dict[int, MockConnection] = {}
        self._connections_accepted = 0
        self._listener: socket.socket | None = None
        self._acceptor: Thread | None = None

    # --- start and stop ---

    def start(self) -> Self:
        """Listen; a stopped engine comes back on the port it had."""
        listener = socket.create_server((self._host, self._port), backlog=BACKLOG)
        self._port = listener.getsockname()[1]
        self._listener = listener
        self._acceptor = Thread(target=self._accept, args=(listener,), name="mock-engine-accept", daemon=True)
        self._acceptor.start()
        return self

    def stop(self) -> None:
        """Stop listening, close every connection, wait for every thread; stopping twice is fine."""
        listener, acceptor = self._listener, self._acceptor
        if listener is None or acceptor is None:
            return
        self._listener = None
        # Wakes the acceptor, which then finds itself stopped.
        socket.create_connection((self._host, self._port)).close()
        acceptor.join()
        listener.close()
        threads = self._end_connections(reset=False)
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
            if thread.is_alive():
                raise RuntimeError("an answer is still being made; does a script wait for something?")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The TCP port it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """Its base URL, without a path."""
        return f"http://{self._host}:{self._port}"

    # --- recorded requests ---

    @property
    def received(self) -> list[ReceivedRequest]:
        """The requests so far, health checks excluded, in the order in which they were complete."""
        with self._changed:
            return list(self._received)

    @property
    def health_checks(self) -> list[ReceivedRequest]:
        """The health checks so far: GET /health, /v1/models and below."""
        with self._changed:
            return list(self._health_checks)

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        with self._changed:
            return len(self._connections)

    @property
    def connections_accepted(self) -> int:
        """How many connections were ever accepted."""
        with self._changed:
            return self._connections_accepted

    def clear(self) -> None:
        """Clear the recorded requests, health checks included."""
        with self._changed:
            self._received.clear()
            self._health_checks.clear()

    def wait_for(self, count: int, timeout: float = TIMEOUT_SECONDS) -> list[ReceivedRequest]:
        """Return the requests once there are at least `count`; TimeoutError after `timeout` seconds."""
        self.wait_until(lambda: len(self._received) >= count, timeout, f"{count} requests")
        return self.received

    def wait_for_health_checks(self, count: int, timeout: float = TIMEOUT_SECONDS) -> list[ReceivedRequest]:
        """Return the health checks once there are at least `count`; TimeoutError after `timeout` seconds."""
        self.wait_until(lambda: len(self._health_checks) >= count, timeout, f"{count} health checks")
        return self.health_checks

    def wait_closed(self, connection: int, timeout: float = TIMEOUT_SECONDS) -> None:
        """Return once that connection is closed, by either end; TimeoutError after `timeout` seconds."""
        self.wait_until(lambda: connection not in self._connections, timeout, f"the end of connection {connection}")

    def wait_until(
        self, holds: Callable[[], bool], timeout: float = TIMEOUT_SECONDS, what: str = "a condition"
    ) -> None:
        """Return once `holds()`, asked at every request and every opened or closed connection."""
        with self._changed:
            if not self._changed.wait_for(holds, timeout):
                raise TimeoutError(f"waited {timeout} s for {what}; got {len(self._received)} requests")

    # --- responses ---

    def answer_next(self, *replies: ScriptedResponse) -> None:
        """Queue answers, one for each of the next requests (health checks take none); they come before the script."""
        with self._changed:
            self._queued.extend(replies)

    def script(self, script: Script | None) -> None:
        """Let a function answer every request, health checks included; None ends that."""
        self._script = script

    def restore_behaviour(self) -> None:
        """Drop the queued answers and the script, and be healthy."""
        with self._changed:
            self._queued.clear()
        self._script = None
        self.healthy = True

    def drop_connections(self, *, reset: bool = False) -> None:
        """End every open connection now, as an engine does with idle ones, and wait until they are gone."""
        for thread in self._end_connections(reset=reset):
            thread.join(TIMEOUT_SECONDS)

    # --- serving ---

    def _accept(self, listener: socket.socket) -> None:
        while True:
            sock, (_, peer_port) = listener.accept()
            if self._listener is not listener:
                sock.close()
                return
            with self._changed:
                self._connections_accepted += 1
                connection = MockConnection(sock, self._connections_accepted, peer_port)
                connection.thread = Thread(target=self._serve, args=(connection,), name="mock-engine", daemon=True)
                self._connections[connection.number] = connection
                connection.thread.start()
                self._changed.notify_all()

    def _end_connections(self, *, reset: bool) -> list[Thread]:
        with self._changed:  # a connection leaves the table before it closes: none here has a reused descriptor
            connections = list(self._connections.values())
            for connection in connections:
                connection.end(reset=reset)
        threads = [connection.thread for connection in connections if connection.thread is not None]
        return [thread for thread in threads if thread is not current_thread()]

    def _serve(self, connection: MockConnection) -> None:
        try:
            while self._handle_request(connection):
                continue
        except OSError:  # the client left
            pass
        finally:
            self._remove(connection)

    def _remove(self, connection: MockConnection) -> None:
        with self._changed:
            del self._connections[connection.number]
            connection.close()
            self._changed.notify_all()

    def _handle_request(self, connection: MockConnection) -> bool:
        """Read and answer one request; say whether another may follow."""
        try:
            request = read_headers(connection.reader)
            if request is None:
                return False
            early = self._early_response(request)
            if early is not None:
                return self._respond_early(connection, request, early)
            received = self._receive(connection, request)
        except MalformedRequestError as malformed:
            connection.send(MockResponse(400, body=str(malformed).encode(), framing="close"))
            connection.lingering_close()
            return False
        if received is None:
            return False
        return (
            connection.send(self._reply(received), headers_only=request.method == "HEAD") and request.keeps_connection
        )

    def _receive(self, connection: MockConnection, request: RequestHeaders) -> ReceivedRequest | None:
        """Read the body and record the request; None if its body was cut short."""
        if request.has_token("Expect", "100-continue"):
            connection.send_bytes(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            body = read_body(connection.reader, request)
        except IncompleteBodyError as cut:
            self._record(connection, request, cut.read, complete=False)
            return None
        return self._record(connection, request, body)

    def _record(
        self, connection: MockConnection, request: RequestHeaders, body: bytes, *, complete: bool = True
    ) -> ReceivedRequest:
        received = ReceivedRequest(
            request.method,
            request.target,
            request.version,
            request.headers,
            body,
            connection.number,
            connection.peer_port,
            complete,
        )
        if received.path == CONTROL_PATH or not self.recording:
            return received
        with self._changed:
            (self._health_checks if behaviour.is_health_check(received) else self._received).append(received)
            self._changed.notify_all()
        return received

    def _early_response(self, request: RequestHeaders) -> MockResponse | None:
        if request.method != "POST":
            return None
        with self._changed:
            first = self._queued[0] if self._queued else None
            if not isinstance(first, MockResponse) or not first.before_body:
                return None
            self._queued.popleft()
            return first

    def _respond_early(self, connection: MockConnection, request: RequestHeaders, early: MockResponse) -> bool:
        self._record(connection, request, b"", complete=False)
        connection.send(early)
        if early.then != "reset":
            connection.lingering_close()
        return False

    def _reply(self, received: ReceivedRequest) -> ScriptedResponse:
        if received.path == CONTROL_PATH:
            return self._control_response(received)
        reply = None if behaviour.is_health_check(received) else self._next_queued()
        if reply is None and self._script is not None:
            reply = self._script(received)
        if reply is not None:
            return reply
        profile = behaviour.EngineProfile(self.models, self.text, self.max_model_len, self.healthy)
        return behaviour.answer(received, profile)

    def _next_queued(self) -> ScriptedResponse | None:
        with self._changed:
            return self._queued.popleft() if self._queued else None

    def _control_response(self, received: ReceivedRequest) -> MockResponse:
        if received.method == "GET":
            return MockResponse.json([each.shown() for each in self.received])
        if received.method == "DELETE":
            self.clear()
            return MockResponse(204, framing="none")
        return MockResponse(405, headers=[("Allow", "GET, DELETE")])
