"""What a plain scalar means: the core schema of YAML 1.2, for the reader and the writer."""

import math
import re
from typing import Final

Value = str | int | float | bool | None

MAX_NUMBER_LENGTH: Final = 400
"""Longest number, in characters, that is read."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_TOUCHING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):([^\s:/]\S*)")
_ZERO = re.compile(r"[-+]?[0.]+(?:[eE].*)?")


def resolve(text: str) -> Value:
    """Return the value of a plain scalar.

    Raises ValueError for a number outside the range of a 64-bit float, or longer than MAX_NUMBER_LENGTH.
    """
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NAN:
        return math.nan
    if _INFINITY.fullmatch(text):
        return -math.inf if text.startswith("-") else math.inf
    number = number_of(text)
    return text if number is None else number


def number_of(text: str) -> int | float | None:
    """Return the finite number that a text spells, or None where it spells none.

    Raises ValueError as `resolve` does.
    """
    if len(text) > MAX_NUMBER_LENGTH:
        if _FLOAT.fullmatch(text) or _HEXADECIMAL.fullmatch(text) or _OCTAL.fullmatch(text):
            raise ValueError(f"a number of {len(text)} characters")
        return None
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    return _float(text) if _FLOAT.fullmatch(text) else None


def with_space_after_colon(text: str) -> str | None:
    """Return the key and value at the start of a text like `a:b`, with a space between them; otherwise None."""
    match = _TOUCHING.match(text)
    return f"{match[1]}: {match[2]}" if match else None


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number beyond the range of a 64-bit float")
    if number == 0 and not _ZERO.fullmatch(text):
        raise ValueError("a number too small for a 64-bit float: it would be read as 0")
    return number
