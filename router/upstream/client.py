"""The HTTP client for engines: one pooled requests session in each process."""

import threading
from collections import Counter
from collections.abc import Iterable

import certifi
import requests

from router.request.headers import without_key
from router.request.request import ClientConnection
from router.runtime.pid import cached_pid
from router.settings.declarations import Settings
from router.upstream.connection import Endpoint
from router.upstream.quarantine import FOREIGN_ID
from router.upstream.response import Timeouts, UpstreamResponse
from router.upstream.transport import EngineAdapter, RequestOptions
from router.upstream.whole_response import WholeResponse


class _Session(requests.Session):
    """A session without redirects, cookies, proxies and settings of the environment."""

    def __init__(self, adapter: EngineAdapter) -> None:
        super().__init__()
        self.trust_env = False
        # A health check has to show that the engine accepts connections, so it reuses none.
        self.headers = requests.structures.CaseInsensitiveDict({"Connection": "close"})
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: no redirect is followed, and the body of one is not read."""


class HttpClient:
    """Sends requests to all engines through one requests session and the connection pool of its adapter.

    The router's own requests are made by `request`, which is `Session.request`; the frequent ones (health and model
    lists) by `get`.
    A client's request goes through `post`, which enters the same adapter one level below `PreparedRequest`: its URL,
    headers and body are final, and to prepare them again takes 110 µs before the first byte (measured for a body of
    1 KB: 83 µs to prepare, the rest in the session; Python 3.11).

    Each process opens its own session: connections that are shared over a fork would mix up responses.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeouts = Timeouts(
            settings.upstream_connect_timeout_seconds,
            settings.upstream_response_timeout_seconds,
            settings.upstream_idle_timeout_seconds,
            settings.upstream_total_timeout_seconds,
        )
        self._lock = threading.Lock()
        self._process = 0
        self._session: requests.Session | None = None
        self._adapter: EngineAdapter | None = None

    def post(
        self,
        url: str,
        headers: dict[str, str],
        body: bytes,
        client: ClientConnection | None = None,
        *,
        reuse: bool = True,
    ) -> WholeResponse | UpstreamResponse:
        """Send a client's request to an engine and return the response, whole or after reading its headers.

        `reuse`: whether an idle connection may be reused. Raises EngineError, and ClientDisconnectedError if the
        client disconnects.
        """
        response = self._own_adapter().exchange(url, headers, body, RequestOptions(self._timeouts, client, reuse))
        key = self._settings.engine_api_key
        if key is None:
            return response
        filtered = without_key(response.headers, key)
        if isinstance(response, WholeResponse):
            return response._replace(headers=filtered)
        response.replace_headers(filtered)
        return response

    def get(self, url: str, headers: dict[str, str], timeout_seconds: float) -> UpstreamResponse:
        """Send a GET of a health check over a new connection and return the response, its body unread.

        It enters the adapter as `post` does: there may be a thousand engines to check. `timeout_seconds` bounds the
        whole exchange. Raises EngineError.
        """
        timeouts = Timeouts(timeout_seconds, timeout_seconds, timeout_seconds, timeout_seconds)
        options = RequestOptions(timeouts, reuse=False, close=True)
        return self._own_adapter().send_raw("GET", url, headers, None, options)

    def quarantine(self, engine: str) -> None:
        """Reuse no connections to an engine for a while: it sent the response of another request."""
        self._own_adapter().pool.quarantine.add(Endpoint.of(engine), FOREIGN_ID)

    def request(
        self, method: str, url: str, headers: dict[str, str], timeout_seconds: float, body: bytes | None = None
    ) -> requests.Response:
        """Send one of the router's own requests over a new connection and return the response, its body unread.

        `timeout_seconds` bounds the whole exchange. Raises EngineError.
        """
        self._own_adapter()
        assert self._session is not None  # noqa: S101 - opened with the adapter
        return self._session.request(
            method, url, headers=headers, data=body, timeout=timeout_seconds, allow_redirects=False, stream=True
        )

    def unsolicited_count(self) -> int:
        """Return how often engines sent unsolicited bytes to this process."""
        return self._unsolicited().total()

    def unsolicited_by_engine(self, engines: Iterable[str]) -> dict[str, int]:
        """Return the same for each of these engines."""
        counts = self._unsolicited()
        return {engine: counts[Endpoint.of(engine)] if counts else 0 for engine in engines}

    def _unsolicited(self) -> Counter[Endpoint]:
        if self._adapter is None or self._process != cached_pid():
            return Counter()
        return self._adapter.pool.quarantine.counts

    def close_idle(self) -> None:
        """Close connections whose idle time is over."""
        if self._adapter is not None and self._process == cached_pid():
            self._adapter.pool.close_idle()

    def forget(self, engine: str) -> None:
        """Close the idle connections to an engine that has left; those in use are closed after their response."""
        if self._adapter is not None and self._process == cached_pid():
            self._adapter.forget(engine)

    def close(self) -> None:
        """Close all idle connections."""
        if self._session is not None:
            self._session.close()

    def _own_adapter(self) -> EngineAdapter:
        adapter = self._adapter
        if adapter is None or self._process != cached_pid():
            with self._lock:
                adapter = self._adapter
                if adapter is None or self._process != cached_pid():
                    adapter = self._open_session()
        return adapter

    def _open_session(self) -> EngineAdapter:
        ca_file = str(self._settings.engine_ca or certifi.where())
        adapter = EngineAdapter(ca_file, self._settings.upstream_keepalive_timeout_seconds)
        self._session = _Session(adapter)
        self._adapter = adapter
        self._process = cached_pid()
        return adapter
