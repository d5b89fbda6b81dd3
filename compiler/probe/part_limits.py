"""How many videos, audios and files the messages of a request may carry."""

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from compiler.probe.evidence import things_said
from compiler.probe.experiment import Base, Learning, Question, Reply, asked, one, texts_in, together
from compiler.probe.limits import Limits, largest_count, merged_limits
from compiler.verify.generation.limits import KINDS_OF, part_of
from router.contract.schema.rule_list import PART_LIMITS

if TYPE_CHECKING:
    from compiler.verify.check import Fields

OTHER_LIMITS: Final = {limit: modality for modality, limit in PART_LIMITS.items() if modality != "image"}
"""Member of `limits` → the modality whose parts it bounds. Of images more is learnt than their number."""


class _PartLimit(NamedTuple):
    """One member of `limits`, and the modality whose parts it bounds."""

    name: str
    modality: str

    @property
    def about(self) -> str:
        return f"limits.{self.name}"

    def question(self, base: Base, kind: str, count: int) -> Question:
        parts = [part_of(kind, base.text)] * count
        message = {"role": "user", "content": [{"type": "text", "text": base.text}, *parts]}
        return base.question(self.about, {"messages": [message]})


def learn_part_limits(base: Base, names: list[str], allowed: list[str] | None) -> Learning[Limits]:
    """Learn limits by name. allowed: the types of parts that the endpoint accepts; None: it has no list of them."""
    learnings: dict[str, Learning[Limits]] = {}
    for name in names:
        kinds = [kind for kind in KINDS_OF[OTHER_LIMITS[name]] if allowed is None or kind in allowed]
        if kinds:
            learnings[name] = _learn_limit(base, _PartLimit(name, OTHER_LIMITS[name]), kinds)
    found: dict[str, Limits] = yield from together(learnings)
    limits: Fields = {}
    for each in found.values():
        limits = merged_limits(limits, each.limits)
    return Limits(limits, {}, tuple(line for each in found.values() for line in each.untold))


def _learn_limit(base: Base, limit: _PartLimit, kinds: list[str]) -> Learning[Limits]:
    """Learn one limit by parts of the first type that is accepted."""
    singles = yield from asked(*(limit.question(base, kind, 1) for kind in kinds))
    accepted = [kind for kind, reply in zip(kinds, singles, strict=True) if reply.is_accepted]
    if accepted:
        return (yield from largest_count(lambda count: limit.question(base, accepted[0], count), limit.name))
    two = yield from one(limit.question(base, kinds[0], 2))
    if not _counts_parts(singles[0], two):
        # The data that is sent is no real video or document: it may be rejected for that.
        return Limits({}, {}, (f"{limit.about}: no {limit.modality} was accepted, and no number of them was named",))
    source = things_said([], [f"1 {limit.modality}", f"2 {limit.modality}s"], [singles[0], two])
    return Limits({limit.name: 0, "source": source}, {})


def _counts_parts(one_part: Reply, two_parts: Reply) -> bool:
    """Return whether the error texts of one part and of two name these numbers."""
    is_rejected = one_part.is_refused and two_parts.is_refused
    return is_rejected and _names(one_part, 1) and _names(two_parts, 2) and not _names(one_part, 2)


def _names(reply: Reply, number: int) -> bool:
    return any(re.search(rf"\b{number}\b", text) for text in texts_in(reply))
