"""Differences between JSON values: an artifact has those of each case from the base."""

from typing import Any

Values = dict[str, Any]


def merged_values(base: Values, values: Values, whole: str | None = None) -> Values:
    """Merge values into others, as profiles are merged into their parents: mappings merge, a null deletes.

    whole: a key whose mapping is not merged, but replaced, since the order of its members counts.
    """
    result = dict(base)
    for key, value in values.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and key != whole:
            inner = result.get(key)
            result[key] = merged_values(inner if isinstance(inner, dict) else {}, value, whole)
        else:
            result[key] = value
    return result


def difference_from(base: Values, values: Values, whole: str | None = None) -> Values:
    """Return the values that, merged into a base, give these values; a null deletes a value of the base."""
    changed: Values = {}
    for key, value in values.items():
        below = base.get(key)
        if isinstance(value, dict) and isinstance(below, dict) and key != whole:
            if inner := difference_from(below, value, whole):
                changed[key] = inner
        elif key not in base or repr(value) != repr(below):
            changed[key] = value
    return {**changed, **{key: None for key in base if key not in values}}
