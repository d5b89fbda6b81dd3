"""What a run found: every check with its verdict, and what stands around it in a report."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from compiler.verify.assertion import Answer, Result, Verdict
from compiler.verify.check import Check, Untried


class Judged(NamedTuple):
    """A check that was made: the answer, the verdict, what the contract says in words, where, and on what evidence."""

    check: Check
    answer: Answer
    verdict: Verdict
    says: str
    declared: str
    source: str | None


class Run(NamedTuple):
    """A whole run.

    profile: its name. digest: of the contract. target: what was asked, by its address or in words. models: that were
    asked for. requests: how many were sent. seconds: how long it took. begun: when the first request was sent, as ISO
    8601 in UTC; None: nobody knows. release: of profilec. record: the file that answers were taken from, and
    `remembered` how many, instead of asking.
    """

    profile: str
    digest: str
    target: str
    models: tuple[str, ...]
    judged: tuple[Judged, ...]
    untried: tuple[Untried, ...]
    requests: int
    seconds: float
    begun: str | None = None
    release: str | None = None
    record: str | None = None
    remembered: int = 0

    def count(self, result: Result) -> int:
        """Return how many checks had a result."""
        return sum(judged.verdict.result == result for judged in self.judged)

    @property
    def failed(self) -> tuple[Judged, ...]:
        """The checks that failed."""
        return tuple(judged for judged in self.judged if judged.verdict.result == "fail")

    @property
    def is_telling(self) -> bool:
        """Whether any check passed or failed: else nothing is known of the contract."""
        return bool(self.count("pass") or self.count("fail"))

    def by_rule(self) -> Iterator["OfRule"]:
        """Yield what was found of each rule, in the contract's order."""
        order = dict.fromkeys([*(each.check.rule for each in self.judged), *(each.rule for each in self.untried)])
        for rule in order:
            judged = tuple(each for each in self.judged if each.check.rule == rule)
            yield OfRule(rule, judged, tuple(each for each in self.untried if each.rule == rule))


class OfRule(NamedTuple):
    """What was found of one rule."""

    rule: str
    judged: Sequence[Judged]
    untried: Sequence[Untried]

    def count(self, result: Result) -> int:
        """Return how many of its checks had a result."""
        return sum(each.verdict.result == result for each in self.judged)

    @property
    def is_kept(self) -> bool:
        """Whether none of its checks failed."""
        return not self.count("fail")

    def unobservable(self) -> Counter[str]:
        """Return why checks could not be observed, and how many."""
        return Counter(each.verdict.reason for each in self.judged if each.verdict.result == "not observable")


VERDICTS: Final[tuple[Result, ...]] = ("pass", "fail", "not observable")
"""The results in the order in which reports tell them."""
