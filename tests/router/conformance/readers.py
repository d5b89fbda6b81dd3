"""The JSON readers that stand behind engines, and whether two of them read the same."""

import ctypes
import json
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import pydantic_core

from tests.router.conformance.fetched import UnavailableError, nlohmann_library

REFUSALS = (ValueError, RecursionError)
"""What a reader raises for a body that it refuses."""


@lru_cache(maxsize=1)
def nlohmann(body: bytes) -> dict[str, Any]:
    """Return what `nlohmann.cpp` sees in a body: `value`, `whole` and `real`. Raises UnavailableError."""
    library = _library()
    text = library.read_body(body, len(body))
    if not text:
        raise ValueError("refused")
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        library.free_text(text)


@cache
def readers() -> dict[str, Callable[[bytes], Any]]:
    """Return the readers of JSON that orjson is compared with, nlohmann among them where it can be built."""
    named: dict[str, Callable[[bytes], Any]] = {
        "json": json.loads,
        "pydantic": pydantic_core.from_json,
    }
    if missing() is None:
        named["nlohmann"] = lambda body: nlohmann(body)["value"]
    return named


@cache
def missing() -> str | None:
    """Say why nlohmann is not among the readers; None when it is."""
    try:
        _library()
    except UnavailableError as error:
        return str(error)
    return None


def same(one: Any, other: Any) -> bool:
    """Tell whether two read values are equal: of the same type, integers beyond 64 bits up to float64."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(left[key], right[key]) for key in left]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif _plain(left) != _plain(right):
            return False
    return True


def _plain(value: Any) -> tuple[type, str]:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        value = float(value)
    return type(value), repr(value)


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(nlohmann_library()))
    library.read_body.restype = ctypes.c_void_p
    library.read_body.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.free_text.argtypes = [ctypes.c_void_p]
    return library
