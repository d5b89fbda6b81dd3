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


def levels_of(preset: str) -> Counter[str]:
    """Return how many values of a preset, inherited ones included, have each level. A source may tag several values."""
    profile = compile_profile(Selection("preset", preset, "the reference")).values()
    tags = (tag for source in _sources(profile) for tag in _TAG.findall(source))
    return Counter(LEVELS[short] if short else word for short, word in tags)


def summary(counts: Counter[str]) -> str:
    """Return counts in words, such as `34 high, 5 medium`."""
    return ", ".join(f"{counts[level]} {level}" for level in LEVELS.values() if counts[level]) or "no tags"


def _sources(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "source" and isinstance(inner, str):
                yield inner
            else:
                yield from _sources(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _sources(inner)
