"""What engines make of a request: the fields that a contract governs, read by the rules of each."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import orjson
import pydantic

from router.contract.schema.fields import SAMPLING_FIELDS, WHOLE_NUMBER_FIELDS
from tests.router.conformance.readers import REFUSALS, missing, nlohmann


class Effective(NamedTuple):
    """What an engine goes by: of each governed field the value it read, None where it falls back to its own."""

    model: str | None
    stream: bool
    budget: int | None
    sampling: dict[str, float | None]
    min_tokens: int = 0
    best_of: int | None = None
    unknown: frozenset[str] = frozenset()
    """Standard fields that this engine knows by another name alone."""


Engine = Callable[[bytes], Effective | None]
"""What an engine reads in a body; None where it refuses it."""

_SAMPLING: dict[str, Any] = {
    field: ((int if field in WHOLE_NUMBER_FIELDS else float) | None, None) for field in SAMPLING_FIELDS
}
_Chat = pydantic.create_model(
    "_Chat",
    model=(str | None, None),
    messages=(Any, None),
    stream=(bool | None, False),
    max_tokens=(int | None, None),
    max_completion_tokens=(int | None, None),
    min_tokens=(int, 0),
    best_of=(int | None, None),
    **_SAMPLING,
)


def _of_pydantic(chat: Any, budget: int | None) -> Effective:
    sampling = {field: getattr(chat, field) for field in SAMPLING_FIELDS}
    return Effective(chat.model, bool(chat.stream), budget, sampling, chat.min_tokens, chat.best_of)


def vllm(body: bytes) -> Effective | None:
    """Read as vLLM does: Python's json, then pydantic; `max_completion_tokens` unless it is null."""
    chat = _Chat.model_validate(json.loads(body))
    return _of_pydantic(chat, chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens)


def sglang(body: bytes) -> Effective | None:
    """Read as SGLang does: orjson, then pydantic; `max_completion_tokens` unless it is null or 0."""
    chat = _Chat.model_validate(orjson.loads(body))
    return _of_pydantic(chat, chat.max_completion_tokens or chat.max_tokens)


def pydantic_alone(body: bytes) -> Effective | None:
    """Read as an engine that leaves the JSON to pydantic too."""
    chat = _Chat.model_validate_json(body)
    return _of_pydantic(chat, chat.max_completion_tokens or chat.max_tokens)


def first_wins(body: bytes) -> Effective | None:
    """Read as an engine would that takes the first of two equal keys; none is known to, and none shall be misled."""
    chat = _Chat.model_validate(json.loads(body, object_pairs_hook=lambda pairs: dict(reversed(pairs))))
    return _of_pydantic(chat, chat.max_completion_tokens or chat.max_tokens)


def llama_cpp(body: bytes) -> Effective | None:
    """Read as llama.cpp does, by the rules of nlohmann retold in Python."""
    fields = json.loads(body)
    numbers = {key: value for key, value in fields.items() if isinstance(value, int | float)}
    whole = {key: _wrapped(value) for key, value in numbers.items()}
    return _of_llama_cpp(fields, whole, {key: float(value) for key, value in numbers.items()})


def llama_cpp_itself(body: bytes) -> Effective | None:
    """Read as llama.cpp does, with nlohmann itself."""
    seen = nlohmann(body)
    return _of_llama_cpp(seen["value"], seen["whole"], seen["real"])


def _wrapped(number: float) -> int:
    return (int(number) + 2**31) % 2**32 - 2**31


def _of_llama_cpp(fields: dict[str, Any], whole: dict[str, int], real: dict[str, float]) -> Effective | None:
    # Measured on b10434: null is absent; strings, arrays and objects in a field that is to be a number are a 400.
    def first(numbers: dict[str, Any], *names: str) -> Any:
        sent = [name for name in names if fields.get(name) is not None]
        if any(name not in numbers for name in sent):
            raise ValueError("type must be number")
        return numbers[sent[0]] if sent else None

    sampling = {field: first(whole if field in WHOLE_NUMBER_FIELDS else real, field) for field in SAMPLING_FIELDS}
    sampling["n"] = first(whole, "n_cmpl", "n")
    sampling["repetition_penalty"] = first(real, "repeat_penalty")
    budget = first(whole, "n_predict", "max_completion_tokens", "max_tokens")
    stream = fields.get("stream")
    return Effective(fields.get("model"), bool(stream), budget, sampling, unknown=frozenset({"repetition_penalty"}))


@cache
def engines() -> dict[str, Engine]:
    """Return the engines by name; llama.cpp with nlohmann itself only where that can be built."""
    named: dict[str, Engine] = {
        "vLLM": vllm,
        "SGLang": sglang,
        "pydantic alone": pydantic_alone,
        "first wins": first_wins,
        "llama.cpp": llama_cpp,
    }
    return named if missing() else {**named, "llama.cpp with nlohmann": llama_cpp_itself}


def read_by(engine: Engine, body: bytes) -> Effective | None:
    """Return what an engine reads in a body; None where it refuses it, which harms nobody."""
    try:
        return engine(body)
    except REFUSALS:
        return None
