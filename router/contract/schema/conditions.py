"""Request fields by dotted path, and whether a request is as a condition asks."""

from collections.abc import Callable, Iterable
from typing import Any

from router.contract.schema.types import Condition, Scalar

Path = tuple[str, ...]


def path_of(dotted: str) -> Path:
    """Return the steps of a dotted path."""
    return tuple(dotted.split("."))


def value_at(fields: dict[str, Any], path: Path) -> Any:  # noqa: ANN401 - a JSON value may be anything
    """Return the value at a path of nested objects; None when it is absent or null."""
    value: Any = fields.get(path[0])
    for step in path[1:]:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def equals(value: object, wanted: Scalar) -> bool:
    """Return whether a JSON value is a scalar: numbers by value, strings and booleans exactly."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return type(value) in _COMPARABLE[type(wanted)] and value == wanted


def is_one_of(value: object, wanted: Iterable[Scalar]) -> bool:
    """Return whether a value is one of some scalars; of none: whether it is not null."""
    wanted = tuple(wanted)
    return any(equals(value, each) for each in wanted) if wanted else value is not None


def tester_of(condition: Condition) -> Callable[[dict[str, Any]], bool]:
    """Return a function that returns whether every field of a condition has one of its values.

    Where it names none, the field has to be there.
    """
    prepared = tuple((path_of(path), wanted) for path, wanted in condition.items())

    def test(fields: dict[str, Any]) -> bool:
        return all(is_one_of(value_at(fields, path), wanted) for path, wanted in prepared)

    return test


_COMPARABLE: dict[type, tuple[type, ...]] = {int: (int, float), float: (int, float), str: (str,)}
