"""Display texts for the values of a contract."""

import re
from collections.abc import Iterable
from typing import Any, Final, TypeGuard

import msgspec

from compiler.diagnostics import quoted
from compiler.language.schema import BYTE_UNITS
from compiler.source.yaml_writer import inline
from router.artifact.layout import BODY, in_order
from router.contract.jsonbytes.numbers import show
from router.contract.schema.sections import Interval, MaxTokens
from router.contract.schema.types import Scalar

Value = int | float | str | Interval | MaxTokens | tuple[Scalar, ...] | list[Any] | dict[str, Any] | None
"""The value on either side of a change; None if the contract sets none."""

MOST_LISTED: Final = 8
"""Values that a sentence lists; more are counted."""

NOTHING = "none"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")


def same(old: object, new: object) -> bool:
    """Return whether two values are equal in an artifact: keys in any order but in bodies; 1, 1.0 and true differ."""
    before, after = (msgspec.json.encode(in_order(msgspec.to_builtins(value))) for value in (old, new))
    return before == after


def same_body(old: object, new: object) -> bool:
    """Return whether two templates of bodies are equal, the order of their members included."""
    return same({BODY: old}, {BODY: new})


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
        return value if _PLAIN.fullmatch(value) and value != NOTHING else quoted(value)
    if isinstance(value, Interval):
        return f"{{min: {value.min!r}, max: {value.max!r}}}"
    if isinstance(value, MaxTokens):
        return f"{{cap: {value.cap}, on_exceed: {value.on_exceed}, default: {value.default}}}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return inline(value) if isinstance(value, dict | list) else repr(value)


def listed(values: Iterable[Scalar], word: str = "or") -> str:
    """Return values in a sentence: `0, 0.6 or 1`."""
    texts = [show(value) if _is_number(value) else text_of(value) for value in values]
    if len(texts) > MOST_LISTED:
        texts = [*texts[: MOST_LISTED - 1], f"{len(texts) - MOST_LISTED + 1} more"]
    *others, last = texts or [NOTHING]
    return f"{', '.join(others)} {word} {last}" if others else last


def _is_number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
