"""The layout of an artifact file: JSON whose differences can be read line by line."""

import json
from typing import Any, Final

LINE_LENGTH: Final = 120
"""Characters of the longest line that a list or an object is put in."""

BODY: Final = "body"
"""The key of the template of an error's body, whose members have the vendor's order."""

_OF_NAMES: Final = frozenset({"aliases", "codes", "fields", "parts", "within"})
"""Keys of objects whose own keys are names, of which one may be `body`: of a field, an alias, an object."""

_SHORT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def laid_out(value: object) -> str:
    """Return a value as JSON text, in order; what fits into a line is in one, all else has two spaces of indent.

    Raises ValueError for numbers that JSON does not have.
    """
    return f"{_spread(in_order(value), 0, 0)}\n"


def in_order(value: Any, above: str = "") -> Any:  # noqa: ANN401 - JSON
    """Return a value with sorted keys, but for bodies of errors: what clients get has the order of the template.

    above: the key of the value.
    """
    if isinstance(value, dict):
        kept = None if above in _OF_NAMES else BODY
        return {key: value[key] if key == kept else in_order(value[key], key) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list | tuple) else value


def _spread(value: object, indent: int, before: int) -> str:
    """Return a value whose line starts with an indent and some characters before it."""
    short = _SHORT.encode(value)
    # One character more: the comma behind it. The whole file is never one line.
    fits = indent > 0 and indent + before + len(short) < LINE_LENGTH
    if fits or not value or not isinstance(value, dict | list | tuple):
        return short
    inner = indent + 2
    if isinstance(value, dict):
        keys = ((f"{_SHORT.encode(key)}: ", key) for key in value)
        items = [f"{key}{_spread(value[name], inner, len(key))}" for key, name in keys]
    else:
        items = [_spread(item, inner, 0) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    lines = f",\n{' ' * inner}".join(items)
    return f"{first}\n{' ' * inner}{lines}\n{' ' * indent}{last}"
