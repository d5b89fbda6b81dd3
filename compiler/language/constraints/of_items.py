"""The constraint of the items of an array: a rule of values within the rule of a field."""

from collections.abc import Iterator
from typing import Any, Final

from compiler.language.constraints.of_values import OF_VALUES
from compiler.language.constraints.record import (
    Constraint,
    ConstraintComparison,
    boundary_values_of,
    values_named_in,
)
from compiler.language.samples import BoundaryValue, numbers_around, shown
from compiler.language.values import mapping
from router.contract.rules.field_tests import tests_of
from router.contract.schema.rule_list import FieldRule
from router.contract.schema.sections import Field

_OF_EVERY_TYPE: Final[tuple[Any, ...]] = ("hot", 1, 1.5, True, [1], {"a": 1}, "", None)


def _items(path: str, rule: Field) -> Iterator[BoundaryValue]:
    """Yield arrays of one value, and of a good one and it: the values that the rule of the items is tested with."""
    if rule.items is None:
        return
    edges = [each for value in values_named_in(OF_VALUES, rule.items) for each in _around(value)]
    values = [*edges, *(each.value for each in boundary_values_of(OF_VALUES, "", rule.items)), *_OF_EVERY_TYPE]
    tests = tuple(tests_of(FieldRule(path, Field(items=rule.items), "")))
    good = next((value for value in values if all(test([value], {}) is None for test in tests)), None)
    count = max(1, rule.min_items or 1)
    for value in list({repr(value): value for value in values}.values()):
        yield BoundaryValue(f"an array of {shown(value)}", [value] * count)
    if good is not None:
        bad = next((value for value in values if any(test([value], {}) is not None for test in tests)), good)
        yield BoundaryValue(f"an array of {shown(good)}, then {shown(bad)}", [*[good] * max(1, count - 1), bad])
    yield BoundaryValue("an empty array", [])


def _around(value: object) -> list[Any]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [each.value for each in numbers_around("", value)]
    return [value, f"{value}x"]


OF_ITEMS: Final = (
    Constraint(
        key="items",
        schema=mapping(
            {constraint.key: constraint.schema for constraint in OF_VALUES if constraint.of_value},
            "The rule of each item of an array; another value has no items.",
            absent="any items",
            example="{type: string, max_length: 32}",
        ),
        kind="required, rejected, types",
        form="rule",
        part="item",
        comparison=ConstraintComparison("item"),
        boundary_values=_items,
        of_value=True,
    ),
)
