"""An engine's 400 told in the words of a contract, as far as its text can be found."""

from typing import Any

from router.contract.answers import read_object, without_mark
from router.contract.errors import ApiError, ErrorAnswer, answer
from router.contract.sections import Errors

_LONGEST_TEXT = 4096


def retold(body: bytes, errors: Errors, request_id: str, model: str | None = None) -> ErrorAnswer | None:
    """Return an engine's 400 in the contract's words and envelope; None where its body holds no text of an error.

    Known are `{"error": {"message": …}}`, `{"error": "…"}`, `{"message": …}` and FastAPI's `{"detail": …}`.
    `model` is the name that the client asked for.
    """
    value = read_object(without_mark(body))
    holder = value["error"] if isinstance(value.get("error"), dict) else value
    text = _text_of(holder.get("message") or holder.get("error") or holder.get("detail"))
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
    return answer(error, errors, request_id)


def _text_of(said: Any) -> str:  # noqa: ANN401 - whatever an engine writes
    """Return the text of an error; of FastAPI's list, that of its first item."""
    if isinstance(said, list) and said and isinstance(said[0], dict):
        said = said[0].get("msg")
    return said if isinstance(said, str) else ""
