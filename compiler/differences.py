"""Two contracts → what differs, path by path: plain values, without a judgement of what a difference means."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from router.contract.model import Contract


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs, by its path in the profile language; None where a contract says nothing."""

    path: tuple[str, ...]
    before: Any
    after: Any


def differences(before: Contract, after: Contract) -> tuple[Difference, ...]:
    """Return every value that differs between two contracts, sorted by path."""
    old, new = (dict(_values(msgspec.to_builtins(contract), ())) for contract in (before, after))
    # Not compared as they are: 1 and 1.0 are equal to Python, and not in an artifact.
    return tuple(
        Difference(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if repr(old.get(path)) != repr(new.get(path))
    )


def _values(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - JSON
    """Yield the values of a contract with their paths; a list is one value, and so is a band."""
    if not isinstance(value, dict) or value.keys() == {"min", "max"}:
        yield path, list(value) if isinstance(value, tuple) else value
        return
    for key, inner in value.items():
        yield from _values(inner, (*path, key))
