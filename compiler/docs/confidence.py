"""How sure the values of a preset are, counted from the tags in their `source` texts."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection

LEVELS: Final = {"H": "high", "M": "medium", "L": "low"}
"""The levels, highest first, by their short tags: `(H)` and `high` in a `source` mean the same."""

_TAG = re.compile(r"\((?:([HML])(?:-[HML])?)\)|\b(high|medium|low)\b")


def levels_of(*presets: str) -> Counter[str]:
    """Return how many values of presets have each level. A value that several presets share counts once."""
    found: dict[tuple[str, str], None] = {}
    for preset in presets:
        profile = compile_profile(Selection("preset", preset, "the reference")).values()
        found |= dict.fromkeys(_sources(profile))
    tags = (tag for _, source in found for tag in _TAG.findall(source))
    return Counter(LEVELS[short] if short else word for short, word in tags)


def summary(counts: Counter[str]) -> str:
    """Return counts in words, such as `34 high, 5 medium`."""
    return ", ".join(f"{counts[level]} {level}" for level in LEVELS.values() if counts[level]) or "not marked"


def _sources(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each `source` in a profile with the path of what it is about."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "source" and isinstance(inner, str):
                yield path, inner
            else:
                yield from _sources(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _sources(inner, f"{path}.{index}")
