"""Test values for a field: at and around each edge of its rule, and of every type."""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from compiler.verify.generation.patterns import texts_for
from compiler.verify.oracle.values import WHOLE, is_match
from router.contract.schema.rule_list import FieldRule
from router.contract.schema.sections import Field

FOREIGN: Final = "verify-unknown"
"""A string that no contract lists."""

_STEP: Final = 0.01
_MOST_EDGES: Final = 3
_MOST_SMALL: Final = 2


class BoundaryValue(NamedTuple):
    """A test value and its description; `is_edge`: the value is at an edge or next to one."""

    description: str
    value: Any
    is_edge: bool = True


def boundary_values_of(rule: FieldRule, elsewhere: Iterable[Field] = ()) -> Iterator[BoundaryValue]:
    """Yield the test values for the field of a rule; `elsewhere`: the rules of other cases for the field."""
    field = rule.field
    yield from _of_others(field, elsewhere)
    yield from _edges(rule.path, field)
    yield from _words(field)
    yield from _measures(rule.path, field)
    if field.pattern is not None:
        yield from _texts(field.pattern)
    yield from _mapped(field)
    if rule.path != "messages" and (field.type or _numbers(field) or field.reject or not _has_values(field)):
        yield from _of_types(is_edge=bool(field.type) or field.reject or field.drop)


def values_for(rule: FieldRule) -> Iterator[Any]:
    """Yield values that may well be valid in the field of a rule."""
    yield from (boundary.value for boundary in boundary_values_of(rule))
    yield items_of(rule.path, rule.field.min_items or 1)


def numbers_around(path: str, number: float, *, is_whole: bool = False) -> Iterator[BoundaryValue]:
    """Yield a number and its neighbours: a step to either side and, for fractions, the nearest there are."""
    whole = is_whole or path in WHOLE
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
        return [{"role": roles[(start + case_match) % 2], "content": "Say OK."} for case_match in range(count)]
    if path in {"tools", "functions"}:
        return [
            function(f"look_{case_match}") if path == "tools" else _named(f"look_{case_match}")
            for case_match in range(count)
        ]
    return [f"~{case_match}" for case_match in range(count)]


def function(name: object, kind: object = "function") -> dict[str, Any]:
    """Return a function tool."""
    return {"type": kind, "function": _named(name)}


def _named(name: object) -> dict[str, Any]:
    return {"name": name, "description": "Looks.", "parameters": {"type": "object", "properties": {}}}


def shown(value: object) -> str:
    """Return a value as JSON, cut to what fits a line."""
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


_LONGEST: Final = 48


def _moved(number: float, step: float) -> float:
    return number + step if isinstance(step, int) else round(number + step, 6)


def _texts(pattern: str) -> Iterator[BoundaryValue]:
    """Yield texts around a pattern. The first text that matches and the first that does not are edges."""
    counts = {True: 0, False: 0}
    for text in texts_for(pattern):
        fits = is_match(pattern, text)
        counts[fits] += 1
        yield BoundaryValue(f"the text {_cut(text)}", text, is_edge=counts[fits] <= _MOST_EDGES)


def _of_others(field: Field, elsewhere: Iterable[Field]) -> Iterator[BoundaryValue]:
    """Yield values that other cases list for the same field, and this one does not."""
    own = {*(field.allowed or ()), *field.map}
    known = dict.fromkeys(
        value
        for other in elsewhere
        for value in (*(other.allowed or ()), *other.map, other.min, other.above, other.max, other.below, other.force)
        if value is not None
    )
    yield from (
        BoundaryValue(f"{shown(value)}, which another case knows", value) for value in known if value not in own
    )


def _edges(path: str, field: Field) -> Iterator[BoundaryValue]:
    is_whole = field.type == ("integer",)
    numbers = _numbers(field)
    for number in numbers:
        yield from numbers_around(path, number, is_whole=is_whole)
    for number in numbers[:1] + numbers[-1:]:
        yield from spelled_numbers(number)
    if numbers:
        yield BoundaryValue("true", value=True, is_edge=False)


def _numbers(field: Field) -> list[float]:
    sides = [field.min, field.above, field.max, field.below, field.floor, field.ceiling, field.force]
    found = [*(field.allowed or ()), *sides, field.default]
    return list(dict.fromkeys(each for each in found if isinstance(each, int | float) and not isinstance(each, bool)))


def _words(field: Field) -> Iterator[BoundaryValue]:
    scalars = [each for each in (*(field.allowed or ()), field.force, field.default) if isinstance(each, str | bool)]
    for each in dict.fromkeys(scalars):
        yield BoundaryValue(shown(each), each)
        if isinstance(each, str):
            yield BoundaryValue(f"{shown(each.upper())} in capitals", each.upper(), is_edge=False)
            yield BoundaryValue(shown(f"{each}x"), f"{each}x", is_edge=False)
        else:
            yield BoundaryValue(f"{shown(not each)}", not each)
            yield BoundaryValue(f"{shown(each)} as a string", shown(each), is_edge=False)
    if scalars:
        yield BoundaryValue("a word that is not known", FOREIGN)


def _has_values(field: Field) -> bool:
    return field.allowed is not None or field.pattern is not None or field.max_items is not None


def _measures(path: str, field: Field) -> Iterator[BoundaryValue]:
    counts = [count for each in (field.min_items, field.max_items) if each is not None for count in _around(each)]
    yield from (BoundaryValue(f"{count} items", items_of(path, count)) for count in dict.fromkeys(counts) if count >= 0)
    if counts and path != "messages":
        yield BoundaryValue("no array", "~")
    if field.max_bytes is None:
        return
    most = field.max_bytes
    for count in (most, most + 1):
        yield BoundaryValue(f"a text of {count} bytes", "a" * count)
        yield BoundaryValue(f"a text of {count} bytes in an array", ["a", "a" * count], is_edge=False)
    yield BoundaryValue(f"a text of {most} characters and {2 * most} bytes", "é" * most, is_edge=False)


def _around(count: int) -> tuple[int, int, int]:
    return count - 1, count, count + 1


def _mapped(field: Field) -> Iterator[BoundaryValue]:
    for key, value in field.map.items():
        yield BoundaryValue(f"{shown(key)}, which becomes {shown(value)}", key)
        if key in {"true", "false"} or key.lstrip("-").isdigit():
            yield BoundaryValue(f"{key}, which becomes {shown(value)}", json.loads(key))


def _of_types(*, is_edge: bool) -> Iterator[BoundaryValue]:
    for value in ("hot", 1, 1.5, True, [1], [], {"a": 1}, ""):
        yield BoundaryValue(f"{shown(value)}, {_KIND[type(value)]}", value, is_edge)


_KIND: Final = {
    str: "a string",
    int: "a whole number",
    float: "a fraction",
    bool: "a boolean",
    list: "an array",
    dict: "an object",
}
