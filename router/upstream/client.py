"""Requests sent to engines over pooled sessions."""

import threading

import certifi
import requests

from router.request.headers import without_key
from router.runtime.pid import cached_pid
from router.server.disconnect import Client
from router.settings import Settings
from router.upstream.response import Answer, Times
from router.upstream.transport import EngineAdapter, Terms


class Connections:
    """A pooled session for all engines. Made anew in each process: one shared over a fork would mix up answers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._times = Times(
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
    ) -> Answer:
        """Send a body to an engine and return its answer; redirects, cookies and proxies are not followed or kept.

        `is_fresh` asks for a new connection. Raises EngineError, and ClientGoneError as soon as the client hangs up.
        """
        return self._send("POST", url, headers, body, Terms(self._times, client, is_fresh))

    def post_within(self, url: str, headers: dict[str, str], body: bytes, seconds: float) -> Answer:
        """Send a body, over a new connection, to an engine that may take `seconds` in all. Raises EngineError."""
        return self._send("POST", url, headers, body, _once_within(seconds))

    def get(self, url: str, headers: dict[str, str], seconds: float) -> Answer:
        """Ask an engine, over a new connection, for a page that may take `seconds` in all. Raises EngineError."""
        return self._send("GET", url, headers, None, _once_within(seconds))

    def unsolicited(self) -> int:
        """Return how often engines sent what no request asked for, to this process."""
        return self._adapter.pool.distrust.total if self._adapter is not None and self._process == cached_pid() else 0

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

    def _send(self, method: str, url: str, headers: dict[str, str], body: bytes | None, terms: Terms) -> Answer:
        # The adapter alone: the session's own send would keep cookies, read .netrc and follow redirects.
        answer = self._own_adapter().exchange(method, url, headers, body, terms)
        if self._settings.engine_api_key is not None:
            answer.replace_headers(without_key(answer.headers, self._settings.engine_api_key))
        return answer

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


def _once_within(seconds: float) -> Terms:
    return Terms(Times(seconds, seconds, seconds, seconds), is_fresh=True, is_last=True)
