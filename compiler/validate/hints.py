"""Hints for wrong values and unknown keys: what to do, if that is clear."""

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Final

from compiler.artifact.sizes import bytes_of
from compiler.diagnostics import nearest
from compiler.language.schema import BYTE_UNITS, LARGEST_WHOLE, SCHEMA, Rules
from compiler.source.scalars import number_of, with_space_after_colon
from compiler.source.tree import Node, Path, Scalar, Sequence, path_text
from compiler.validate.json_schema_names import NULL_HINT, REQUIRED_HINT, hint_for_name, key_meant

_IN_CASE: Final = 2
"""The length of a path to a case, such as `cases.creative`."""

_WORDS: Final = frozenset({"yes", "no", "on", "off", "true", "false"})
_SEXAGESIMAL = re.compile(r"[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+")
_THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_THOUSAND_SUFFIX = re.compile(r"([0-9]{1,9}) ?([kKmM])")
_PERCENT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?%")
_RANGE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(?:-|\u2013|\.\.+|to) *([0-9]+(?:\.[0-9]+)?)")
_SIZE = re.compile(r"\s*([0-9]+) *([A-Za-z]*)\s*")
_FRACTIONAL_SIZE = re.compile(r"[0-9]*\.[0-9]+ *[A-Za-z]+")


def hint_for_value(path: Path, node: Node, rules: Rules) -> str | None:
    """Return the hint for a value that its rules reject, or None."""
    if isinstance(node, Sequence):
        return REQUIRED_HINT if path[-1] == "required" else _list_hint(node, rules)
    if not isinstance(node, Scalar):
        return "write the path of a field within an object, such as a.b" if _is_of_field(rules) else None
    if rules.get("type") in ("dict", "number") and isinstance(node.value, str) and with_space_after_colon(node.value):
        return f"a colon needs a space after it: {with_space_after_colon(node.value)}"
    if "byte_size" in rules and isinstance(node.value, str):
        return _size_hint(node.value)
    if rules.get("type") == "number":
        return _number_hint(node.value, rules)
    if rules.get("type") == "boolean":
        return _boolean_hint(node.value)
    if "allowed" in rules and isinstance(node.value, str | None):
        return _choice_hint(node.value, rules["allowed"])
    if rules.get("type") == "list":
        return "write a list, such as [a, b] or [a]"
    if rules.get("type") == "string" and isinstance(node.value, bool | int | float):
        return "put it in quotes if it is a text"
    return None


def hint_for_key(path: Path, known: Rules, *, holds_mapping: bool = False) -> str | None:
    """Return where an unknown key may belong, or the most similar key at its level; None for neither."""
    is_of_field = path[-3:-2] == ("fields",)
    if is_of_field and (hint := hint_for_name(str(path[-1]), str(path[-2]), known)):
        return hint
    if holds_mapping and is_of_field:
        return f"give a field within an object a rule of its own: {path[-2]}.{path[-1]}"
    place = _place_elsewhere(path) or intended_key(path, known)
    if place == path_text(path[_IN_CASE:]) and path[0] == "cases":
        return f"{place} holds for all requests: set it outside of cases"
    return f"did you mean {place}?" if place else None


def intended_key(path: Path, known: Rules) -> str | None:
    """Return the known key at the same level that an unknown key most likely means, or None."""
    key = str(path[-1])
    return None if _place_elsewhere(path) else key_meant(key, known) or nearest(key, tuple(known))


def _place_elsewhere(path: Path) -> str | None:
    elsewhere = _places_by_key().get(path[-1], [])
    return path_text(elsewhere[0]) if len(elsewhere) == 1 else None


@cache
def _places_by_key() -> dict[str | int, list[Path]]:
    places: dict[str | int, list[Path]] = {}
    for place in _places(SCHEMA):
        places.setdefault(place[-1], []).append(place)
    return places


def _places(schema: Rules, above: Path = ()) -> Iterator[Path]:
    for key, rules in schema.items():
        yield (*above, key)
        if "schema" in rules and rules["type"] == "dict":
            yield from _places(rules["schema"], (*above, key))


def _choice_hint(word: str | None, allowed: list[str]) -> str | None:
    if word in {None, "null"}:
        return NULL_HINT if "integer" in allowed else None
    match = nearest(str(word), allowed)
    return f"did you mean {match}?" if match else None


