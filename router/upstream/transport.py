"""The transport under the requests sessions: one pool of connections, no redirects, no retries, no waiting in line."""

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
from router.runtime import event_loop
from router.server.disconnect import Client
from router.upstream.connection import Connection, Endpoint
from router.upstream.connection_pool import Pool
from router.upstream.errors import EngineError
from router.upstream.poller import Watch
from router.upstream.response import Answer, Times

_PLAIN: Final = "http"
_MOST_LOCATED: Final = 10_000


class Terms(NamedTuple):
    """How a request is sent: how long it may take, whose client to keep an eye on, and over which connection."""

    times: Times
    client: Client | None = None
    is_fresh: bool = False
    """Over a new connection rather than a kept one?"""
    is_last: bool = False
    """Is the connection closed afterwards?"""


class _Located(NamedTuple):
    """Where a URL leads, and how a head begins behind its method that goes there."""

    endpoint: Endpoint
    line_and_host: str


class EngineAdapter(BaseAdapter):
    """A transport adapter that knows its client: an engine is let go of at once when the client hangs up.

    urllib3's pools cannot expire idle connections, watch two sockets or tell a closed connection from one that was
    never read.
    """

    def __init__(self, authorities: str, idle_seconds: float) -> None:
        super().__init__()
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._located: dict[str, _Located] = {}
        self.pool = Pool(idle_seconds)

    def send(self, request: requests.PreparedRequest, *_: Any, **options: Any) -> requests.Response:  # noqa: ANN401 - as in requests
        """Send a request of requests' own and return its answer, an `Answer`, as `raw`; `terms` says how.

        Raises EngineError, ClientGoneError.
        """
        body = request.body if isinstance(request.body, bytes) else None
        headers = dict(request.headers)
        response = requests.Response()
        response.raw = self.exchange(request.method or "GET", request.url or "", headers, body, options["terms"])
        response.status_code = response.raw.status
        response.request = request
        return response

    def exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, terms: Terms) -> Answer:
        """Send a request and return its answer; headers and body go out as they are.

        Raises EngineError, ClientGoneError.
        """
        located = self._located.get(url) or self._locate(url)
        endpoint = located.endpoint
        head = _head(method, located, headers, body, is_last=terms.is_last)
        watch = Watch(terms.client, time.monotonic() + terms.times.total)
        kept = None if terms.is_fresh else self.pool.take(endpoint)
        connection = kept or self._connect(endpoint, terms.times.connect)
        try:
            is_sent_whole = _send(connection, head, body or b"", watch, terms.times)
        except BaseException:
            connection.close()
            raise
        give_back = Connection.close if terms.is_last else self.pool.put
        answer = Answer(connection, watch, terms.times, give_back, is_sent_whole=is_sent_whole)
        answer.on_unsolicited = partial(self.pool.distrust.note, endpoint)
        try:
            answer.read_head()
        except BaseException:
            answer.close()
            raise
        return answer

    def forget(self, url: str) -> None:
        """Keep no connection to the engine of a base URL."""
        for known in [known for known in self._located if known.startswith(url)]:
            self._located.pop(known, None)
        self.pool.forget(Endpoint.of(url))

    def close(self) -> None:
        """Close all idle connections."""
        self.pool.close()

    def _locate(self, url: str) -> "_Located":
        endpoint = Endpoint.of(url)
        located = _Located(endpoint, f" {urlsplit(url).path} HTTP/1.1\r\nHost: {endpoint.authority}\r\n")
        if len(self._located) >= _MOST_LOCATED:
            self._located.clear()
        self._located[url] = located
        return located

    def _connect(self, endpoint: Endpoint, seconds: float) -> Connection:
        try:
            return self._open(endpoint, seconds)
        except ApiError as error:
            # Where the system has no room for one more, those that nobody uses have to go.
            if error.code != OVERLOADED or not self.pool.close():
                raise
        return self._open(endpoint, seconds)

    def _open(self, endpoint: Endpoint, seconds: float) -> Connection:
        context = None if endpoint.scheme == _PLAIN else self._tls()
        family = endpoint.family() if context is None and event_loop.in_task() else None
        if family is not None:
            return Connection.open_at(endpoint, family, seconds)
        return event_loop.run_in_executor(Connection.open, endpoint, seconds, context)

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context(cafile=self._authorities)
                self._context.set_alpn_protocols(["http/1.1"])
            return self._context


def _send(connection: Connection, head: bytes, body: bytes, watch: Watch, times: Times) -> bool:
    """Send a request; False when it was not sent whole: the engine answers already, or may have before it closed."""
    try:
        return connection.send(head, body, watch, times.idle)
    except TimeoutError as error:
        raise EngineError(Outcome.TIMED_OUT) from error
    except OSError:
        return False


def _head(method: str, located: _Located, headers: Mapping[str, str], body: bytes | None, *, is_last: bool) -> bytes:
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    coding = "" if "Accept-Encoding" in headers else "Accept-Encoding: identity\r\n"
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    ending = "Connection: close\r\n" if is_last else ""
    return f"{method}{located.line_and_host}{coding}{fields}{length}{ending}\r\n".encode("latin-1")
