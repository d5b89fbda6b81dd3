"""Names of JSON Schema and of OpenAPI that authors write from habit: what a profile has for each.

Sources: JSON Schema Validation 2020-12 (draft 4 for `dependencies`); OpenAPI 3.0.3, Schema Object (`nullable`).
"""

from collections.abc import Container
from typing import Final

from compiler.language.constraints import CONSTRAINTS

NULL_HINT: Final = "leave it out: a null counts as absent, and only `required: true` rejects it"

REQUIRED_HINT: Final = "give each of these fields a rule of its own with `required: true`"

_OTHER_KEYS: Final = {
    "additionalProperties": ("unknown_fields",),
    "exclusiveMaximum": ("max",),
    "exclusiveMinimum": ("min",),
    "maxLength": ("max_bytes",),
    "minLength": ("pattern",),
    "properties": ("fields",),
}
"""Name → keys that mean it, or come near, beside the constraint that does."""

_KEYS: Final = {
    name: (*(each.key for each in CONSTRAINTS if name in each.json_schema), *_OTHER_KEYS.get(name, ()))
    for name in (*_OTHER_KEYS, *(name for each in CONSTRAINTS for name in each.json_schema))
}
"""Name → the keys that mean it, the best first."""

_NOTES: Final = {
    "const": "`fixed` also gives it to an absent field",
    "exclusiveMaximum": "it holds the number itself",
    "exclusiveMinimum": "it holds the number itself",
}
"""Name → what else to know about the key that means it."""

_ELSEWHERE: Final = {
    "additionalProperties": "`unknown_fields` says what becomes of members that have no rule",
    "unevaluatedProperties": "`unknown_fields` says what becomes of members that have no rule",
    "allOf": "write all the constraints into one rule",
    "anyOf": "list types or values in one rule; rules that depend on other fields go into `cases`",
    "oneOf": "list types or values in one rule; rules that depend on other fields go into `cases`",
    "if": "rules that depend on other fields go into `cases`, or into `requires` and `excludes`",
    "then": "rules that depend on other fields go into `cases`, or into `requires` and `excludes`",
    "else": "rules that depend on other fields go into `cases`, or into `requires` and `excludes`",
    "$comment": "write a comment of YAML, or the evidence into `source`",
    "$ref": "write the rule out, or take a whole profile with `extends`",
    "description": "write a comment of YAML, or the evidence into `source`",
    "examples": "write a comment of YAML",
    "format": "write a `pattern`",
    "not": "list what is accepted with `allowed`, or write a `pattern`",
    "nullable": NULL_HINT,
    "readOnly": "write `reject: true` for a field that clients may not send",
    "title": "write a comment of YAML",
}
"""Name → what a profile has instead of a key."""


def key_meant(name: str, known: Container[str]) -> str | None:
    """Return the key, among the known ones, that means what a name does in JSON Schema, or None."""
    return next((key for key in _KEYS.get(name, ()) if key in known), None)


def hint_for_name(name: str, field: str, known: Container[str]) -> str | None:
    """Return what a name of JSON Schema is here, in the rule of a field, or None if it is no such name."""
    key = key_meant(name, known)
    if key is not None:
        note = f"; {_NOTES[name]}" if name in _NOTES else ""
        return f"`{name}` of JSON Schema is `{key}` here{note}"
    if name in {"properties", "patternProperties"}:
        return f"give each member a rule of its own, by its dotted path: {field}.NAME"
    return _ELSEWHERE.get(name)
