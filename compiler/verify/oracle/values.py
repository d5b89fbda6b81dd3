"""Request values as the contract language reads them: paths, equality, numbers, types and display texts."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final

import re2

from router.contract.schema.types import Scalar

Fields = dict[str, Any]

WHOLE: Final = ("top_k", "n")
"""Fields that engines declare as whole numbers; all other numbers are read as float64."""

_NUMBER: Final = re.compile(r"[ \t\n]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t\n]*", re.ASCII)
_LONGEST_NUMBER: Final = 64
_SHOWN: Final = 200


def at(fields: Fields, dotted: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at a dotted path of nested objects; None if it is null or missing."""
    value: Any = fields
    for step in dotted.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def copied(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a deep copy of a JSON value; `copy.deepcopy` takes several times as long, since it looks for cycles."""
    if isinstance(value, dict):
        return {name: copied(member) for name, member in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def stands(fields: Fields, dotted: str) -> bool:
    """Return whether there is a value, null included, at a dotted path."""
    above, _, last = dotted.rpartition(".")
    holder = at(fields, above) if above else fields
    return isinstance(holder, dict) and last in holder


def put(fields: Fields, dotted: str, value: object) -> None:
    """Set the value at a dotted path; a parent that is not an object becomes one."""
    *above, last = dotted.split(".")
    for step in above:
        if not isinstance(fields.get(step), dict):
            fields[step] = {}
        fields = fields[step]
    fields[last] = value


def take_away(fields: Fields, dotted: str) -> None:
    """Remove the value at a dotted path, and the parents that are empty afterwards."""
    first, _, rest = dotted.partition(".")
    if not rest:
        fields.pop(first, None)
        return
    inner = fields.get(first)
    if not isinstance(inner, dict) or rest.partition(".")[0] not in inner:
        return
    take_away(inner, rest)
    if not inner:
        del fields[first]


def is_scalar(value: object, wanted: Scalar) -> bool:
    """Return whether a value is a scalar: numbers by value, strings and booleans exactly."""
    if isinstance(value, bool) or isinstance(wanted, bool) or isinstance(value, str) or isinstance(wanted, str):
        return type(value) is type(wanted) and value == wanted
    return isinstance(value, int | float) and value == wanted


def is_among(value: object, wanted: Iterable[Scalar]) -> bool:
    """Return whether a value is one of some scalars; with no scalars, whether it is present."""
    wanted = tuple(wanted)
    return value is not None if not wanted else any(is_scalar(value, each) for each in wanted)


LONGEST_MATCH: Final = 1024
"""Longest text in characters that can match a pattern."""

_RE2: Final = re2.Options()
_RE2.log_errors = False


def is_match(pattern: str, value: object) -> bool:
    """Return whether a value is a string that a pattern in RE2 syntax matches as a whole.

    RE2 itself evaluates the pattern, so this is no second implementation of patterns. The match of the whole text and
    the limit on its length are implemented here a second time.
    """
    if not isinstance(value, str) or len(value) > LONGEST_MATCH or any("\ud800" <= each <= "\udfff" for each in value):
        return False
    return re2.fullmatch(pattern, value, options=_RE2) is not None


def number_in(field: str, value: object) -> float | None:
    """Return the number that an engine reads in a field; strings may hold a number, and true is 1."""
    if isinstance(value, str):
        if len(value) > _LONGEST_NUMBER or not _NUMBER.fullmatch(value):
            return None
        number = float(value)
        return number if field not in WHOLE or re.fullmatch(r"\s*[+-]?[0-9]+(\.0+)?\s*", value) else None
    if not isinstance(value, bool | int | float):
        return None
    number = float(value)
    return None if field in WHOLE and not (math.isfinite(number) and number.is_integer()) else number


def is_of_type(value: object, kind: str) -> bool:
    """Return whether a value is of a JSON type; a whole number may be written with a point."""
    match value:
        case bool():
            return kind == "boolean"
        case int():
            return kind in {"number", "integer"}
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case _:
            return kind == "object" and isinstance(value, dict)


def plain_number(number: float | None) -> float | None:
    """Return a number, without a decimal point if it is whole."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def display(value: object) -> str | None:
    """Return the display text of a value; None if it is too long to be shown whole."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else None


def choices(values: Iterable[Scalar]) -> str:
    """Return the display text of scalars: `0, 0.6 or 1`."""
    words = [each if isinstance(each, str) else str(display(_plain(each))) for each in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _plain(value: bool | float) -> bool | float | None:
    return value if isinstance(value, bool) else plain_number(value)
