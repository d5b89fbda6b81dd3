"""Sizes in bytes, as profiles write them."""

import re

from compiler.language.schema import BYTE_SIZE, BYTE_UNITS


def bytes_of(size: str) -> int | None:
    """Return the number of bytes that a text such as `100MiB` means, or None where it means none."""
    match = re.match(BYTE_SIZE, size)
    return int(match[1]) * BYTE_UNITS[match[2]] if match else None


def size_of(number: int) -> int | str:
    """Return a number of bytes as people would write it: in the largest unit that divides it, if any does."""
    for unit, factor in reversed(BYTE_UNITS.items()):
        if factor > 1 and number % factor == 0:
            return f"{number // factor}{unit}"
    return number
