"""The transport adapter of the requests session: one connection pool, no redirects, no retries, no queue."""

import ssl
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter

from router.contract.errors import OVERLOADED, ApiError
from router.request.outcome import Outcome
from router.request.request import ClientConnection
from router.runtime import event_loop
from router.upstream.connection import Endpoint, UpstreamConnection
from router.upstream.connection_pool import ConnectionPool
from router.upstream.errors import EngineError
from router.upstream.poller import Poller
from router.upstream.response import Timeouts, UpstreamResponse
from router.upstream.whole_response import WholeResponse, parse_whole

_PLAIN: Final = "http"
_OWN_HEADERS: Final = frozenset({"Connection", "Content-Length"})
"""Headers that the adapter writes itself."""
_MAX_TARGETS: Final = 10_000


class RequestOptions(NamedTuple):
    """How a request is sent: its timeouts, the client to watch meanwhile, and the use of connections."""

    timeouts: Timeouts
    client: ClientConnection | None = None
    reuse: bool = True
    """Whether an idle connection may be reused."""
    close: bool = False
    """Whether the connection is closed after the response."""


class _Target(NamedTuple):
    """The endpoint of a URL, and the request line behind the method with the Host header."""

    endpoint: Endpoint
    request_line_rest: str


class EngineAdapter(BaseAdapter):
    """A transport adapter that closes the connection to an engine as soon as the client disconnects.

    urllib3's pools cannot expire idle connections, watch two sockets or detect that a request met a closed connection.
    """

    def __init__(self, authorities: str, idle_seconds: float) -> None:
        super().__init__()
        self._ca_file = authorities
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._targets: dict[str, _Target] = {}
        self.pool = ConnectionPool(idle_seconds)

    def send(self, request: requests.PreparedRequest, *_: Any, **options: Any) -> requests.Response:  # noqa: ANN401 - as in requests
        """Send a prepared request and return the response, whose body is read from `raw`, an `UpstreamResponse`.

        `timeout` bounds the whole exchange, in seconds. With `Connection: close` no connection is reused or kept.
        Raises EngineError.
        """
        seconds: float = options["timeout"]
        headers = {name: value for name, value in request.headers.items() if name not in _OWN_HEADERS}
        is_single = request.headers.get("Connection") == "close"
        timeouts = Timeouts(seconds, seconds, seconds, seconds)
        body = request.body if isinstance(request.body, bytes) else None
        raw = self.send_raw(
            request.method or "GET",
            request.url or "",
            headers,
            body,
            RequestOptions(timeouts, reuse=not is_single, close=is_single),
        )
        response = requests.Response()
        response.status_code = raw.status
        response.headers.update(raw.headers)
        response.raw = raw
        response.url = request.url or ""
        response.request = request
        return response

    def send_raw(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, options: RequestOptions
    ) -> UpstreamResponse:
        """Send a request whose headers and body are final, and return the response.

        Raises EngineError, ClientDisconnectedError.
        """
        connection, poller, is_request_sent = self._begin(method, url, headers, body, options)
        return self._read_headers(connection, poller, options, is_request_sent=is_request_sent)

    def exchange(
        self, url: str, headers: Mapping[str, str], body: bytes, options: RequestOptions
    ) -> WholeResponse | UpstreamResponse:
        """Send a POST as `send_raw` does. A response that comes whole is returned whole, and its connection is kept.

        Any other continues in the general way with what was received. Raises EngineError, ClientDisconnectedError.
        """
        connection, poller, is_request_sent = self._begin("POST", url, headers, body, options)
        first = None
        is_early = False
        if is_request_sent:
            try:
                first = connection.receive(poller, options.timeouts.first_byte)
                is_early = connection.is_reused and connection.has_unacknowledged()
            except TimeoutError as error:
                connection.close()
                raise EngineError(Outcome.TIMED_OUT) from error
            except OSError:
                first = None  # the general way receives the end of the connection, and finds the cause
            except BaseException:
                connection.close()
                raise
            if first and not is_early:
                whole = parse_whole(first)
                if whole is not None:
                    self.pool.put(connection)
                    return whole
        return self._read_headers(
            connection, poller, options, first, is_request_sent=is_request_sent, is_early=is_early
        )

    def _begin(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, options: RequestOptions
    ) -> tuple[UpstreamConnection, Poller, bool]:
        """Send a request; return its connection, the poller of the exchange, and whether all of it was sent."""
        timeouts, client, reuse, close = options
        target = self._targets.get(url) or self._add_target(url)
        head = _encode_headers(method, target, headers, body, close=close)
        poller = Poller(client, time.monotonic() + timeouts.total)
        idle = self.pool.take(target.endpoint) if reuse else None
        connection = idle or self._connect(target.endpoint, timeouts.connect)
        try:
            return connection, poller, connection.send(head, body or b"", poller, timeouts.idle)
        except TimeoutError as error:
            connection.close()
            raise EngineError(Outcome.TIMED_OUT) from error
        except OSError:
            # The engine responded early, or may have before it closed.
            return connection, poller, False
        except BaseException:
            connection.close()
            raise

    def _read_headers(  # noqa: PLR0913 - what was begun, and what was received
        self,
        connection: UpstreamConnection,
        poller: Poller,
        options: RequestOptions,
        first: bytes | None = None,
        *,
        is_request_sent: bool,
        is_early: bool = False,
    ) -> UpstreamResponse:
        release = UpstreamConnection.close if options.close else self.pool.put
        response = UpstreamResponse(connection, poller, options.timeouts, release, is_request_sent=is_request_sent)
        response.on_unsolicited = partial(self.pool.quarantine.add, connection.endpoint)
        try:
            response.read_headers(first, is_early=is_early)
        except BaseException:
            response.close()
            raise
        return response

    def forget(self, url: str) -> None:
        """Close the idle connections to the engine of a base URL, and keep no more."""
        for known in [known for known in self._targets if known.startswith(url)]:
            self._targets.pop(known, None)
        self.pool.forget(Endpoint.of(url))

    def close(self) -> None:
        """Close all idle connections."""
        self.pool.close()

    def _add_target(self, url: str) -> "_Target":
        endpoint = Endpoint.of(url)
        target = _Target(endpoint, f" {urlsplit(url).path} HTTP/1.1\r\nHost: {endpoint.authority}\r\n")
        if len(self._targets) >= _MAX_TARGETS:
            self._targets.clear()
        self._targets[url] = target
        return target

    def _connect(self, endpoint: Endpoint, seconds: float) -> UpstreamConnection:
        try:
            return self._open(endpoint, seconds)
        except ApiError as error:
            # Without resources for one more, the idle connections are closed.
            if error.code != OVERLOADED or not self.pool.close():
                raise
        return self._open(endpoint, seconds)

    def _open(self, endpoint: Endpoint, seconds: float) -> UpstreamConnection:
        context = None if endpoint.scheme == _PLAIN else self._tls()
        family = endpoint.address_family() if context is None and event_loop.in_task() else None
        if family is not None:
            return UpstreamConnection.open_nonblocking(endpoint, family, seconds)
        return event_loop.run_in_executor(UpstreamConnection.open, endpoint, seconds, context)

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context(cafile=self._ca_file)
                self._context.set_alpn_protocols(["http/1.1"])
            return self._context


def _encode_headers(
    method: str, target: _Target, headers: Mapping[str, str], body: bytes | None, *, close: bool
) -> bytes:
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    coding = "" if "Accept-Encoding" in headers else "Accept-Encoding: identity\r\n"
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    ending = "Connection: close\r\n" if close else ""
    return f"{method}{target.request_line_rest}{coding}{fields}{length}{ending}\r\n".encode("latin-1")
