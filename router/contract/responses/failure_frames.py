"""The frames that report a failure in mid-stream, in the form that the clients of each protocol evaluate."""

import json
from typing import Any, NamedTuple


class Failure(NamedTuple):
    """A failure, and the members of its stream that the frames repeat.

    `body` is the JSON body of the error response, `error` its members. For Responses: `response` is the last one in the
    stream, `sequence_number` the next number, None if the stream has no numbers.
    """

    body: bytes
    error: dict[str, Any]
    response: dict[str, Any]
    sequence_number: int | None


def as_data(failure: Failure) -> bytes:
    """Return the frame of chat and Completions: only data. No `[DONE]` follows, because it would mean success."""
    return b"data: " + failure.body + b"\n\n"


def as_error_event(failure: Failure) -> bytes:
    """Return the frame of Messages: an event `error`. The SDK skips events without an `event:` line."""
    return b"event: error\n" + as_data(failure)


def as_failed_response(failure: Failure) -> bytes:
    """Return the frames of Responses: `error` and then `response.failed`.

    The SDK raises for the `error` member of the first one; Codex heeds the second one alone.
    """
    error, number = failure.error, failure.sequence_number
    members = {name: error[name] for name in ("code", "message", "param")}
    first = {"type": "error", **_numbered(number), **members, "error": error}
    response = {"object": "response", "output": [], **failure.response}
    response |= {"status": "failed", "error": {"code": "server_error", "message": error["message"]}}
    following = None if number is None else number + 1
    last = {"type": "response.failed", **_numbered(following), "response": response}
    return _event(first) + _event(last)


def _numbered(number: int | None) -> dict[str, int]:
    return {} if number is None else {"sequence_number": number}


def _event(data: dict[str, Any]) -> bytes:
    written = json.dumps(data, ensure_ascii=False).encode(errors="replace")
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), written)
