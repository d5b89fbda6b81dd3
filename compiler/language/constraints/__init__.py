"""The constraints of a field's rule, and what becomes of its value: one record each, in the order of the reference.

Whatever else the compiler does with a constraint it reads here. Two places know the constraints besides, on purpose:
the router's tests (`router/contract/rules/field_tests.py`) and the oracle of `verify`, which reads contracts by itself.
"""

from collections.abc import Iterator
from typing import Any, Final

from compiler.language.constraints.of_fields import OF_OTHERS_AND_CHANGES, OF_PRESENCE
from compiler.language.constraints.of_items import OF_ITEMS
from compiler.language.constraints.of_values import OF_VALUES
from compiler.language.constraints.record import Constraint, boundary_values_of, stated_in, values_named_in
from compiler.language.samples import BoundaryValue
from router.contract.schema.sections import ValueRule

CONSTRAINTS: Final = (*OF_PRESENCE, *OF_VALUES, *OF_ITEMS, *OF_OTHERS_AND_CHANGES)

BY_KEY: Final = {constraint.key: constraint for constraint in CONSTRAINTS}
"""The constraints by their names in a profile."""

PARTS: Final = tuple(
    dict.fromkeys(part for constraint in CONSTRAINTS for part in (constraint.wider, constraint.part) if part)
)
"""The parts of a field's rule that may have an error text of their own."""


def stated(rule: ValueRule) -> Iterator[Constraint]:
    """Yield the constraints that the rule of a field, or of its items, states, each member once."""
    return stated_in(CONSTRAINTS, rule)


def boundary_values(path: str, field: ValueRule) -> Iterator[BoundaryValue]:
    """Yield the test values of the constraints that the rule of a field states, but for those that name values."""
    return boundary_values_of(CONSTRAINTS, path, field)


def values_named(field: ValueRule) -> list[Any]:
    """Return the values of the field that its rule names, each once."""
    return values_named_in(CONSTRAINTS, field)


def keys_of_part(part: str, stated: frozenset[str]) -> tuple[str, ...]:
    """Return which of the stated keys of a rule a violation of a part is of."""
    keys = tuple(each.key for each in CONSTRAINTS if each.part == part and each.key in stated)
    if part == BY_KEY["type"].part and not keys:
        return tuple(each.key for each in CONSTRAINTS if each.is_of_numbers and each.key in stated)
    return keys
