"""Which of many similar cases the default run has; all others are run by `-m exhaustive`."""

from collections.abc import Iterable
from typing import Any, Final

import pytest

PRESETS: Final = ("minimax", "moonshot-kimi-k3", "openai-compatible", "stepfun")
"""Presets that stand for all: with modes, with and without cases, with an error body of its own, and without rules."""


def exhaustive_but(kept: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Return the values for `pytest.mark.parametrize`, marked as exhaustive but for those that are kept."""
    kept = list(kept)
    values = list(values)
    missing = [each for each in kept if each not in values]
    assert not missing, f"these are kept and are no values: {missing}"
    return [value if value in kept else _marked(value) for value in values]


def _marked(value: Any) -> Any:
    columns = value if isinstance(value, tuple) else (value,)
    return pytest.param(*columns, marks=pytest.mark.exhaustive)