def _list_hint(node: Sequence, rules: Rules) -> str | None:
    ends = [str(item.value) for item in node.items if isinstance(item, Scalar) and _is_number(item.value)]
    if len(ends) != len(node.items) or len(ends) != 2:  # noqa: PLR2004 - a band has two ends
        return None
    return _band_hint(ends[0], ends[1], rules)


def _band_hint(low: str, high: str, rules: Rules) -> str | None:
    """Return how to write a band, for a sampling parameter: only those may be pinned."""
    if "pin" not in rules["meta"] or float(low) > float(high):
        return None
    return f"write {{min: {low}, max: {high}}}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number_hint(value: object, rules: Rules) -> str | None:
    if isinstance(value, int | float) and value > LARGEST_WHOLE:
        return f"no number in a profile is above {LARGEST_WHOLE}"
    if isinstance(value, bool):
        return "true and false are never numbers"
    return _spelling_hint(value, rules) if isinstance(value, str) else None


def _is_of_field(rules: Rules) -> bool:
    """Return whether a value belongs to a request field, which may have any scalar type."""
    return isinstance(rules.get("type"), list)


def _boolean_hint(value: object) -> str | None:
    if isinstance(value, str) and value.lower() in _WORDS:
        literal = "true" if value.lower() in {"yes", "on", "true"} else "false"
        return f"{value} is a string in YAML 1.2: write {literal}"
    return {1: "write true", 0: "write false"}.get(value) if isinstance(value, int) else None


def _spelling_hint(value: str, rules: Rules) -> str | None:
    if _spells_number(value.strip()):
        return f"write {value.strip()} without the quotes"
    if "_" in value and _spells_number(value.replace("_", "")):
        return f"YAML 1.2 has no _ in numbers: write {value.replace('_', '')}"
    if _SEXAGESIMAL.fullmatch(value):
        return f"{value} is a string in YAML 1.2: write one number"
    if value.lower() in _WORDS:
        return f"{value} is a string in YAML 1.2: write a number"
    if "," in value:
        return _comma_hint(value, rules)
    span = _RANGE.fullmatch(value)
    if span:
        return _band_hint(span[1], span[2], rules)
    return _thousands_hint(value, rules) if rules.get("whole") else _percent_hint(value)


def _comma_hint(value: str, rules: Rules) -> str | None:
    without, with_point = value.replace(",", ""), value.replace(",", ".")
    grouped, decimal = _THOUSANDS.fullmatch(value), _DECIMAL_COMMA.fullmatch(value)
    if rules.get("whole"):
        return f"write {without}, without the comma" if grouped else None
    if grouped and decimal:
        return f"this may mean {with_point} or {without}: write the one you mean"
    if grouped:
        return f"write {without}, without the commas"
    return f"write {with_point}, with a point" if decimal else None


def _thousands_hint(value: str, rules: Rules) -> str | None:
    match = _THOUSAND_SUFFIX.fullmatch(value)
    if match is None:
        return None
    power = 1 if match[2] in "kK" else 2
    decimal, binary = int(match[1]) * 1000**power, int(match[1]) * 1024**power
    return f"write {decimal} or {binary}" if binary <= rules["max"] else None


def _percent_hint(value: str) -> str | None:
    match = _PERCENT.fullmatch(value)
    return f"write {(Decimal(match[1]) / 100).normalize():f}" if match else None


def _spells_number(text: str) -> bool:
    try:
        return number_of(text) is not None
    except ValueError:
        return False


def _size_hint(size: str) -> str:
    if bytes_of(size) is not None:
        return f"a size is from 1 to {LARGEST_WHOLE} bytes"
    if bytes_of(size.strip()) is not None:
        return f"write {size.strip()}"
    if "_" in size:
        return f"write {size.replace('_', '')}"
    if _THOUSANDS.fullmatch(size):
        return f"write {size.replace(',', '')}, without the comma"
    units = f"the units are {', '.join(BYTE_UNITS)}, spelled like this"
    if _FRACTIONAL_SIZE.fullmatch(size):
        return "write whole digits in a smaller unit, such as 1536KiB for 1.5MiB"
    match = _SIZE.fullmatch(size)
    if match is None:
        return units
    digits, unit = match.groups()
    if not unit:
        return f"write {digits} without the quotes, or add a unit"
    if unit in BYTE_UNITS:
        return f"a size is from 1 to {LARGEST_WHOLE} bytes"
    initial = unit[0].upper()
    likely = next((known for known in BYTE_UNITS if known[0] == initial), None)
    return f"{units}: did you mean {digits}{likely}?" if likely and unit != likely else units
