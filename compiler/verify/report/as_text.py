"""A run as text for people: a table of the rules, then what failed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from compiler.verify.report.formatting import (
    came_back,
    caution_of,
    engine_got,
    moment_of,
    pace_of,
    sent_in_words,
    shortened,
    shown_results,
    unobservable_of,
    untried_of,
    verdict_of,
    wanted,
)
from compiler.verify.run import CompletedCheck, RuleResults, VerifyRun

SHOWN_PER_RULE: Final = 3
"""Most failures of a rule that are shown; the other formats show all."""

_LONGEST: Final = 400


_INDENT: Final = 13
"""Width of the column before the details of a failure."""

_NARROWEST: Final = 40


def text_of(run: VerifyRun, columns: int | None = None) -> bytes:
    """Return a run as text, wrapped to a number of columns for a terminal."""
    lines = _lines(run)
    if columns is not None:
        lines = [piece for line in lines for piece in _wrapped(line, max(columns, _NARROWEST))]
    return "\n".join([*lines, ""]).encode("utf-8", "backslashreplace")


def _lines(run: VerifyRun) -> list[str]:
    release = run.release or "of a checkout"
    lines = [f"{run.profile} ({run.digest[:19]}…) held against {run.target}"]
    lines += [f"asked {moment_of(run)}, by profilec {release}", ""]
    caution = caution_of(run)
    lines += [] if caution is None else [caution, ""]
    lines += _table(run)
    if caution is None:
        lines += [line for each in run.by_rule() if not each.is_kept for line in _failures(each)]
    elif run.failed:
        lines += ["For that reason the failures are not shown here; --format html or json has them.", ""]
    lines += _left_out(run)
    return [*lines, f"{verdict_of(run)} {pace_of(run)}."]


def _wrapped(line: str, columns: int) -> list[str]:
    """Return a line in pieces; the text of a name or count is aligned below it."""
    if len(line) <= columns or (line[:1].strip() and "  " in line):
        return [line]
    indent = " " * (_INDENT if line.startswith("  ") else 0)
    return wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False)


def _table(run: VerifyRun) -> list[str]:
    shown = shown_results(run)
    heads = [*shown, *(["not tried"] if run.skipped else [])]
    split = [head.rpartition(" ") for head in heads]
    rows: list[Sequence[str]] = [("", *(head for head, _, _ in split))] if len(heads) > len(("pass", "fail")) else []
    rows.append(("rule", *(last for _, _, last in split)))
    for each in run.by_rule():
        counts = [each.count(result) for result in shown] + ([len(each.skipped)] if run.skipped else [])
        rows.append((each.rule, *(str(count or "") for count in counts)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [*(_row(row, widths) for row in rows), ""]


def _row(row: Sequence[str], widths: list[int]) -> str:
    numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join([row[0].ljust(widths[0]), *numbers]).rstrip()


def _failures(of_rule: RuleResults) -> Iterator[str]:
    failed = [each for each in of_rule.completed if each.verdict.result == "fail"]
    for each in failed[:SHOWN_PER_RULE]:
        yield from _failure(each)
    if len(failed) > SHOWN_PER_RULE:
        yield f"  … and {len(failed) - SHOWN_PER_RULE} more of {of_rule.rule}; --format html or json shows all"
        yield ""


def _failure(completed: CompletedCheck) -> Iterator[str]:
    check = completed.check
    source = f" ({completed.source})" if completed.source else ""
    yield f"FAIL {shortened(check.id, _LONGEST)}"
    yield f"  {completed.verdict.reason}"
    yield f"  sent       {sent_in_words(check.request, _LONGEST)}"
    yield f"  came back  {came_back(completed.response, _LONGEST)}"
    if completed.response.is_captured:
        yield f"  engine got {engine_got(completed.response, _LONGEST)}"
    yield f"  expected   {shortened(wanted(check), _LONGEST)}"
    yield f"  contract   {completed.rule_description}"
    yield f"  declared   {completed.declared}{source}"
    yield ""


def _left_out(run: VerifyRun) -> list[str]:
    return [*_reason_lines("Not observable:", unobservable_of(run)), *_reason_lines("Not tried:", untried_of(run))]


def _reason_lines(title: str, reasons: Counter[str]) -> Iterator[str]:
    if not reasons:
        return
    yield title
    yield from (f"  {count:>9,}  {reason}" for reason, count in reasons.most_common())
    yield ""
