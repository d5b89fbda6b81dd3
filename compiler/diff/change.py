"""One change between two contracts, and the combined direction of several changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from compiler.diff.values import Value

UNSEEN: Final = "no request sees a difference"
EVIDENCE: Final = "nothing that clients see: where the rule comes from is stated differently"

Direction = bool | None
"""Whether a change has a direction; None where that cannot be determined."""


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs, by its keys in a profile, and a sentence on what a client notices.

    If a direction cannot be determined it is None: the change may reject requests that passed, or accept others.
    """

    at: tuple[str, ...]
    before: Value
    after: Value
    consequence: str
    tightens: Direction = False
    loosens: Direction = False

    @property
    def path(self) -> str:
        """The setting as people write it."""
        return ".".join(self.at)

    @property
    def effect(self) -> Literal["tighter", "looser", "other"]:
        """The direction of the change; `other` if it has both or none, or if it cannot be determined."""
        if self.tightens is True and self.loosens is False:
            return "tighter"
        return "looser" if self.loosens is True and self.tightens is False else "other"


@dataclass(frozen=True, slots=True)
class ConstraintEffect:
    """The effect of a change of one constraint: the text, and whether it tightens and loosens."""

    words: str
    tightens: Direction = False
    loosens: Direction = False


def rejection_of(which: str, *, tightens: bool) -> ConstraintEffect:
    """Return the verdict of a change after which such requests are rejected, or no longer are."""
    return ConstraintEffect(f"{which} will {'' if tightens else 'no longer '}be rejected", tightens, not tightens)


def rejection_and_acceptance(newly: str, no_longer: str) -> ConstraintEffect:
    """Return the effect of a change that rejects some requests newly and others no longer; empty texts mean none."""
    effects = [rejection_of(newly, tightens=True)] if newly else []
    effects += [rejection_of(no_longer, tightens=False)] if no_longer else []
    return combined(effects) if effects else ConstraintEffect(f"{UNSEEN}: the same, written differently")


def combined(effects: Iterable[ConstraintEffect]) -> ConstraintEffect:
    """Return the verdict of changes that come as one."""
    effects = list(effects)
    words = "; ".join(verdict.words for verdict in effects)
    return ConstraintEffect(words, any_of(each.tightens for each in effects), any_of(each.loosens for each in effects))


def any_of(directions: Iterable[Direction]) -> Direction:
    """Return whether one of several changes has a direction; None if none certainly has it and one may."""
    directions = set(directions)
    return True if True in directions else None if None in directions else False


def change(at: tuple[str, ...], before: Value, after: Value, verdict: ConstraintEffect) -> Change:
    """Return the change of a setting with its verdict."""
    return Change(at, before, after, verdict.words, verdict.tightens, verdict.loosens)
