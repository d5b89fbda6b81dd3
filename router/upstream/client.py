"""Requests sent to engines over pooled sessions."""

import threading

import certifi
import requests

from router.request.headers import without_key
from router.runtime.pid import cached_pid
from router.server.disconnect import Client
from router.settings import Settings
from router.upstream.response import Timeouts, UpstreamResponse
from router.upstream.transport import EngineAdapter, RequestOptions


class HttpClient:
    """A pooled session for all engines. Made anew in each process: one shared over a fork would mix up answers."""

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
        self._session = requests.Session()
        self._adapter: EngineAdapter | None = None

    def post(
        self, url: str, headers: dict[str, str], body: bytes, client: Client | None = None, *, is_fresh: bool = False
    ) -> UpstreamResponse:
        """Send a body to an engine and return its answer; redirects, cookies and proxies are not followed or kept.

        `is_fresh` asks for a new connection. Raises EngineError, and ClientGoneError as soon as the client hangs up.
        """
        return self._send("POST", url, headers, body, RequestOptions(self._timeouts, client, is_fresh))

    def post_once(self, url: str, headers: dict[str, str], body: bytes, seconds: float) -> UpstreamResponse:
        """Send a body, over a new connection, to an engine that may take `seconds` in all. Raises EngineError."""
        return self._send("POST", url, headers, body, _single_use(seconds))

    def get_once(self, url: str, headers: dict[str, str], seconds: float) -> UpstreamResponse:
        """Ask an engine, over a new connection, for a page that may take `seconds` in all. Raises EngineError."""
        return self._send("GET", url, headers, None, _single_use(seconds))

    def unsolicited_count(self) -> int:
        """Return how often engines sent what no request asked for, to this process."""
        return self._adapter.pool.quarantine.total if self._adapter is not None and self._process == cached_pid() else 0

    def close_idle(self) -> None:
        """Close connections that nobody has used for a while."""
        if self._adapter is not None and self._process == cached_pid():
            self._adapter.pool.close_idle()

    def forget(self, engine: str) -> None:
        """Close the idle connections to an engine that has left; those in use are not kept afterwards."""
        if self._adapter is not None and self._process == cached_pid():
            self._adapter.forget(engine)

    def close(self) -> None:
        """Close all idle connections."""
        self._session.close()

    def _send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, options: RequestOptions
    ) -> UpstreamResponse:
        # The adapter alone: the session's own send would keep cookies, read .netrc and follow redirects.
        response = self._own_adapter().send_raw(method, url, headers, body, options)
        if self._settings.engine_api_key is not None:
            response.replace_headers(without_key(response.headers, self._settings.engine_api_key))
        return response

    def _own_adapter(self) -> EngineAdapter:
        adapter = self._adapter
        if adapter is None or self._process != cached_pid():
            with self._lock:
                adapter = self._adapter
                if adapter is None or self._process != cached_pid():
                    adapter = self._open_session()
        return adapter

    def _open_session(self) -> EngineAdapter:
        self._session = requests.Session()
        self._session.trust_env = False
        authorities = self._settings.engine_ca
        adapter = EngineAdapter(str(authorities or certifi.where()), self._settings.upstream_keepalive_timeout_seconds)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)
        self._adapter = adapter
        self._process = cached_pid()
        return adapter


def _single_use(seconds: float) -> RequestOptions:
    return RequestOptions(Timeouts(seconds, seconds, seconds, seconds), is_fresh=True, close=True)
