"""The decisions of a contract on many requests, counted by rule, to estimate the effect of a rollout."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from router.contract.decide import Rejection, ServedIds, decide
from router.contract.schema.model import Contract


@dataclass(slots=True)
class Tally:
    """The number of requests that a rule rejected or edited, and the number of the first line that shows it."""

    requests: int = 0
    first_line: int = 0

    def count(self, line: int) -> None:
        """Count a request."""
        self.requests += 1
        self.first_line = self.first_line or line


@dataclass(slots=True)
class Summary:
    """The outcome of many requests: rejected and edited by rule, by case, and those that pass unchanged."""

    requests: int = 0
    rejected: int = 0
    untouched: int = 0
    rejected_by: dict[str, Tally] = field(default_factory=dict)
    violated: Counter[str] = field(default_factory=Counter)
    edited_by: dict[str, Tally] = field(default_factory=dict)
    in_case: dict[str, Tally] = field(default_factory=dict)

    @property
    def forwarded(self) -> int:
        """Number of requests that an engine would receive."""
        return self.requests - self.rejected


def summarise(
    numbered_bodies: Iterable[tuple[int, bytes]], contract: Contract, served_ids: ServedIds | None
) -> Summary:
    """Decide each request, given as its line number and its body, and count the outcomes."""
    summary = Summary()
    for line, body in numbered_bodies:
        summary.requests += 1
        decision = decide(body, contract, served_ids)
        summary.violated.update(decision.violations)
        if decision.case_selection.case is not None:
            summary.in_case.setdefault(decision.case_selection.case.name, Tally()).count(line)
        if isinstance(decision, Rejection):
            summary.rejected += 1
            summary.rejected_by.setdefault(decision.rule, Tally()).count(line)
            continue
        summary.untouched += not decision.edits
        for rule in {edit.rule for edit in decision.edits}:
            summary.edited_by.setdefault(rule, Tally()).count(line)
    return summary


def numbered(lines: Iterable[bytes], after: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the requests of JSON Lines with their line numbers, which start after `after`; blank lines are skipped."""
    for number, line in enumerate(lines, after + 1):
        body = line.strip()
        if body:
            yield number, body
