"""What a run found: every check with its verdict, and what stands around it in a report."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from compiler.verify.assertion import CheckVerdict, EndpointResponse, Result
from compiler.verify.check import Check, SkippedCheck


class CompletedCheck(NamedTuple):
    """A check that was made: the response, the verdict, and the rule in words with its place and its evidence."""

    check: Check
    response: EndpointResponse
    verdict: CheckVerdict
    rule_description: str
    declared: str
    source: str | None


class VerifyRun(NamedTuple):
    """A whole run.

    profile: its name. digest: of the contract. target: what was asked, by its address or in words. models: that were
    asked for. requests: how many were sent. seconds: how long it took. begun: when the first request was sent, as ISO
    8601 in UTC; None: unknown. release: of profilec. record: the file that answers were taken from, and
    `remembered` how many, instead of asking.
    """

    profile: str
    digest: str
    target: str
    models: tuple[str, ...]
    completed: tuple[CompletedCheck, ...]
    skipped: tuple[SkippedCheck, ...]
    requests: int
    seconds: float
    begun: str | None = None
    release: str | None = None
    record: str | None = None
    remembered: int = 0

    def count(self, result: Result) -> int:
        """Return how many checks had a result."""
        return sum(completed.verdict.result == result for completed in self.completed)

    @property
    def failed(self) -> tuple[CompletedCheck, ...]:
        """The checks that failed."""
        return tuple(completed for completed in self.completed if completed.verdict.result == "fail")

    @property
    def is_telling(self) -> bool:
        """Whether any check passed or failed: else nothing is known of the contract."""
        return bool(self.count("pass") or self.count("fail"))

    def by_rule(self) -> Iterator["RuleResults"]:
        """Yield what was found of each rule, in the contract's order."""
        order = dict.fromkeys([*(each.check.rule for each in self.completed), *(each.rule for each in self.skipped)])
        for rule in order:
            completed = tuple(each for each in self.completed if each.check.rule == rule)
            yield RuleResults(rule, completed, tuple(each for each in self.skipped if each.rule == rule))


class RuleResults(NamedTuple):
    """What was found of one rule."""

    rule: str
    completed: Sequence[CompletedCheck]
    skipped: Sequence[SkippedCheck]

    def count(self, result: Result) -> int:
        """Return how many of its checks had a result."""
        return sum(each.verdict.result == result for each in self.completed)

    @property
    def is_kept(self) -> bool:
        """Whether none of its checks failed."""
        return not self.count("fail")

    def unobservable(self) -> Counter[str]:
        """Return why checks could not be observed, and how many."""
        return Counter(each.verdict.reason for each in self.completed if each.verdict.result == "not observable")


VERDICTS: Final[tuple[Result, ...]] = ("pass", "fail", "not observable")
"""The results in the order in which reports tell them."""
