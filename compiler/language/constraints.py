"""The constraints of a field's rule, and what becomes of its value: one record each, in the order of the reference.

Whatever else the compiler does with a constraint it reads here. Two places know the constraints besides, on purpose:
the router's tests (`router/contract/rules/field_tests.py`) and the oracle of `verify`, which reads contracts by itself.
"""

from collections.abc import Iterator
from typing import Any, Final

from compiler.language.constraint import Constraint, ConstraintComparison, Contradiction
from compiler.language.pattern_texts import texts_for
from compiler.language.samples import BoundaryValue, cut, items_of
from compiler.language.values import (
    BODY_BYTES,
    VALUE,
    Rules,
    condition,
    field_path,
    flag,
    free,
    number,
    one_or_many,
    scalar,
    size,
    text,
    whole,
)
from router.contract.rules.patterns import full_match_of
from router.contract.schema.sections import Field, is_stated

TYPES: Final = ("string", "number", "integer", "boolean", "array", "object")

_MOST_EDGES: Final = 3


def _fields_or_values(meaning: str, example: str) -> Rules:
    """Return the rules of other fields: a list of paths, or each with its values."""
    by_path = condition()
    paths = one_or_many(field_path(), "")["anyof"]
    return {
        "anyof": [*paths, {key: rule for key, rule in by_path.items() if key != "meta"}],
        "meta": {
            "expected": "request fields: a path, a list of paths, or a mapping of paths to values",
            "meaning": meaning,
            "absent": "nothing",
            "example": example,
        },
    }


def _bound(meaning: str, example: str) -> Rules:
    return number(meaning=meaning, absent="any number", example=example)


def _count(meaning: str, example: str) -> Rules:
    return whole(0, "a whole number, at least 0", meaning=meaning, absent="any number", example=example)


def _item_counts(path: str, field: Field) -> Iterator[BoundaryValue]:
    edges = [edge for edge in (field.min_items, field.max_items) if edge is not None]
    counts = dict.fromkeys(count for edge in edges for count in (edge - 1, edge, edge + 1) if count >= 0)
    yield from (BoundaryValue(f"{count} items", items_of(path, count)) for count in counts)
    if path != "messages":
        yield BoundaryValue("no array", "~")


def _sizes(_path: str, field: Field) -> Iterator[BoundaryValue]:
    most = field.max_bytes or 0
    for count in (most, most + 1):
        yield BoundaryValue(f"a text of {count} bytes", "a" * count)
        yield BoundaryValue(f"a text of {count} bytes in an array", ["a", "a" * count], is_edge=False)
    yield BoundaryValue(f"a text of {most} characters and {2 * most} bytes", "é" * most, is_edge=False)


def _matching_texts(_path: str, field: Field) -> Iterator[BoundaryValue]:
    """Yield texts around a pattern. The first texts that match and the first that do not are edges."""
    pattern = field.pattern or ""
    matches = full_match_of(pattern)
    counts = {True: 0, False: 0}
    for each in texts_for(pattern):
        fits = matches(each)
        counts[fits] += 1
        yield BoundaryValue(f"the text {cut(each)}", each, is_edge=counts[fits] <= _MOST_EDGES)


_STANDS_FOR: Final = "`fixed` stands for `allowed` and `default`"
_FIXED_CONTRADICTS: Final = {
    **{
        other: Contradiction("fixed-and-more", f"{_STANDS_FOR}, so `{other}` cannot be set as well")
        for other in ("allowed", "default", "force", "drop")
    },
    **{
        bound: Contradiction("fixed-and-more", f"`fixed` leaves one value, so `{bound}` has no effect")
        for bound in ("min", "above", "max", "below")
    },
}

