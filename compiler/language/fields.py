"""The rules of `fields`: which values a request field may have, and how they are changed."""

from typing import Final

from compiler.language.values import (
    BODY_BYTES,
    VALUE,
    Rules,
    condition,
    error,
    field_path,
    flag,
    free,
    mapping,
    number,
    one_or_many,
    scalar,
    size,
    source,
    text,
    whole,
)

TYPES: Final = ("string", "number", "integer", "boolean", "array", "object")

PARTS: Final = (
    "required",
    "reject",
    "wrong_type",
    "allowed",
    "range",
    "too_low",
    "too_high",
    "items",
    "bytes",
    "pattern",
    "requires",
    "excludes",
)
"""The parts of a field's rule that may have an error text of their own."""


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


FIELD: Final[Rules] = {
    "required": flag("Reject a request where the field is absent or null."),
    "reject": flag("Reject a request that sends the field at all."),
    "type": one_or_many(
        {"type": "string", "allowed": list(TYPES), "meta": {"expected": f"one of {', '.join(TYPES)}"}},
        f"one of {', '.join(TYPES)}",
        meaning="What kind of JSON value is accepted.",
        absent="any",
        example="[string, array]",
    ),
    "allowed": one_or_many(
        scalar(),
        VALUE,
        meaning="The values that are accepted: numbers by value, strings and booleans exactly.",
        absent="any",
        example="[0, 0.6, 1]",
    ),
    "fixed": scalar(
        meaning="The one value that is accepted, and that an absent field gets.", absent="none", example="1"
    ),
    "min": _bound("The least value that is accepted.", "0"),
    "above": _bound("Values must be above this.", "0"),
    "max": _bound("The largest value that is accepted.", "2"),
    "below": _bound("Values must be below this.", "2"),
    "min_items": whole(
        0, "a whole number, at least 0", meaning="The fewest items of an array.", absent="any number", example="1"
    ),
    "max_items": whole(
        0, "a whole number, at least 0", meaning="The most items of an array.", absent="any number", example="4"
    ),
    "max_bytes": size(
        BODY_BYTES,
        meaning="The most UTF-8 bytes of a string, or of each in an array.",
        absent="any number",
        example="32",
    ),
    "pattern": text(
        "a regular expression in the syntax of RE2",
        meaning="What the whole string must match.",
        absent="any string",
        example='"[a-z]+"',
    ),
    "requires": _fields_or_values(
        "Fields that must be there, or have these values, when this one is sent.", "{logprobs: true}"
    ),
    "excludes": _fields_or_values(
        "Fields that must not be there, or not have these values, when this one is sent.", "[reasoning_effort]"
    ),
    "from": one_or_many(
        field_path(),
        "a dotted path of a request field",
        meaning="Fields whose value this one takes when it is not sent; the engine never gets them.",
        absent="none",
        example="[max_completion_tokens]",
    ),
    "map": free(
        text("a value, as JSON writes it"),
        scalar(),
        "a mapping of values to values",
        meaning="Values that are replaced before the engine gets them.",
        absent="none",
        example='{medium: high, "true": enabled}',
    ),
    "floor": number(meaning="The value is silently raised to at least this.", absent="nothing", example="0.95"),
    "ceiling": number(meaning="The value is silently lowered to at most this.", absent="nothing", example="1"),
    "force": scalar(meaning="The engine always gets this value.", absent="nothing", example="1.0"),
    "drop": flag("The engine does not get the field."),
    "default": scalar(
        meaning="The engine gets this where the field is absent or null.", absent="nothing", example="1.0"
    ),
    "error": error(*PARTS),
    "source": source(),
}

FIELDS: Final = free(
    field_path(),
    mapping(FIELD, "Which values this field may have, and how they are changed."),
    "a mapping of request fields to their rules",
    meaning="Rules of request fields, by dotted path.",
    absent="none",
    example="{temperature: {allowed: [0.6, 1], default: 0.6}}",
)
