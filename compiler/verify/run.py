"""The result of a run: every check with its verdict, and the data that reports show beside it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from compiler.verify.assertion import CheckVerdict, EndpointResponse, Result
from compiler.verify.check import Check, SkippedCheck


class CompletedCheck(NamedTuple):
    """A check that was made: the response, the verdict, and the rule's text, position and evidence."""

    check: Check
    response: EndpointResponse
    verdict: CheckVerdict
    rule_description: str
    declared: str
    source: str | None


class VerifyRun(NamedTuple):
    """A whole run.

    profile: its name. digest: of the contract. target: the address or a description of the endpoint. models: the
    requested names. requests: the number sent. seconds: the duration. begun: the time of the first request, as ISO
    8601 in UTC; None: unknown. release: of profilec. record: the file with recorded responses, of which `remembered`
    were used instead of requests.
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
        """Whether any check passed or failed; otherwise the run shows nothing about the contract."""
        return bool(self.count("pass") or self.count("fail"))

    def by_rule(self) -> Iterator["RuleResults"]:
        """Yield the results of each rule, in the contract's order."""
        order = dict.fromkeys([*(each.check.rule for each in self.completed), *(each.rule for each in self.skipped)])
        for rule in order:
            completed = tuple(each for each in self.completed if each.check.rule == rule)
            yield RuleResults(rule, completed, tuple(each for each in self.skipped if each.rule == rule))


class RuleResults(NamedTuple):
    """The results of one rule."""

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
"""The results in the order of reports."""
