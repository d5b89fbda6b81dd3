"""Combinations of cases of several groups: of each group one case or none, with a condition that is all of theirs."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from router.contract.schema.conditions import is_one_of
from router.contract.schema.model import When
from router.contract.schema.types import Condition, Scalar

SEPARATOR = " + "
"""What stands between the names of the cases in the name of their combination."""


def combinations(
    whens: Mapping[str, When], group_of: Mapping[str, str], groups: Iterable[str]
) -> Iterator[tuple[tuple[str, ...], When]]:
    """Yield the names of the cases of each combination, single cases included, with its condition.

    whens, group_of: the condition and the group of each case by its name. groups: those behind the first one, which has
    no name, in order. The first combination whose condition holds has the first case of each group whose condition
    holds. Combinations that no request can match are left out, as far as modes and values of fields show it.
    """
    of_group: dict[str, list[str]] = {group: [] for group in ("", *groups)}
    for name in whens:
        of_group[group_of[name]].append(name)
    for chosen in product(*([*names, None] for names in of_group.values())):
        names = tuple(name for name in chosen if name is not None)
        when: When | None = When()
        for name in names:
            when = None if when is None else _both(when, whens[name])
        if names and when is not None:
            yield names, when


def _both(one: When, other: When) -> When | None:
    """Return the condition that both hold; None if that is impossible."""
    if one.mode and other.mode and not set(one.mode) & set(other.mode):
        return None
    mode = tuple(name for name in one.mode if name in other.mode) if one.mode and other.mode else one.mode or other.mode
    fields = _both_fields(one.fields, other.fields)
    if fields is None:
        return None
    further = (other.model,) if one.model and other.model else ()
    return When(one.model or other.model, (*one.also, *further, *other.also), mode, fields)


def _both_fields(one: Condition, other: Condition) -> Condition | None:
    both = dict(one)
    for path, values in other.items():
        common = _common(both[path], values) if path in both else values
        if common is None:
            return None
        both[path] = common
    return both


def _common(one: tuple[Scalar, ...], other: tuple[Scalar, ...]) -> tuple[Scalar, ...] | None:
    """Return the values that both admit, None if there is none; an empty tuple admits any."""
    if not one or not other:
        return one or other
    return tuple(value for value in one if is_one_of(value, other)) or None
