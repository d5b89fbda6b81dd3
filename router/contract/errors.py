"""Causes turned into error answers: the one table of codes and the one shape of their bodies."""

import json
from typing import Final, NamedTuple

STATUS_OF: Final = {
    "bad_request": 400,
    "sampling_contract_violation": 400,
    "too_many_images": 400,
    "max_tokens_exceeded": 400,
    "invalid_api_key": 401,
    "model_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_too_large": 413,
    "uri_too_long": 414,
    "unsupported_media_type": 415,
    "expectation_failed": 417,
    "headers_too_large": 431,
    "internal_error": 500,
    "upstream_unreachable": 502,
    "upstream_incomplete": 502,
    "no_healthy_engines": 503,
    "overloaded": 503,
    "upstream_timeout": 504,
}
"""Every error code that the router answers, with its HTTP status."""

OVERLOADED: Final = "overloaded"
INVALID_REQUEST: Final = "invalid_request_error"
SERVER_ERROR: Final = "server_error"
RETRY_AFTER_SECONDS: Final = 1
_SAY_WHEN_TO_RETRY: Final = frozenset({"no_healthy_engines", "overloaded"})


class ApiError(Exception):
    """Why a request is not answered by an engine.

    `code` is a key of STATUS_OF, `param` the offending field in its standard spelling. `may_have_run` tells that an
    engine may have begun to work on the request, so that a client must not simply send it again.
    """

    def __init__(self, code: str, message: str, param: str | None = None, *, may_have_run: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.may_have_run = may_have_run

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return STATUS_OF[self.code]


def request_too_large(limit: int) -> ApiError:
    """Return the error of a request body above a limit in bytes."""
    return ApiError("request_too_large", f"The request body is larger than the {limit} bytes that are allowed")


def overloaded() -> ApiError:
    """Return the error of a request beyond those that are taken at the same time."""
    return ApiError(OVERLOADED, "The router has as many requests in flight as it takes; try again soon")


class ErrorAnswer(NamedTuple):
    """An error as it goes to the client: status, headers and JSON body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def answer(error: ApiError, bad_request_type: str | None = None) -> ErrorAnswer:
    """Return the answer to a client; `bad_request_type` replaces the `type` of a 400."""
    body = body_of(error, bad_request_type)
    headers = [("Content-Type", "application/json"), ("x-router-error-code", error.code)]
    if error.code == "invalid_api_key":
        headers.append(("WWW-Authenticate", "Bearer"))
    if error.code in _SAY_WHEN_TO_RETRY:
        headers.append(("Retry-After", str(RETRY_AFTER_SECONDS)))
    if error.may_have_run:
        # openai-python repeats 5xx by itself unless it is told not to.
        headers.append(("x-should-retry", "false"))
    return ErrorAnswer(error.status, headers, body)


def body_of(error: ApiError, bad_request_type: str | None = None) -> bytes:
    """Return the JSON body of an error: always `message`, `type`, `param` and `code`."""
    kind = SERVER_ERROR if error.status >= STATUS_OF["internal_error"] else INVALID_REQUEST
    if error.status == STATUS_OF["bad_request"] and bad_request_type is not None:
        kind = bad_request_type
    members = {"message": error.message, "type": kind, "param": error.param, "code": error.code}
    return json.dumps({"error": members}, ensure_ascii=False).encode()
