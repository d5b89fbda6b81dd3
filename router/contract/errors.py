"""Errors turned into error responses: the one table of codes and the one shape of their bodies."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from router.contract.protocols import CHAT, Protocol
from router.contract.schema.sections import Errors
from router.contract.schema.types import ErrorText
from router.contract.templates import filled, filled_body

STATUS_OF: Final = {
    "bad_request": 400,
    "sampling_contract_violation": 400,
    "contract_violation": 400,
    "unknown_field": 400,
    "too_many_images": 400,
    "too_many_videos": 400,
    "too_many_audios": 400,
    "too_many_files": 400,
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
    "shutting_down": 503,
    "upstream_timeout": 504,
    "http_version_not_supported": 505,
}
"""Every error code of the router with its HTTP status. A protocol may have another status for a code."""

OVERLOADED: Final = "overloaded"
RETRY_AFTER_SECONDS: Final = 1
_SAY_WHEN_TO_RETRY: Final = frozenset({"no_healthy_engines", "overloaded"})


class ApiError(Exception):
    """The error that a client gets instead of an engine's response.

    `code` is a key of STATUS_OF, `param` the offending field in its standard spelling. `may_have_run`: an engine may
    have processed the request, so a retry is not safe. For a rule of the contract: `part` is the violated part of it,
    `words` its error text, and `details` the values of the placeholders in templates.
    """

    def __init__(  # noqa: PLR0913 - what is known of an error, all of it optional but the first two
        self,
        code: str,
        message: str,
        param: str | None = None,
        *,
        may_have_run: bool = False,
        part: str | None = None,
        words: ErrorText | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.may_have_run = may_have_run
        self.part = part
        self.words = words
        self.details = dict(details or {})

    @property
    def status(self) -> int:
        """The HTTP status of the response if neither the contract nor the protocol has another one."""
        return STATUS_OF[self.code]


ErrorT = TypeVar("ErrorT", bound=BaseException)


def without_frames(error: ErrorT) -> ErrorT:
    """Remove traceback, cause and context from an error and return it.

    Their frames keep the request's body and the parsed values in memory. If a frame also refers to the error, this
    cycle is freed only by Python's garbage collector.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def request_too_large(limit: int) -> ApiError:
    """Return the error of a request body above a limit in bytes."""
    message = f"The request body is larger than the {limit} bytes that are allowed"
    return ApiError("request_too_large", message, details={"max": limit})


def overloaded() -> ApiError:
    """Return the error of a request that exceeds the limit of requests in flight."""
    return ApiError(OVERLOADED, "The router has as many requests in flight as it takes; try again soon")


class ErrorResponse(NamedTuple):
    """An error as it goes to the client: status, headers and JSON body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


NO_ERROR_TEXT: Final = Errors()
"""The error settings where no contract applies."""


class RenderedError(NamedTuple):
    """An error with the details that templates can use, its status among them, and its JSON body."""

    details: dict[str, Any]
    body: bytes


def build_error_response(
    error: ApiError, errors: Errors = NO_ERROR_TEXT, request_id: str = "", protocol: Protocol = CHAT
) -> ErrorResponse:
    """Return the error response for a client of a protocol, with the error texts of a contract where they apply."""
    rendered = render(error, errors, request_id, protocol)
    headers = [("Content-Type", "application/json"), ("x-router-error-code", error.code)]
    if error.code == "invalid_api_key":
        headers.append(("WWW-Authenticate", "Bearer"))
    if error.code in _SAY_WHEN_TO_RETRY:
        headers.append(("Retry-After", str(RETRY_AFTER_SECONDS)))
    if error.may_have_run:
        # openai-python retries a 5xx unless this header forbids it.
        headers.append(("x-should-retry", "false"))
    return ErrorResponse(rendered.details["status"], headers, rendered.body)


def render(error: ApiError, errors: Errors, request_id: str, protocol: Protocol) -> RenderedError:
    """Return an error with the error texts of a contract where they apply, else in the envelope of the protocol."""
    errors = protocol.errors(errors)
    words = error_text_of(error, errors)
    details = _details(error, errors, words, protocol, request_id)
    if words.message is not None:
        details["message"] = filled(words.message, details)
    template = words.body or errors.body or protocol.envelope
    value = filled_body(template, details, omit_null=errors.omit_null)
    # Engines write lone surrogates, which are no UTF-8.
    return RenderedError(details, json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def error_text_of(error: ApiError, errors: Errors) -> ErrorText:
    """Return the merged error texts of an error, by precedence: its rule's, its code's, those of every 400."""
    layers = [error.words, errors.codes.get(error.code)]
    if error.status == _BAD_REQUEST:
        layers.append(errors.codes.get("bad_request"))
    return merged_text(*layers)


def merged_text(*layers: ErrorText | None) -> ErrorText:
    """Return an error text that takes each member from the first layer that has it."""
    members = {
        name: next((value for layer in layers if layer and (value := getattr(layer, name)) is not None), None)
        for name in ErrorText.__struct_fields__
    }
    return ErrorText(**members)


def _details(error: ApiError, errors: Errors, words: ErrorText, protocol: Protocol, request_id: str) -> dict[str, Any]:
    status = words.status or protocol.statuses.get(error.code) or error.status
    kind = words.type or protocol.type_of(status)
    if status == _BAD_REQUEST and errors.bad_request_type is not None:
        kind = errors.bad_request_type
    code = error.code if words.code is None else words.code
    details = {**error.details, "status": status, "request_id": request_id, "message": error.message}
    details |= {"code": code, "type": kind, "param": error.param}
    if words.param is not None:
        details["param"] = filled_body(words.param, details)
    return details


_BAD_REQUEST: Final = STATUS_OF["bad_request"]
