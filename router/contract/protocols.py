"""The table of protocols: their errors, statuses, request ids, and how a stream ends or fails.

Sources: platform.claude.com/docs/en/api/errors and the streaming guide there for Messages; the OpenAI API reference for
the others. How clients react to a failing stream was tested with the `anthropic` and `openai` SDKs and with Codex.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from router.contract.responses.failure_frames import Failure, as_data, as_error_event, as_failed_response
from router.contract.schema.sections import Errors

INVALID_REQUEST: Final = "invalid_request_error"
SERVER_ERROR: Final = "server_error"
_SERVER_ERRORS: Final = 500
_LINE: Final = rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])"
_EVENT: Final = _LINE + rb"(?:event:[ ]?|data:[ ]?\{[ ]?\"type\":[ ]?\")"
_END: Final = rb"[ \t]*(?:\Z|[\"\r\n])"


class Protocol(NamedTuple):
    """One row of the table.

    `follows_contract`: which error settings of the contract apply: all, all but `bad_request_type` (a promise of the
    chat route alone), or none. `types` are the error types by status, `statuses` the statuses by error code that differ
    from STATUS_OF. `request_id_headers` carry the request id in every response, as `x-request-id` does. A stream is
    complete once `last_event` matches; `mark` is a substring of each match, searched first for speed. With
    `needs_last_event`, a stream without it is incomplete even if the connection ends properly. `model_holder` is the
    event's member whose object names the model, None if the event itself names it. `error_event` matches the engine's
    own report of a failure. `failure` makes the frames that report a failure in mid-stream.
    """

    name: str
    follows_contract: Literal["all", "except_type", "nothing"]
    envelope: dict[str, Any]
    types: Mapping[int, str]
    statuses: Mapping[str, int]
    request_id_headers: tuple[str, ...]
    mark: bytes
    last_event: re.Pattern[bytes]
    needs_last_event: bool
    model_holder: str | None
    error_event: re.Pattern[bytes]
    failure: Callable[[Failure], bytes]

    def errors(self, errors: Errors) -> Errors:
        """Return the error settings of a contract that apply to this protocol."""
        match self.follows_contract:
            case "all":
                return errors
            case "except_type":
                return msgspec.structs.replace(errors, bad_request_type=None)
            case "nothing":
                return _NO_WORDS

    def type_of(self, status: int) -> str:
        """Return the error type of a status."""
        return self.types.get(status) or self.types[_SERVER_ERRORS if status >= _SERVER_ERRORS else 400]


_NO_WORDS: Final = Errors()

CHAT: Final = Protocol(
    name="chat",
    follows_contract="all",
    envelope={"error": {"message": "{message}", "type": "{type}", "param": "{param}", "code": "{code}"}},
    types={400: INVALID_REQUEST, 500: SERVER_ERROR},
    statuses={},
    request_id_headers=(),
    mark=b"[DONE]",
    last_event=re.compile(_LINE + rb"data:[ ]?\[DONE\]" + _END),
    needs_last_event=False,
    model_holder=None,
    error_event=re.compile(_LINE + rb"data:[ ]?\{[ ]?\"error\""),
    failure=as_data,
)

COMPLETIONS: Final = CHAT._replace(name="completions", follows_contract="except_type")

OTHER: Final = COMPLETIONS._replace(name="other")
"""All other routes, and requests without a route."""

RESPONSES: Final = COMPLETIONS._replace(
    name="responses",
    mark=b'"response"',
    last_event=re.compile(_EVENT + rb"response\.(?:completed|incomplete|failed)" + _END),
    needs_last_event=True,
    model_holder="response",
    error_event=re.compile(_EVENT + rb"(?:error|response\.failed)" + _END),
    failure=as_failed_response,
)

MESSAGES: Final = Protocol(
    name="messages",
    follows_contract="nothing",
    envelope={
        "type": "error",
        "error": {"type": "{type}", "message": "{message}"},
        "request_id": "{request_id}",
    },
    types={
        400: INVALID_REQUEST,
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        409: "conflict_error",
        413: "request_too_large",
        429: "rate_limit_error",
        500: "api_error",
        504: "timeout_error",
        529: "overloaded_error",
    },
    statuses={"no_healthy_engines": 529, "overloaded": 529},
    request_id_headers=("request-id",),
    mark=b"message_stop",
    last_event=re.compile(_EVENT + rb"message_stop" + _END),
    needs_last_event=True,
    model_holder="message",
    error_event=re.compile(_EVENT + rb"error" + _END),
    failure=as_error_event,
)
