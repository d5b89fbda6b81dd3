"""Sample values of request fields: numbers around an edge, strings that spell numbers, and lists of some length."""

import json
import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from router.contract.schema.fields import WHOLE_NUMBER_FIELDS

FOREIGN: Final = "verify-unknown"
"""A string that no contract lists."""

_STEP: Final = 0.01
_MOST_SMALL: Final = 2
_LONGEST: Final = 48


class BoundaryValue(NamedTuple):
    """A test value and its description; `is_edge`: the value is at an edge or next to one."""

    description: str
    value: Any
    is_edge: bool = True


def numbers_around(path: str, number: float, *, is_whole: bool = False) -> Iterator[BoundaryValue]:
    """Yield a number and its neighbours: a step to either side and, for fractions, the nearest there are."""
    whole = is_whole or path in WHOLE_NUMBER_FIELDS
    step = 1 if whole or (isinstance(number, int) and abs(number) > _MOST_SMALL) else _STEP
    yield BoundaryValue(f"{shown(number)}", number)
    yield BoundaryValue(f"{shown(_moved(number, -step))}, below {shown(number)}", _moved(number, -step))
    yield BoundaryValue(f"{shown(_moved(number, step))}, above {shown(number)}", _moved(number, step))
    if not whole:
        for towards, side in ((-math.inf, "below"), (math.inf, "above")):
            yield BoundaryValue(f"the number next {side} {shown(number)}", math.nextafter(number, towards))


def spelled_numbers(number: float) -> Iterator[BoundaryValue]:
    """Yield a number as strings that engines read as one, and as ones that they do not."""
    yield BoundaryValue(f'the string "{number}"', str(number), is_edge=False)
    yield BoundaryValue(f'the string " {number} " with blanks', f" {number} ", is_edge=False)
    yield BoundaryValue(f'the string "{number}x"', f"{number}x", is_edge=False)


def items_of(path: str, count: int) -> list[Any]:
    """Return `count` items of a list field."""
    if path == "messages":
        roles = ("user", "assistant")
        start = 0 if count % 2 else 1
        return [{"role": roles[(start + place) % 2], "content": "Say OK."} for place in range(count)]
    if path in {"tools", "functions"}:
        return [function(f"look_{place}") if path == "tools" else _named(f"look_{place}") for place in range(count)]
    return [f"~{place}" for place in range(count)]


def function(name: object, kind: object = "function") -> dict[str, Any]:
    """Return a function tool."""
    return {"type": kind, "function": _named(name)}


def shown(value: object) -> str:
    """Return a value as JSON, cut to what fits a line."""
    return cut(json.dumps(value, ensure_ascii=False))


def cut(text: str) -> str:
    """Return a text, cut to what fits a line."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def _named(name: object) -> dict[str, Any]:
    return {"name": name, "description": "Looks.", "parameters": {"type": "object", "properties": {}}}


def _moved(number: float, step: float) -> float:
    return number + step if isinstance(step, int) else round(number + step, 6)
