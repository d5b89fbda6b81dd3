"""The constraints of a value: what the rule of a field, and that of the items of an array, may ask of it."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from compiler.language.constraints.record import Constraint, ConstraintComparison, Contradiction
from compiler.language.pattern_texts import texts_for
from compiler.language.samples import BoundaryValue, cut, items_of
from compiler.language.values import BODY_BYTES, VALUE, Rules, number, one_or_many, scalar, size, text, whole
from router.contract.rules.patterns import full_match_of
from router.contract.schema.sections import ValueRule

TYPES: Final = ("string", "number", "integer", "boolean", "array", "object")

_MOST_EDGES: Final = 3
LONGEST_SAMPLE: Final = 2**20
"""Longest text in characters, and longest array, of a test value; an edge beyond it has none."""


def _bound(meaning: str, example: str) -> Rules:
    return number(meaning=meaning, absent="any number", example=example)


def _count(meaning: str, example: str) -> Rules:
    return whole(0, "a whole number, at least 0", meaning=meaning, absent="any number", example=example)


def _item_counts(path: str, field: ValueRule) -> Iterator[BoundaryValue]:
    edges = [edge for edge in (field.min_items, field.max_items) if edge is not None]
    counts = dict.fromkeys(
        count for edge in edges for count in (edge - 1, edge, edge + 1) if 0 <= count <= LONGEST_SAMPLE
    )
    yield from (BoundaryValue(f"{count} items", items_of(path, count)) for count in counts)
    if path != "messages":
        yield BoundaryValue("no array", "~")


def exact(number: float) -> Fraction:
    """Return a number as it is written in decimal: the float 0.1 is a tenth."""
    return Fraction(repr(number))


def _multiples(_path: str, rule: ValueRule) -> Iterator[BoundaryValue]:
    step = exact(rule.multiple_of or 1)
    least = rule.min if rule.min is not None else rule.above
    start = 1 if least is None else math.floor(exact(least) / step) + 1
    most = rule.max if rule.max is not None else rule.below
    top = start + 2 if most is None else math.floor(exact(most) / step)
    for count in dict.fromkeys((start - 1, start, start + 1, top, top + 1, -start, 0)):
        yield BoundaryValue(f"{count} times {_plain(step)}", _plain(count * step))
    for count in (start, start + 1):
        between = _plain(count * step + step / 2)
        yield BoundaryValue(f"{between}, half a step above {count} times {_plain(step)}", between)
    yield BoundaryValue(f"the number next above {_plain(step)}", math.nextafter(step, math.inf))
    yield BoundaryValue(f'the string "{_plain(start * step)}"', str(_plain(start * step)), is_edge=False)
    yield BoundaryValue("1e300", 1e300, is_edge=False)


def _plain(number: Fraction) -> float:
    return int(number) if number.denominator == 1 else float(number)


def _lengths(_path: str, rule: ValueRule) -> Iterator[BoundaryValue]:
    edges = [edge for edge in (rule.min_length, rule.max_length) if edge is not None]
    for count in dict.fromkeys(
        count for edge in edges for count in (edge - 1, edge, edge + 1) if 0 <= count <= LONGEST_SAMPLE
    ):
        yield BoundaryValue(f"a text of {count} characters", "a" * count)
        if count in edges and count:
            wide = f"a text of {count} characters, {4 * count} bytes and {2 * count} units of UTF-16"
            yield BoundaryValue(wide, "😀" * count)


def _sizes(_path: str, field: ValueRule) -> Iterator[BoundaryValue]:
    most = field.max_bytes or 0
    if most > LONGEST_SAMPLE:
        return
    for count in (most, most + 1):
        yield BoundaryValue(f"a text of {count} bytes", "a" * count)
        yield BoundaryValue(f"a text of {count} bytes in an array", ["a", "a" * count], is_edge=False)
    yield BoundaryValue(f"a text of {most} characters and {2 * most} bytes", "é" * most, is_edge=False)


def _matching_texts(_path: str, field: ValueRule) -> Iterator[BoundaryValue]:
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

OF_VALUES: Final = (
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
        json_schema=("enum", "const"),
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
        json_schema=("minimum",),
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
        json_schema=("exclusiveMinimum",),
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
        json_schema=("maximum",),
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
        json_schema=("exclusiveMaximum",),
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
        key="multiple_of",
        schema=number(
            above=0,
            expected="a number above 0",
            meaning="The step between accepted numbers, in decimal: 0.3 is a multiple of 0.1.",
            absent="any number",
            example="0.1",
        ),
        kind="ranges",
        json_schema=("multipleOf",),
        part="multiple_of",
        comparison=ConstraintComparison(
            "narrower",
            "requests sending {path} as {}",
            values="a multiple of {}",
            implies=lambda one, other: not exact(one) % exact(other),
        ),
        boundary_values=_multiples,
        of_value=True,
        is_of_numbers=True,
    ),
    Constraint(
        key="min_length",
        schema=_count("The fewest characters (code points) of a string.", "1"),
        kind="lengths",
        form="whole",
        json_schema=("minLength",),
        part="length",
        comparison=ConstraintComparison("at least", "requests sending a text of {} characters in {path}"),
        boundary_values=_lengths,
        of_value=True,
    ),
    Constraint(
        key="max_length",
        schema=_count("The most characters (code points) of a string.", "64"),
        kind="lengths",
        form="whole",
        json_schema=("maxLength",),
        part="length",
        comparison=ConstraintComparison("at most", "requests sending a text of {} characters in {path}"),
        boundary_values=_lengths,
        not_below=("min_length",),
        of_value=True,
    ),
    Constraint(
        key="min_items",
        schema=_count("The fewest items of an array.", "1"),
        kind="lengths",
        form="whole",
        json_schema=("minItems",),
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
        json_schema=("maxItems",),
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
)
