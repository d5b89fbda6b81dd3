"""Requests sent to engines over pooled connections, and what may go wrong on the way as ApiErrors."""

import http.client
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict

from router.contract.errors import ApiError
from router.settings import Settings

Answer = urllib3.BaseHTTPResponse
"""An engine's answer: status and headers read, the body not yet."""

UNREACHABLE: Final = "The engine could not be reached"
INCOMPLETE: Final = "The engine's answer was cut off or malformed"
TIMED_OUT: Final = "The engine did not answer in time"
MAX_INTERIM_ANSWERS: Final = 32
"""How many interim answers (1xx, RFC 9110, section 15.2) an engine may send before its answer."""


class _FinalAnswer(http.client.HTTPResponse):
    """An answer read past the interim ones before it, with headers that say where it ends.

    The standard library itself knows no interim answer but 100, and takes malformed headers for none.
    """

    def begin(self) -> None:
        super().begin()
        for _ in range(MAX_INTERIM_ANSWERS):
            if self.status >= HTTPStatus.OK or self.status == HTTPStatus.SWITCHING_PROTOCOLS:
                _refuse_unclear_end(self.headers)
                return
            self.headers = self.msg = None  # type: ignore[assignment] # begin() returns at once while there are any
            super().begin()
        raise http.client.HTTPException("too many interim answers")


def _refuse_unclear_end(headers: http.client.HTTPMessage) -> None:
    """Raise HTTPException when headers do not say clearly where an answer ends (RFC 9112, section 6.3)."""
    length = headers.get("Content-Length", "0").strip()
    coding = headers.get("Transfer-Encoding", "chunked").strip().lower()
    if headers.defects or coding != "chunked" or not (length.isascii() and length.isdigit()):
        raise http.client.HTTPException("malformed headers")


class _PatientSender:
    """A connection that gives sending as long as reading; urllib3 allows a whole body only the time to connect."""

    response_class: Any = _FinalAnswer

    def __init__(self, *args: Any, send_seconds: float, **kwargs: Any) -> None:  # noqa: ANN401 - urllib3's own
        super().__init__(*args, **kwargs)
        self._send_seconds = send_seconds

    def connect(self) -> None:
        super().connect()  # type: ignore[misc] # urllib3's, mixed in
        self.sock.settimeout(self._send_seconds)  # type: ignore[attr-defined] # urllib3's, mixed in


class _PlainConnection(_PatientSender, urllib3.connection.HTTPConnection):
    pass


class _TlsConnection(_PatientSender, urllib3.connection.HTTPSConnection):
    pass


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    """Pools of our connections: nothing is sent twice, none is waited for."""

    def __init__(self, settings: Settings) -> None:
        self._send_seconds = settings.first_byte_seconds
        super().__init__(pool_connections=len(settings.engines), pool_maxsize=settings.max_in_flight, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - requests' own
        super().init_poolmanager(*args, **kwargs)
        pools = {"http": _PlainPool, "https": _TlsPool}
        self.poolmanager.pool_classes_by_scheme = {
            scheme: partial(pool, send_seconds=self._send_seconds) for scheme, pool in pools.items()
        }


class Connections:
    """Pooled connections to engines. Made anew in each process: some shared over a fork would mix up answers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._process = 0
        self._session = requests.Session()

    def post(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        """Send a body to an engine and return its answer; redirects, cookies and proxies are not followed or kept.

        Raises ApiError `upstream_unreachable`, `upstream_incomplete` or `upstream_timeout`.
        """
        timeout = (self._settings.connect_seconds, self._settings.first_byte_seconds)
        return self._send("POST", url, {**headers, "Content-Length": str(len(body))}, body, timeout)

    def get(self, url: str, headers: dict[str, str], seconds: float) -> Answer:
        """Ask an engine for a page within `seconds` to connect and between bytes. Raises ApiError as `post` does."""
        return self._send("GET", url, headers, None, (seconds, seconds))

    def _send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, timeout: tuple[float, float]
    ) -> Answer:
        request = requests.PreparedRequest()
        request.method, request.url, request.body = method, url, body
        request.headers = CaseInsensitiveDict(headers)
        ca = self._settings.engine_ca
        # The session's adapter alone: its own send would keep cookies, read .netrc and follow redirects.
        with failures_as_api_errors():
            response = (
                self._own_session()
                .get_adapter(url)
                .send(request, stream=True, timeout=timeout, verify=str(ca) if ca else True, proxies={})
            )
        answer: Answer = response.raw
        return answer

    def _own_session(self) -> requests.Session:
        if self._process != os.getpid():
            with self._lock:
                if self._process != os.getpid():
                    self._session = self._new_session()
                    self._process = os.getpid()
        return self._session

    def _new_session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Adapter(self._settings))
        return session


@contextmanager
def failures_as_api_errors() -> Iterator[None]:
    """Turn what requests, urllib3 and the socket raise while talking to an engine into ApiErrors."""
    try:
        yield
    except requests.ConnectTimeout as error:
        raise ApiError("upstream_timeout", TIMED_OUT) from error
    except (requests.ReadTimeout, urllib3.exceptions.ReadTimeoutError, TimeoutError) as error:
        raise ApiError("upstream_timeout", TIMED_OUT, may_have_run=True) from error
    except requests.RequestException as error:
        raise _refused_or_broken(error) from error
    except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError) as error:
        raise ApiError("upstream_incomplete", INCOMPLETE, may_have_run=True) from error


def reason_of(error: ApiError) -> str:
    """Return for the log why an engine could not be talked to, as the innermost cause says it."""
    innermost: BaseException = error
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            innermost = cause
    if isinstance(innermost, OSError):
        return f"{error.message}: {innermost.strerror}"
    return error.message


def _refused_or_broken(error: requests.RequestException) -> ApiError:
    causes = list(_causes(error))
    if any(isinstance(cause, urllib3.exceptions.NewConnectionError | urllib3.exceptions.SSLError) for cause in causes):
        return ApiError("upstream_unreachable", UNREACHABLE)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        # The engine did not take the whole body in time.
        return ApiError("upstream_timeout", TIMED_OUT, may_have_run=True)
    if any(isinstance(cause, ConnectionError) for cause in causes):
        # The connection was gone before a status line came: the engine may have seen the request all the same.
        return ApiError("upstream_unreachable", UNREACHABLE, may_have_run=True)
    return ApiError("upstream_incomplete", INCOMPLETE, may_have_run=True)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it wraps, in requests' and urllib3's several ways."""
    unseen: list[object] = [error]
    seen: set[int] = set()
    while unseen:
        cause = unseen.pop()
        if not isinstance(cause, BaseException) or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        unseen += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
