"""The rules of `fields`: which values a request field may have, and how they are changed."""

from typing import Final

from compiler.language.constraints import CONSTRAINTS, PARTS
from compiler.language.values import Rules, error, field_path, free, mapping, source

FIELD: Final[Rules] = {
    **{constraint.key: constraint.schema for constraint in CONSTRAINTS},
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