CONSTRAINTS: Final = (
    Constraint(
        key="required",
        schema=flag("Reject a request where the field is absent or null."),
        kind="required, rejected, types",
        part="required",
        comparison=ConstraintComparison("flag", "requests without {path}"),
        holds_for_messages=True,
    ),
    Constraint(
        key="reject",
        schema=flag("Reject a request that sends the field at all."),
        kind="required, rejected, types",
        part="reject",
        comparison=ConstraintComparison("flag", "requests sending {path}"),
        contradicts={
            "required": Contradiction(
                "refused-and-required", "`reject` and `required` are both given, so every request is rejected"
            )
        },
    ),
    Constraint(
        key="type",
        schema=one_or_many(
            {"type": "string", "allowed": list(TYPES), "meta": {"expected": f"one of {', '.join(TYPES)}"}},
            f"one of {', '.join(TYPES)}",
            meaning="What kind of JSON value is accepted.",
            absent="any",
            example="[string, array]",
        ),
        kind="required, rejected, types",
        form="types",
        part="wrong_type",
        comparison=ConstraintComparison("types", "requests sending {path} as {}"),
        of_value=True,
        is_expected=True,
    ),
    Constraint(
        key="allowed",
        schema=one_or_many(
            scalar(),
            VALUE,
            meaning="The values that are accepted: numbers by value, strings and booleans exactly.",
            absent="any",
            example="[0, 0.6, 1]",
        ),
        kind="sets",
        form="scalars",
        part="allowed",
        comparison=ConstraintComparison("accepted", "requests sending {path} as {}"),
        of_value=True,
        names_values=True,
        settles_types=True,
        is_expected=True,
    ),
    Constraint(
        key="fixed",
        schema=scalar(
            meaning="The one value that is accepted, and that an absent field gets.", absent="none", example="1"
        ),
        kind="sets",
        form="fixed",
        attribute="allowed",
        part="allowed",
        contradicts=_FIXED_CONTRADICTS,
    ),
    Constraint(
        key="min",
        schema=_bound("The least value that is accepted.", "0"),
        kind="ranges",
        part="too_low",
        wider="range",
        comparison=ConstraintComparison("lower end", "requests sending {}"),
        contradicts={"above": Contradiction("two-bounds", "`min` and `above` are both given")},
        of_value=True,
        names_values=True,
        is_of_numbers=True,
        is_expected=True,
    ),
    Constraint(
        key="above",
        schema=_bound("Values must be above this.", "0"),
        kind="ranges",
        part="too_low",
        wider="range",
        is_open=True,
        of_value=True,
        names_values=True,
        is_of_numbers=True,
        is_expected=True,
    ),
    Constraint(
        key="max",
        schema=_bound("The largest value that is accepted.", "2"),
        kind="ranges",
        part="too_high",
        wider="range",
        comparison=ConstraintComparison("upper end", "requests sending {}"),
        contradicts={"below": Contradiction("two-bounds", "`max` and `below` are both given")},
        not_below=("min", "above"),
        of_value=True,
        names_values=True,
        is_of_numbers=True,
        is_expected=True,
    ),
    Constraint(
        key="below",
        schema=_bound("Values must be below this.", "2"),
        kind="ranges",
        part="too_high",
        wider="range",
        not_below=("min", "above"),
        is_open=True,
        of_value=True,
        names_values=True,
        is_of_numbers=True,
        is_expected=True,
    ),
    Constraint(
        key="min_items",
        schema=_count("The fewest items of an array.", "1"),
        kind="lengths",
        form="whole",
        part="items",
        comparison=ConstraintComparison("at least", "requests whose items in {path} number {}"),
        boundary_values=_item_counts,
        of_value=True,
        holds_for_messages=True,
    ),
    Constraint(
        key="max_items",
        schema=_count("The most items of an array.", "4"),
        kind="lengths",
        form="whole",
        part="items",
        comparison=ConstraintComparison("at most", "requests whose items in {path} number {}"),
        boundary_values=_item_counts,
        not_below=("min_items",),
        of_value=True,
        settles_types=True,
        holds_for_messages=True,
    ),
    Constraint(
        key="max_bytes",
        schema=size(
            BODY_BYTES,
            meaning="The most UTF-8 bytes of a string, or of each in an array.",
            absent="any number",
            example="32",
        ),
        kind="lengths",
        form="size",
        part="bytes",
        comparison=ConstraintComparison("at most", "requests sending a text of {} bytes in {path}"),
        boundary_values=_sizes,
        of_value=True,
    ),
    Constraint(
        key="pattern",
        schema=text(
            "a regular expression in the syntax of RE2",
            meaning="What the whole string must match.",
            absent="any string",
            example='"[a-z]+"',
        ),
        kind="lengths",
        part="pattern",
        comparison=ConstraintComparison("pattern", "requests sending {path} as a text"),
        boundary_values=_matching_texts,
        of_value=True,
        settles_types=True,
    ),
    Constraint(
        key="requires",
        schema=_fields_or_values(
            "Fields that must be there, or have these values, when this one is sent.", "{logprobs: true}"
        ),
        kind="cross-field",
        form="condition",
        part="requires",
        comparison=ConstraintComparison("demands", "requests sending {path} without {}"),
    ),
    Constraint(
        key="excludes",
        schema=_fields_or_values(
            "Fields that must not be there, or not have these values, when this one is sent.", "[reasoning_effort]"
        ),
        kind="cross-field",
        form="condition",
        part="excludes",
        comparison=ConstraintComparison("exclusions", "requests sending {path} with {}"),
    ),
    Constraint(
        key="from",
        schema=one_or_many(
            field_path(),
            "a dotted path of a request field",
            meaning="Fields whose value this one takes when it is not sent; the engine never gets them.",
            absent="none",
            example="[max_completion_tokens]",
        ),
        kind="mapped, forced, dropped",
        form="texts",
        attribute="sources",
        comparison=ConstraintComparison("sources"),
    ),
    Constraint(
        key="map",
        schema=free(
            text("a value, as JSON writes it"),
            scalar(),
            "a mapping of values to values",
            meaning="Values that are replaced before the engine gets them.",
            absent="none",
            example='{medium: high, "true": enabled}',
        ),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("map"),
    ),
    Constraint(
        key="floor",
        schema=number(meaning="The value is silently raised to at least this.", absent="nothing", example="0.95"),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("floor"),
        names_values=True,
    ),
    Constraint(
        key="ceiling",
        schema=number(meaning="The value is silently lowered to at most this.", absent="nothing", example="1"),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("ceiling"),
        not_below=("floor",),
        names_values=True,
    ),
    Constraint(
        key="force",
        schema=scalar(meaning="The engine always gets this value.", absent="nothing", example="1.0"),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("force"),
        contradicts={"drop": Contradiction("force-and-drop", "`force` and `drop` are both given")},
        names_values=True,
    ),
    Constraint(
        key="drop",
        schema=flag("The engine does not get the field."),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("drop"),
    ),
    Constraint(
        key="default",
        schema=scalar(
            meaning="The engine gets this where the field is absent or null.", absent="nothing", example="1.0"
        ),
        kind="defaults",
        comparison=ConstraintComparison("default"),
        contradicts={
            "force": Contradiction("idle-default", "`default` has no effect with `force`"),
            "drop": Contradiction("idle-default", "`default` has no effect with `drop`"),
        },
        names_values=True,
    ),
)

