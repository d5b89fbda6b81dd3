"""Upstream error mapping: a 400 of an engine, rewritten in the error texts of a contract where its text is found."""

import re
from typing import Any

from router.contract.errors import ApiError, ErrorResponse, build_error_response
from router.contract.responses.rewrite import read_object, without_mark
from router.contract.schema.sections import Errors

_LONGEST_TEXT = 4096
_BUDGET_OVERFLOW = re.compile(
    # vLLM 0.32; vLLM up to 0.10 and SGLang 0.5
    r"max_\w{0,20}tokens=\d+ cannot be greater than|max_\w{0,20}tokens'? is too large: \d"
    # vLLM up to 0.15, DeepSeek and OpenAI; SGLang's check of prompt and budget together
    r"|maximum context length is \d+ tokens.{0,20}\byou requested|requested token count exceeds the model's maximum",
    re.ASCII | re.IGNORECASE,
)
"""Error texts of engines for a budget, or prompt and budget, that exceeds their context.

Of a prompt that alone is too long they say something else (vLLM: "even without any output tokens"; llama.cpp's type
`exceed_context_size_error`, which is never about the budget): no budget helps there.
"""


def map_upstream_error(body: bytes, errors: Errors, request_id: str, model: str | None = None) -> ErrorResponse | None:
    """Return an engine's 400 with the contract's error texts and envelope; None if its body has no error text.

    Known are `{"error": {"message": …}}`, `{"error": "…"}`, `{"message": …}` and FastAPI's `{"detail": …}`.
    `model` is the name that the client asked for.
    """
    holder = _holder_of(body)
    text = _message_of(holder)
    if not text:
        return None
    param = holder.get("param")
    error = ApiError(
        "bad_request",
        text[:_LONGEST_TEXT],
        param if isinstance(param, str) else None,
        words=errors.engine_400,
        details={"model": model},
    )
    return build_error_response(error, errors, request_id)


def is_budget_overflow(body: bytes) -> bool:
    """Return whether an engine's 400 says that the output budget, or prompt and budget, exceed its context."""
    return _BUDGET_OVERFLOW.search(_message_of(_holder_of(body))[:_LONGEST_TEXT]) is not None


def _holder_of(body: bytes) -> dict[str, Any]:
    """Return the object that holds the members of an error."""
    value = read_object(without_mark(body))
    return value["error"] if isinstance(value.get("error"), dict) else value


def _message_of(holder: dict[str, Any]) -> str:
    return _text_of(holder.get("message") or holder.get("error") or holder.get("detail"))


def _text_of(said: Any) -> str:  # noqa: ANN401 - whatever an engine writes
    """Return the text of an error; of FastAPI's list, that of its first item."""
    if isinstance(said, list) and said and isinstance(said[0], dict):
        said = said[0].get("msg")
    return said if isinstance(said, str) else ""
