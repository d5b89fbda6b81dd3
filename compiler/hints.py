"""What to do about a wrong value or an unknown key: the next step, where one can be told."""

import re
from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import nearest
from compiler.scalars import number_of
from compiler.schema import BYTE_UNITS, LARGEST_WHOLE, SCHEMA, Rules
from compiler.sizes import bytes_of
from compiler.tree import Node, Path, Scalar, spelled

_WORDS: Final = frozenset({"yes", "no", "on", "off", "true", "false"})
_SEXAGESIMAL = re.compile(r"[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?")
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+")
_SIZE = re.compile(r"\s*([0-9]+) *([A-Za-z]*)\s*")
_FRACTIONAL_SIZE = re.compile(r"[0-9]*\.[0-9]+ *[A-Za-z]+")


def hint_for_value(node: Node, rules: Rules) -> str | None:
    """Return what to do about a value that its rules refuse, or None."""
    if not isinstance(node, Scalar):
        return None
    if "byte_size" in rules and isinstance(node.value, str):
        return _size_hint(node.value)
    if rules.get("type") == "number":
        return _number_hint(node.value)
    if "allowed" in rules and isinstance(node.value, str):
        match = nearest(node.value, rules["allowed"])
        return f"did you mean {match}?" if match else None
    if rules.get("type") == "list":
        return "write a list, as in [a, b]; a list of one is [a]"
    if rules.get("type") == "string" and isinstance(node.value, bool | int | float):
        return "put it in quotes if the text is meant"
    return None


def hint_for_key(path: Path, known: Rules) -> str | None:
    """Return where an unknown key may belong, or which known key at its level looks most like it; None for neither."""
    key = str(path[-1])
    elsewhere = [spelled(place) for place in _places(SCHEMA) if place[-1] == key]
    if len(elsewhere) == 1:
        return f"did you mean {elsewhere[0]}?"
    match = nearest(key, tuple(known))
    return f"did you mean {match}?" if match else None


def _places(schema: Rules, above: Path = ()) -> Iterator[Path]:
    for key, rules in schema.items():
        yield (*above, key)
        if rules.get("type") == "dict":
            yield from _places(rules["schema"], (*above, key))


def _number_hint(value: object) -> str | None:
    if isinstance(value, int | float) and value > LARGEST_WHOLE:
        return f"no number in a profile is above {LARGEST_WHOLE}"
    if isinstance(value, bool):
        return "true and false are never numbers"
    if not isinstance(value, str):
        return None
    if _spells_number(value):
        return f"write {value} without the quotes"
    if "_" in value and _spells_number(value.replace("_", "")):
        return f"YAML 1.2 has no _ in numbers: write {value.replace('_', '')}"
    if _SEXAGESIMAL.fullmatch(value):
        return f"{value} is a string in YAML 1.2: write one number"
    if value.lower() in _WORDS:
        return f"{value} is a string in YAML 1.2: write a number"
    if _DECIMAL_COMMA.fullmatch(value):
        return f"write {value.replace(',', '.')}, with a point"
    return None


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
    units = f"the units are {', '.join(BYTE_UNITS)}, spelled like this"
    if _FRACTIONAL_SIZE.fullmatch(size):
        return "write whole digits in a smaller unit, such as 1536KiB for 1.5MiB"
    match = _SIZE.fullmatch(size)
    if match is None:
        return units
    digits, unit = match.groups()
    if not unit:
        return f"write {digits} without the quotes, or add a unit"
    initial = unit[0].upper()
    likely = next((known for known in BYTE_UNITS if known[0] == initial), None)
    return f"{units}: did you mean {digits}{likely}?" if likely and unit != likely else units
