"""A run as text for people: a table of the rules, then what failed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from compiler.verify.report.telling import came_back, engine_got, sent, shortened, verdict_of, wanted
from compiler.verify.run import VERDICTS, Judged, OfRule, Run

SHOWN_PER_RULE: Final = 3
"""Most failures of a rule that are told; the other formats have them all."""

_LONGEST: Final = 400


def text_of(run: Run) -> bytes:
    """Return a run as text."""
    lines = [f"{run.profile} ({run.digest[:19]}…) held against {run.target}", ""]
    lines += _table(run)
    lines += [line for each in run.by_rule() if not each.is_kept for line in _failures(each)]
    lines += _left_out(run)
    pace = f"{run.requests:,} requests in {run.seconds:.1f} s."
    return "\n".join([*lines, f"{verdict_of(run)} {pace}", ""]).encode()


def _table(run: Run) -> list[str]:
    rows: list[Sequence[str]] = [("rule", *VERDICTS, "not tried")]
    for each in run.by_rule():
        counts = [each.count(result) for result in VERDICTS]
        rows.append((each.rule, *(str(count or "") for count in (*counts, len(each.untried)))))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [*(_row(row, widths) for row in rows), ""]


def _row(row: Sequence[str], widths: list[int]) -> str:
    numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join([row[0].ljust(widths[0]), *numbers]).rstrip()


def _failures(of_rule: OfRule) -> Iterator[str]:
    failed = [each for each in of_rule.judged if each.verdict.result == "fail"]
    for each in failed[:SHOWN_PER_RULE]:
        yield from _failure(each)
    if len(failed) > SHOWN_PER_RULE:
        yield f"  … and {len(failed) - SHOWN_PER_RULE} more of {of_rule.rule}; --format html or json tells all"
        yield ""


def _failure(judged: Judged) -> Iterator[str]:
    check = judged.check
    source = f" ({judged.source})" if judged.source else ""
    yield f"FAIL {shortened(check.id, _LONGEST)}"
    yield f"  {judged.verdict.reason}"
    yield f"  sent       {sent(check.ask, _LONGEST)}"
    yield f"  came back  {came_back(judged.answer, _LONGEST)}"
    if judged.answer.is_captured:
        yield f"  engine got {engine_got(judged.answer, _LONGEST)}"
    yield f"  expected   {shortened(wanted(check), _LONGEST)}"
    yield f"  contract   {judged.says}"
    yield f"  declared   {judged.declared}{source}"
    yield ""


def _left_out(run: Run) -> list[str]:
    reasons = [(each.rule, reason, count) for each in run.by_rule() for reason, count in each.unobservable().items()]
    lines = list(_told("Not observable:", _merged(reasons)))
    untried = [(each.rule, f"{each.shows}: {each.reason}", 1) for each in run.untried]
    if len(untried) > _MOST_UNTRIED:
        untried = [(each.rule, each.reason, 1) for each in run.untried]
    return [*lines, *_told("Not tried:", _merged(untried))]


_MOST_UNTRIED: Final = 12


def _merged(told: Iterable[tuple[str, str, int]]) -> dict[str, int]:
    merged: dict[str, int] = {}
    for _, reason, count in told:
        merged[reason] = merged.get(reason, 0) + count
    return merged


def _told(title: str, reasons: dict[str, int]) -> Iterator[str]:
    if not reasons:
        return
    yield title
    yield from (f"  {count:>5}  {reason}" for reason, count in reasons.items())
    yield ""
