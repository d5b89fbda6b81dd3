"""Send requests and read responses: concurrently, within a rate limit, with retries when the endpoint is busy."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import requests

from compiler.diagnostics import CommandError
from compiler.resolve.selection import UsageError
from compiler.verify.assertion import UNWELL, EndpointResponse
from compiler.verify.check import ChatRequest

DEFAULT_KEY: Final = "PROFILEC_API_KEY"
"""The default environment variable for the endpoint's API key."""

DEFAULT_CONCURRENCY: Final = 4
DEFAULT_TIMEOUT: Final = 120.0
"""Seconds that an endpoint may be silent."""

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Longest response in bytes that is read."""

ATTEMPTS: Final = 3
_CONNECT_SECONDS: Final = 10.0
_LONGEST_WAIT: Final = 30.0
_HIDDEN: Final = b"(hidden)"
_NOT_LET_IN: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class EndpointError(CommandError):
    """The endpoint is unreachable; the message is one line."""


class Target(NamedTuple):
    """The endpoint, the API key, and the speed: requests a second (None: no limit) and concurrent requests."""

    url: str
    api_key: str | None = None
    rps: float | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    timeout: float = DEFAULT_TIMEOUT


def chat_url(url: str) -> str:
    """Return the address of chat completions at an endpoint, named with or without its version. Raises UsageError."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{url} is no http or https URL")
    if parts.username is not None or parts.password is not None:
        raise UsageError("the URL holds credentials: put the key into an environment variable, see --api-key-env")
    base = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    if base.endswith("/chat/completions"):
        return base
    last = parts.path.rstrip("/").rpartition("/")[2]
    is_version = last[:1] == "v" and last[1:2].isdigit()
    return f"{base}/chat/completions" if is_version else f"{base}/v1/chat/completions"


def api_key(name: str | None, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the API key out of the environment. Raises UsageError when the variable that was named is not there."""
    values = os.environ if environment is None else environment
    if name is not None and not values.get(name):
        raise UsageError(f"--api-key-env: there is no environment variable {name}")
    return values.get(name or DEFAULT_KEY) or None


class EndpointClient:
    """Sends requests to one endpoint.

    `engine_of` returns the request that the engine received under an id, None if it received none; without `engine_of`
    nothing is captured. `requests_sent` counts every request, retries included.
    """

    def __init__(self, target: Target, engine_of: Callable[[str], bytes | None] | None = None) -> None:
        self.requests_sent = 0
        self._target = target
        self._engine_of = engine_of
        self._own = threading.local()
        self._lock = threading.Lock()
        self._next = time.monotonic()

    def responses(
        self, chat_requests: Iterable[tuple[ChatRequest, int]]
    ) -> Iterator[tuple[ChatRequest, EndpointResponse]]:
        """Yield responses as they arrive, each with its request; each request comes with its expected status.

        Raises EndpointError when the endpoint rejects the API key or cannot be reached.
        """
        left = iter(chat_requests)
        is_first = True
        with ThreadPoolExecutor(self._target.concurrency) as pool:
            going: dict[Future[EndpointResponse], ChatRequest] = {}
            try:
                while True:
                    # The first request is sent alone: if its credentials are rejected, all are.
                    room = 1 if is_first else 2 * self._target.concurrency
                    while len(going) < room and (chat_request := next(left, None)) is not None:
                        going[pool.submit(self._response, *chat_request)] = chat_request[0]
                    if not going:
                        return
                    done, _ = wait(going, return_when=FIRST_COMPLETED)
                    for future in done:
                        response = future.result()
                        if is_first:
                            self._reject_useless(response)
                        is_first = False
                        yield going.pop(future), response
            finally:
                pool.shutdown(cancel_futures=True)

    def _reject_useless(self, response: EndpointResponse) -> None:
        if response.failure is not None:
            raise EndpointError(f"{self._target.url}: {response.failure}")
        if response.status in _NOT_LET_IN:
            hint = "its key" if self._target.api_key is None else "another key"
            raise EndpointError(
                f"{self._target.url} answered {response.status}: "
                f"put {hint} into {DEFAULT_KEY}, or into a variable named by --api-key-env"
            )

    def _response(self, chat_request: ChatRequest, status: int) -> EndpointResponse:
        """Return the response to a request; retry while the endpoint is busy or the connection breaks."""
        body, request_id = chat_request.body(), chat_request.request_id()
        for attempt in range(1, ATTEMPTS + 1):
            self._take_turn()
            response, pause = self._once(body, request_id)
            is_worth_another = response.failure is not None or (response.status in UNWELL and response.status != status)
            if attempt == ATTEMPTS or not is_worth_another:
                break
            time.sleep(min(pause if pause is not None else attempt, _LONGEST_WAIT))
        return response

    def _take_turn(self) -> None:
        with self._lock:
            self.requests_sent += 1
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + (1 / self._target.rps if self._target.rps else 0)
        if turn > now:
            time.sleep(turn - now)

    def _once(self, body: bytes, request_id: str) -> tuple[EndpointResponse, float | None]:
        """Send a request; return the response and the seconds to wait before a retry, if the response gives them."""
        headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
        timeout = (_CONNECT_SECONDS, self._target.timeout)
        try:
            with self._session().post(
                self._target.url, body, headers=headers, timeout=timeout, stream=True, allow_redirects=False
            ) as received:
                data = received.raw.read(MAX_ANSWER_BYTES, decode_content=True) or b""
        except (requests.RequestException, OSError) as error:
            return EndpointResponse(0, "", b"", failure=_failure_text(error)), None
        kind = received.headers.get("Content-Type", "")
        response = EndpointResponse(received.status_code, kind, self._without_key(data))
        if self._engine_of is not None:
            response = response._replace(engine=self._engine_of(request_id), is_captured=True)
        pause = received.headers.get("Retry-After", "")
        return response, float(pause) if pause.isdigit() else None

    def _without_key(self, data: bytes) -> bytes:
        key = self._target.api_key
        return data if key is None else data.replace(key.encode(), _HIDDEN)

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._own, "session", None)
        if session is None:
            session = self._own.session = requests.Session()
            # A function, so that no key out of ~/.netrc takes its place.
            session.auth = self._sign
        return session

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._target.api_key is not None:
            request.headers["Authorization"] = f"Bearer {self._target.api_key}"
        return request


def _failure_text(error: Exception) -> str:
    if isinstance(error, requests.Timeout):
        return "no response in time"
    if isinstance(error, requests.ConnectionError):
        reason = "refused" if "refused" in str(error) else "broken off" if "reset" in str(error).lower() else "failed"
        return f"the connection was {reason}" if reason != "failed" else "the connection failed"
    return f"no response: {type(error).__name__}"
