"""The transport under the requests sessions: one pool of connections, no redirects, no retries, no waiting in line."""

import ssl
import threading
import time
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import requests
from requests.adapters import BaseAdapter

from router.clients.presence import Client
from router.engines.answer import Answer, Times
from router.engines.connection import Connection, Endpoint
from router.engines.failure import EngineError
from router.engines.outcome import Outcome
from router.engines.pool import Pool
from router.engines.watch import Watch

_PLAIN: Final = "http"


class Terms(NamedTuple):
    """How a request is sent: how long it may take, whose client to keep an eye on, and over which connection."""

    times: Times
    client: Client | None = None
    is_fresh: bool = False
    """Over a new connection rather than a kept one?"""
    is_last: bool = False
    """Is the connection closed afterwards?"""


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
        self._endpoints: dict[str, Endpoint] = {}
        self.pool = Pool(idle_seconds)

    def send(self, request: requests.PreparedRequest, *_: Any, **options: Any) -> requests.Response:  # noqa: ANN401 - as in requests
        """Send a request and return its answer, an `Answer`, as `raw`; headers and body go out as they are.

        `terms` says how. Raises EngineError, ClientGoneError.
        """
        response = requests.Response()
        response.raw = self._exchange(request, options["terms"])
        response.status_code = response.raw.status
        response.request = request
        return response

    def _exchange(self, request: requests.PreparedRequest, terms: Terms) -> Answer:
        endpoint, target = self._locate(request.url or "")
        body = request.body if isinstance(request.body, bytes) else b""
        if terms.is_last:
            request.headers["Connection"] = "close"
        head = _head(request, endpoint, target)
        watch = Watch(terms.client, time.monotonic() + terms.times.total)
        kept = None if terms.is_fresh else self.pool.take(endpoint)
        connection = kept or self._connect(endpoint, terms.times.connect)
        try:
            is_sent_whole = _send(connection, head, body, watch, terms.times)
            give_back = Connection.close if terms.is_last else self.pool.put
            answer = Answer(connection, watch, terms.times, give_back, is_sent_whole=is_sent_whole)
            answer.read_head()
        except BaseException:
            connection.close()
            raise
        return answer

    def forget(self, url: str) -> None:
        """Keep no connection to the engine of a base URL."""
        self._endpoints.pop(_origin(urlsplit(url)), None)
        self.pool.forget(Endpoint.of(url))

    def close(self) -> None:
        """Close all idle connections."""
        self.pool.close()

    def _locate(self, url: str) -> tuple[Endpoint, str]:
        parts = urlsplit(url)
        origin = _origin(parts)
        endpoint = self._endpoints.get(origin)
        if endpoint is None:
            endpoint = self._endpoints[origin] = Endpoint.of(url)
        return endpoint, parts.path

    def _connect(self, endpoint: Endpoint, seconds: float) -> Connection:
        return Connection.open(endpoint, seconds, None if endpoint.scheme == _PLAIN else self._tls())

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context(cafile=self._authorities)
                self._context.set_alpn_protocols(["http/1.1"])
            return self._context


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}"


def _send(connection: Connection, head: bytes, body: bytes, watch: Watch, times: Times) -> bool:
    """Send a request; False when it was not sent whole: the engine answers already, or may have before it closed."""
    try:
        return connection.send(head, body, watch, times.idle)
    except TimeoutError as error:
        raise EngineError(Outcome.TIMED_OUT) from error
    except OSError:
        return False


def _head(request: requests.PreparedRequest, endpoint: Endpoint, target: str) -> bytes:
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {endpoint.authority}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
