"""Numbers as engines read them: pydantic's lax mode, comparison as float64, and texts for messages.

vLLM and SGLang declare sampling fields as pydantic `float` or `int`, so a string or a boolean may be a number to them.
The grammars below were checked against pydantic 2.14 on every short string over the characters that matter. Two
differences are known: a sign after leading zeros (`"0-1"`), which pydantic accepts as a whole number and this rejects,
and a float beyond int64, which pydantic rejects as a whole number and this accepts, since our JSON parser reads
integers from 2^64 on as floats.
"""

import math
import re
from typing import Final

MAX_STRING_BYTES: Final = 64
"""Longest string, in UTF-8 bytes, that is read as a number; a longer one is not a number anybody means."""

# Rust's White_Space, which pydantic trims; Python's str.strip() would trim more.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_EXACT: Final = 1e16
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"([+-]?)(?:0[0_]*(?<!_)|(?:0[0_]*)?([1-9][0-9]*(?:_[0-9]+)*))(?:\.0+)?", re.ASCII)


def read_float(value: object) -> float | None:
    """Return the value that a pydantic `float` field reads in lax mode, None if it rejects the value."""
    if isinstance(value, bool | int | float):
        return float(value)
    if not isinstance(value, str) or is_too_long(value):
        return None
    text = value.strip(_SPACE)
    if "_" in text:
        # pydantic drops single inner underscores, but then trims no more.
        if value.startswith("_") or value.endswith("_") or "__" in value:
            return None
        text = value.replace("_", "")
    if _DECIMAL.fullmatch(text) or _SPECIAL.fullmatch(text):
        return float(text)
    return None


def read_whole(value: object) -> int | None:
    """Return the value that a pydantic `int` field reads in lax mode, None if it rejects the value."""
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else None
    if not isinstance(value, str) or is_too_long(value):
        return None
    match = _WHOLE.fullmatch(value.strip(_SPACE))
    if match is None:
        return None
    return int(match[1] + (match[2] or "0").replace("_", ""))


def show(number: float) -> str:
    """Return a number for a message: whole values without `.0`."""
    if isinstance(number, float) and number.is_integer() and abs(number) < _EXACT:
        return str(int(number))
    return str(number)


def is_too_long(text: str) -> bool:
    """Return whether a string is longer than any that is read as a number here; engines may read it all the same."""
    return len(text) > MAX_STRING_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_STRING_BYTES