BY_KEY: Final = {constraint.key: constraint for constraint in CONSTRAINTS}
"""The constraints by their names in a profile."""

PARTS: Final = tuple(
    dict.fromkeys(part for constraint in CONSTRAINTS for part in (constraint.wider, constraint.part) if part)
)
"""The parts of a field's rule that may have an error text of their own."""


def stated_in(field: Field) -> Iterator[Constraint]:
    """Yield the constraints that the rule of a field states, each member once."""
    return (each for each in CONSTRAINTS if each.form != "fixed" and is_stated(field, each.member))


def boundary_values(path: str, field: Field) -> Iterator[BoundaryValue]:
    """Yield the test values of the constraints that the rule of a field states, but for those that name values."""
    found: dict[str, BoundaryValue] = {}
    for constraint in stated_in(field):
        for boundary in constraint.boundary_values(path, field):
            found.setdefault(boundary.description, boundary)
    yield from found.values()


def values_named(field: Field) -> list[Any]:
    """Return the values of the field that its rule names, each once."""
    values = [getattr(field, each.member) for each in stated_in(field) if each.names_values]
    each_of = [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
    return list({repr(each): each for each in each_of}.values())


def keys_of_part(part: str, stated: frozenset[str]) -> tuple[str, ...]:
    """Return which of the stated keys of a rule a violation of a part is of."""
    keys = tuple(each.key for each in CONSTRAINTS if each.part == part and each.key in stated)
    if part == BY_KEY["type"].part and not keys:
        return tuple(each.key for each in CONSTRAINTS if each.is_of_numbers and each.key in stated)
    return keys
