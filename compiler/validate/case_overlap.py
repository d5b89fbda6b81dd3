"""Find requests that match two cases: exact for simple conditions, otherwise an estimate that reports no error."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from typing import Final

from router.contract.schema.conditions import equals
from router.contract.schema.model import When
from router.contract.schema.sections import Mode
from router.contract.schema.types import Condition, Scalar

_MAGIC: Final = frozenset("*?[")


def covers(earlier: When, later: When, modes: frozenset[str] = frozenset()) -> bool:
    """Return whether an earlier case matches every request that a case matches; False if in doubt.

    `modes`: all modes of the profile.
    """
    return (
        _models_cover(earlier.model, later.model)
        and _modes_cover(earlier.mode, later.mode, modes)
        and all(_values_cover(wanted, later.fields.get(path)) for path, wanted in earlier.fields.items())
    )


def overlap(one: When, other: When, mode: Mode = Mode()) -> bool:  # noqa: B008 - a contract without modes, immutable
    """Return whether a request may match both cases; True if in doubt. `mode`: how the profile finds the mode."""
    if not _models_overlap(one.model, other.model) or not _fields_overlap(one.fields, other.fields):
        return False
    if not one.mode and not other.mode:
        return True
    common = {*one.mode} & {*other.mode} if one.mode and other.mode else {*one.mode, *other.mode}
    return any(_may_have(name, one, other, mode) for name in common)


def _may_have(name: str, one: When, other: When, mode: Mode) -> bool:
    """Return whether a request that two cases match may have a mode; True if in doubt."""
    for reading in mode.match:
        both = (one, other)
        if not all(_models_overlap(reading.model, each.model) for each in both):
            continue
        if not all(_fields_overlap(reading.when, each.fields) for each in both):
            continue
        if reading.mode == name:
            return True
        if not reading.when and any(_models_cover(reading.model, each.model) for each in both):
            return False  # The first reading that fits decides.
    return name == mode.default or not mode.match


def covers_common(earlier: When, one: When, other: When, modes: frozenset[str] = frozenset()) -> bool:
    """Return whether an earlier case matches every request that two others both match; False if in doubt."""
    common = {*one.mode} & {*other.mode} if one.mode and other.mode else {*one.mode, *other.mode}
    return (
        any(_models_cover(earlier.model, each.model) for each in (one, other))
        and _modes_cover(earlier.mode, tuple(common), modes)
        and all(
            any(_values_cover(wanted, each.fields.get(path)) for each in (one, other))
            for path, wanted in earlier.fields.items()
        )
    )


def _models_cover(earlier: tuple[str, ...], later: tuple[str, ...]) -> bool:
    if not earlier:
        return True
    return bool(later) and all(any(_glob_covers(glob, other) for glob in earlier) for other in later)


def _modes_cover(earlier: tuple[str, ...], later: tuple[str, ...], modes: frozenset[str]) -> bool:
    if not earlier or (modes and modes <= {*earlier}):
        return True
    return bool(later) and {*later} <= {*earlier}


def _values_cover(earlier: Iterable[Scalar], later: tuple[Scalar, ...] | None) -> bool:
    return bool(later) and all(any(equals(value, each) for each in earlier) for value in later or ())


def _glob_covers(glob: str, other: str) -> bool:
    """Return whether one glob matches all that another matches: exact for plain texts and for one star at an end."""
    if glob == other or not glob.strip("*"):
        return True
    if not _MAGIC & {*other}:
        return fnmatchcase(other, glob)
    inner = glob.strip("*")
    if _MAGIC & {*inner} or inner == glob:
        return False
    if not glob.startswith("*"):
        return _plain_before(other).startswith(inner)
    if not glob.endswith("*"):
        return _plain_before(other[::-1], "]*?")[::-1].endswith(inner)
    return "[" not in other and any(inner in part for part in other.replace("?", "*").split("*"))


def _plain_before(glob: str, magic: str = "*?[") -> str:
    """Return the prefix of every text that a glob matches."""
    return glob[: next((index for index, character in enumerate(glob) if character in magic), len(glob))]


def _models_overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return not one or not other or any(_globs_overlap(a, b) for a, b in product(one, other))


def _globs_overlap(one: str, other: str) -> bool:
    """Return whether some name may match two globs; brackets may match anything.

    Names are assumed to look like `vendor/name`: only a star at the start of a glob matches a slash.
    """
    if "[" in one + other:
        return True

    @cache
    def both(i: int, j: int) -> bool:
        if i == len(one) or j == len(other):
            return not (one[i:] + other[j:]).strip("*")
        if one[i] == "*":
            return both(i + 1, j) or ((i == 0 or other[j] != "/") and both(i, j + 1))
        if other[j] == "*":
            return both(i, j + 1) or ((j == 0 or one[i] != "/") and both(i + 1, j))
        return (one[i] == other[j] or "?" in (one[i], other[j])) and both(i + 1, j + 1)

    return both(0, 0)


def _fields_overlap(one: Condition, other: Condition) -> bool:
    return all(
        any(equals(value, each) for value in wanted for each in other[path])
        for path, wanted in one.items()
        if path in other
    )
