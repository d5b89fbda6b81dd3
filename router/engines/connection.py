"""Requests sent to one engine over pooled connections, and what may go wrong on the way as ApiErrors."""

import http.client
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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


class Connections:
    """Pooled connections to engines. Made anew in each process: one shared over a fork would mix up answers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._process = 0
        self._session = requests.Session()

    def post(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        """Send a body to an engine and return its answer; redirects, cookies and proxies are not followed or kept.

        Raises ApiError `upstream_unreachable`, `upstream_incomplete` or `upstream_timeout`.
        """
        timeout = (self._settings.connect_seconds, self._settings.read_seconds)
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
        # The adapter alone: a Session's own send would keep cookies, read .netrc and follow redirects.
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
        adapter = HTTPAdapter(
            pool_connections=len(self._settings.engines), pool_maxsize=self._settings.threads, max_retries=0
        )
        for scheme in ("http://", "https://"):
            session.mount(scheme, adapter)
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


def _refused_or_broken(error: requests.RequestException) -> ApiError:
    causes = list(_causes(error))
    if any(isinstance(cause, urllib3.exceptions.NewConnectionError | urllib3.exceptions.SSLError) for cause in causes):
        return ApiError("upstream_unreachable", UNREACHABLE)
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
