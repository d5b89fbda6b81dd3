"""The values of a contract as people read them."""

import re

from compiler.diagnostics import shown
from compiler.schema import BYTE_UNITS
from router.contract.sections import Interval, MaxTokens

Value = int | float | str | Interval | MaxTokens | tuple[str, ...] | None
"""What can stand on either side of a change; None where the contract says nothing."""

NOTHING = "none"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")


def span(low: int, high: int) -> str:
    """Return whole numbers from one to another, both included."""
    return str(low) if low == high else f"{low}…{high}"


def size(count: int) -> str:
    """Return a number of bytes in the largest unit that holds it evenly."""
    unit = max((unit for unit, factor in BYTE_UNITS.items() if count % factor == 0), key=BYTE_UNITS.__getitem__)
    return f"{count // BYTE_UNITS[unit]}{unit}"


def text_of(value: Value) -> str:
    """Return a value as a profile would write it, in one line."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value != NOTHING else shown(value)
    if isinstance(value, Interval):
        return f"{{min: {value.min!r}, max: {value.max!r}}}"
    if isinstance(value, MaxTokens):
        return f"{{cap: {value.cap}, on_exceed: {value.on_exceed}, default: {value.default}}}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(text_of, value))}]"
    return repr(value)
