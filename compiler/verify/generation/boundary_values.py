"""Test values for a field: at and around each edge of its rule, and of every type."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from compiler.language.constraints import boundary_values, stated, values_named
from compiler.language.samples import FOREIGN, BoundaryValue, items_of, numbers_around, shown, spelled_numbers
from router.contract.schema.rule_list import FieldRule
from router.contract.schema.sections import Field


def boundary_values_of(rule: FieldRule, elsewhere: Iterable[Field] = ()) -> Iterator[BoundaryValue]:
    """Yield the test values for the field of a rule; `elsewhere`: the rules of other cases for the field."""
    field = rule.field
    yield from _of_others(field, elsewhere)
    yield from _edges(rule.path, field)
    yield from _words(field)
    yield from boundary_values(rule.path, field)
    yield from _mapped(field)
    is_settled = any(constraint.settles_types for constraint in stated(field))
    if rule.path != "messages" and (field.type or _numbers(field) or field.reject or not is_settled):
        yield from _of_types(is_edge=bool(field.type) or field.reject or field.drop)


def values_for(rule: FieldRule) -> Iterator[Any]:
    """Yield values that may well be valid in the field of a rule."""
    yield from (boundary.value for boundary in boundary_values_of(rule))
    yield items_of(rule.path, rule.field.min_items or 1)


def _of_others(field: Field, elsewhere: Iterable[Field]) -> Iterator[BoundaryValue]:
    """Yield values that other cases list for the same field, and this one does not."""
    own = {*(field.allowed or ()), *field.map}
    known = dict.fromkeys(value for other in elsewhere for value in (*values_named(other), *other.map))
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
    numbers = (each for each in values_named(field) if isinstance(each, int | float) and not isinstance(each, bool))
    return list(dict.fromkeys(numbers))


def _words(field: Field) -> Iterator[BoundaryValue]:
    scalars = [each for each in values_named(field) if isinstance(each, str | bool)]
    for each in scalars:
        yield BoundaryValue(shown(each), each)
        if isinstance(each, str):
            yield BoundaryValue(f"{shown(each.upper())} in capitals", each.upper(), is_edge=False)
            yield BoundaryValue(shown(f"{each}x"), f"{each}x", is_edge=False)
        else:
            yield BoundaryValue(f"{shown(not each)}", not each)
            yield BoundaryValue(f"{shown(each)} as a string", shown(each), is_edge=False)
    if scalars:
        yield BoundaryValue("a word that is not known", FOREIGN)


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
