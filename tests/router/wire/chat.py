"""Chat requests as bytes, and what every error answer of the router has to be."""

import json
from typing import Any

from tests.router.rawclient import RawAnswer

CHAT = "/v1/chat/completions"
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


def chat(**fields: Any) -> bytes:
    """Return a chat request for the model `served`."""
    return json.dumps({"model": "served", "messages": MESSAGES, **fields}).encode()


def chat_of_length(length: int) -> bytes:
    """Return a chat request of exactly so many bytes."""
    return chat().ljust(length)


def assert_error(answer: RawAnswer, status: int, code: str, param: str | None = None) -> dict[str, Any]:
    """Check an error of the router's own, whole and in its one shape, and return its members."""
    assert answer.status == status, answer
    assert answer.header("Content-Type") == "application/json"
    assert answer.header("x-router-error-code") == code
    assert answer.header("x-request-id")
    body = answer.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param)
    assert "127.0.0.1" not in error["message"]
    assert "Traceback" not in error["message"]
    return error
