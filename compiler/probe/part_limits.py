"""Learn how many videos, audios and files the messages of a request may carry."""

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from compiler.probe.evidence import evidence_of
from compiler.probe.experiment import (
    BaseRequest,
    Experiment,
    ExperimentResult,
    Learner,
    ask_all,
    ask_one,
    run_together,
    texts_in,
)
from compiler.probe.limits import LearnedLimits, largest_count, merged_limits
from compiler.verify.generation.limits import KINDS_OF, part_of
from router.contract.schema.rule_list import PART_LIMITS

if TYPE_CHECKING:
    from compiler.verify.check import Fields

OTHER_LIMITS: Final = {limit: modality for modality, limit in PART_LIMITS.items() if modality != "image"}
"""Member of `limits` → the modality whose parts it bounds. For images, `limits` learns more than the number."""


class _PartLimit(NamedTuple):
    """One member of `limits`, and the modality whose parts it bounds."""

    name: str
    modality: str

    @property
    def about(self) -> str:
        return f"limits.{self.name}"

    def experiment(self, base: BaseRequest, kind: str, count: int) -> Experiment:
        parts = [part_of(kind, base.text)] * count
        message = {"role": "user", "content": [{"type": "text", "text": base.text}, *parts]}
        return base.experiment(self.about, {"messages": [message]})


def learn_part_limits(base: BaseRequest, names: list[str], allowed: list[str] | None) -> Learner[LearnedLimits]:
    """Learn limits by name. allowed: the types of parts that the endpoint accepts; None: it has no list of them."""
    learnings: dict[str, Learner[LearnedLimits]] = {}
    for name in names:
        kinds = [kind for kind in KINDS_OF[OTHER_LIMITS[name]] if allowed is None or kind in allowed]
        if kinds:
            learnings[name] = _learn_limit(base, _PartLimit(name, OTHER_LIMITS[name]), kinds)
    found: dict[str, LearnedLimits] = yield from run_together(learnings)
    limits: Fields = {}
    for each in found.values():
        limits = merged_limits(limits, each.limits)
    return LearnedLimits(limits, {}, tuple(line for each in found.values() for line in each.undetermined))


def _learn_limit(base: BaseRequest, limit: _PartLimit, kinds: list[str]) -> Learner[LearnedLimits]:
    """Learn one limit, with parts of the first accepted type."""
    singles = yield from ask_all(*(limit.experiment(base, kind, 1) for kind in kinds))
    accepted = [kind for kind, result in zip(kinds, singles, strict=True) if result.is_accepted]
    if accepted:
        return (yield from largest_count(lambda count: limit.experiment(base, accepted[0], count), limit.name))
    two = yield from ask_one(limit.experiment(base, kinds[0], 2))
    if not _counts_parts(singles[0], two):
        # The data that is sent is no real video or document: it may be rejected for that.
        return LearnedLimits(
            {}, {}, (f"{limit.about}: no {limit.modality} was accepted, and no number of them was named",)
        )
    source = evidence_of([], [f"1 {limit.modality}", f"2 {limit.modality}s"], [singles[0], two])
    return LearnedLimits({limit.name: 0, "source": source}, {})


def _counts_parts(one_part: ExperimentResult, two_parts: ExperimentResult) -> bool:
    """Return whether the error texts of one part and of two name these numbers."""
    is_rejected = one_part.is_rejected and two_parts.is_rejected
    return is_rejected and _names(one_part, 1) and _names(two_parts, 2) and not _names(one_part, 2)


def _names(result: ExperimentResult, number: int) -> bool:
    return any(re.search(rf"\b{number}\b", text) for text in texts_in(result))
