"""Compare single constraints: the values that only one of two accepts, as text, and the direction of the change."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from compiler.diff.change import UNSEEN, ConstraintEffect, rejection_and_acceptance, rejection_of
from compiler.diff.values import listed, span
from compiler.language.constraints.record import ConstraintComparison
from router.contract.schema.types import Condition, Scalar

Values = Sequence[Scalar] | None
"""Values that are accepted; None: any."""

CANNOT_TELL: Final = "which of them that rejects, newly or no longer, cannot be determined"


def flag(old: bool, new: bool, which: str) -> ConstraintEffect:
    """Compare a switch that, on, rejects such requests."""
    return rejection_of(which, tightens=new) if old != new else ConstraintEffect(UNSEEN)


def accepted(
    old: Values, new: Values, which: Callable[[str], str], words: Callable[[Iterable[Scalar]], str] = listed
) -> ConstraintEffect:
    """Compare sets of accepted values; `which` describes the requests with certain values, `words` names the values."""
    if old is None or new is None:
        limit = new if old is None else old
        others = f"anything but {words(limit)}" if limit else "anything"
        return ConstraintEffect(UNSEEN) if limit is None else rejection_of(which(others), tightens=old is None)
    gone, gained = _only_in(old, new), _only_in(new, old)
    return rejection_and_acceptance(which(words(gone)) if gone else "", which(words(gained)) if gained else "")


def applied(old: Sequence[Scalar], new: Sequence[Scalar], which: Callable[[str], str]) -> ConstraintEffect:
    """Compare sets of values that are rejected, or to which a demand applies."""
    newly, no_longer = _only_in(new, old), _only_in(old, new)
    return rejection_and_acceptance(
        which(listed(newly)) if newly else "", which(listed(no_longer)) if no_longer else ""
    )


def at_most(old: int | None, new: int | None, which: Callable[[str], str]) -> ConstraintEffect:
    """Compare upper limits of a count; `which` describes the requests with certain counts."""
    limits = sorted(limit for limit in (old, new) if limit is not None)
    if old == new or not limits:
        return ConstraintEffect(UNSEEN)
    tightens = old is None or (new is not None and new < old)
    counts = f"more than {limits[0]}" if len(limits) == 1 else span(limits[0] + 1, limits[1])
    return rejection_of(which(counts), tightens=tightens)


def at_least(old: int | None, new: int | None, which: Callable[[str], str]) -> ConstraintEffect:
    """Compare lower limits of a count."""
    low, high = sorted((old or 0, new or 0))
    if low == high:
        return ConstraintEffect(f"{UNSEEN}: nothing has fewer than none")
    return rejection_of(which(span(low, high - 1)), tightens=(new or 0) > (old or 0))


def narrower(
    old: Scalar | None, new: Scalar | None, which: Callable[[str], str], comparison: ConstraintComparison
) -> ConstraintEffect:
    """Compare two values of a constraint by whether what one accepts the other accepts too."""

    def accepted_by(value: Scalar) -> str:
        return comparison.values.replace("{}", listed((value,)))

    if old is None or new is None or comparison.implies is None:
        limits = [limit for limit in (old, new) if limit is not None]
        return rejection_of(which(f"anything but {accepted_by(limits[0])}"), tightens=old is None)
    newly = "" if comparison.implies(old, new) else which(f"{accepted_by(old)} but not {accepted_by(new)}")
    no_longer = "" if comparison.implies(new, old) else which(f"{accepted_by(new)} but not {accepted_by(old)}")
    return rejection_and_acceptance(newly, no_longer)


def pattern(old: str | None, new: str | None, which: str) -> ConstraintEffect:
    """Compare required patterns. Which texts only one of two matches cannot be determined."""
    if old == new:
        return ConstraintEffect(UNSEEN)
    if old is None or new is None:
        return rejection_of(f"{which} that does not match {new if old is None else old}", tightens=old is None)
    return ConstraintEffect(f"{which} will be held to another pattern: {CANNOT_TELL}", None, None)


def demands(old: Condition, new: Condition, which: Callable[[str], str]) -> ConstraintEffect:
    """Compare required conditions; `which` describes the requests that do not meet one."""
    newly = [_demand(path, new[path]) for path in new if not _implied(old.get(path), new[path])]
    no_longer = [_demand(path, old[path]) for path in old if not _implied(new.get(path), old[path])]
    return rejection_and_acceptance(
        which(" or ".join(newly)) if newly else "", which(" or ".join(no_longer)) if no_longer else ""
    )


def exclusions(old: Condition, new: Condition, which: Callable[[str], str]) -> ConstraintEffect:
    """Compare forbidden conditions; `which` describes the requests that meet one."""
    newly = [_exclusion(path, new[path], old.get(path)) for path in new if not _excluded(old.get(path), new[path])]
    no_longer = [_exclusion(path, old[path], new.get(path)) for path in old if not _excluded(new.get(path), old[path])]
    return rejection_and_acceptance(
        which(" or ".join(newly)) if newly else "", which(" or ".join(no_longer)) if no_longer else ""
    )


def _implied(demand: tuple[Scalar, ...] | None, other: tuple[Scalar, ...]) -> bool:
    """Return whether every value that meets one demand meets the other; None: no demand; empty: any value."""
    return demand is not None and (not other or (bool(demand) and not _only_in(demand, other)))


def _excluded(exclusion: tuple[Scalar, ...] | None, other: tuple[Scalar, ...]) -> bool:
    """Return whether all that one exclusion rejects another does; None rejects nothing, an empty one any value."""
    return exclusion is not None and (not exclusion or (bool(other) and not _only_in(other, exclusion)))


def _demand(path: str, values: tuple[Scalar, ...]) -> str:
    return f"{path} being {listed(values)}" if values else path


def _exclusion(path: str, values: tuple[Scalar, ...], elsewhere: tuple[Scalar, ...] | None) -> str:
    if not values:
        return f"{path} being anything but {listed(elsewhere)}" if elsewhere else path
    return f"{path} being {listed(_only_in(values, elsewhere or ()))}"


def _only_in(these: Iterable[Scalar], those: Iterable[Scalar]) -> tuple[Scalar, ...]:
    known = {*map(_identity, those)}
    return tuple(value for value in these if _identity(value) not in known)


def _identity(value: Scalar) -> tuple[str, Scalar]:
    """Return the key by which values are distinct: `true` is not 1, and 1.0 is 1."""
    kind = "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    return kind, value
