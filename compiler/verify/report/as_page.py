"""A run as one self-contained HTML page: a summary, the failures, then every rule. Light and dark."""

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Final

from compiler.verify.check import SkippedCheck
from compiler.verify.report.formatting import (
    came_back,
    caution_of,
    counted,
    engine_got,
    facts_of,
    sent_in_words,
    shown_results,
    unobservable_of,
    untried_of,
    verdict_of,
    wanted,
)
from compiler.verify.report.page_style import STYLE
from compiler.verify.run import VERDICTS, CompletedCheck, RuleResults, VerifyRun

SHOWN_OPEN: Final = 3
"""Number of failures of a rule that are shown expanded; the others are collapsed."""

_MARKS: Final = {
    "pass": ("pass", "✓"),
    "fail": ("fail", "✗"),
    "not observable": ("unseen", "?"),
    "not tried": ("unseen", "·"),
}
"""The class and the mark of each result."""

_NAMES: Final = {"pass": "passed", "fail": "failed"}
"""Display names of results that differ from the results' own names."""

_GRADED: Final = re.compile(r"\([HML]\)")
"""The marks of confidence with which presets end a piece of evidence."""


def page_of(run: VerifyRun) -> bytes:
    """Return a run as a page."""
    return "\n".join(_page(run)).encode("utf-8", "backslashreplace")


def _page(run: VerifyRun) -> Iterator[str]:
    title = f"{run.profile} against {run.target}"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_text(title)}</title><style>{STYLE}</style></head><body><main>"
    yield from _head(run)
    yield from _table(run)
    yield from _failures(run)
    yield from _rules(run)
    yield from _left_out(run)
    yield from _foot(run)
    yield "</main></body></html>"


def _head(run: VerifyRun) -> Iterator[str]:
    kind = "bad" if run.count("fail") else "good"
    yield f"<header><p class='kicker'>Contract verification</p><h1>{_text(run.profile)}</h1>"
    yield f"<p class='target'>held against <strong>{_text(run.target)}</strong></p>"
    yield "<dl class='facts'>"
    yield from (_fact(name, value) for name, value in facts_of(run))
    yield "</dl></header>"
    yield f"<section class='verdict {kind}'><p>{_text(verdict_of(run))}</p>"
    caution = caution_of(run)
    yield "" if caution is None else f"<p class='caution'>{_text(caution)}</p>"
    yield from _bar(run)
    yield "<dl class='figures'>"
    for result in ("pass", "fail", "not observable"):
        yield _figure(_NAMES.get(result, result), run.count(result), _MARKS[result][0])
    yield _figure("not tried", len(run.skipped), "")
    yield "</dl></section>"


def _bar(run: VerifyRun) -> Iterator[str]:
    total = max(1, len(run.completed))
    text = ", ".join(f"{run.count(result):,} {_NAMES.get(result, result)}" for result in shown_results(run))
    yield f"<div class='bar' role='img' aria-label='{text}'>"
    for result in ("pass", "fail", "not observable"):
        share = 100 * run.count(result) / total
        if share:
            yield f"<span class='{_MARKS[result][0]}' style='width:{share:.3f}%'></span>"
    yield "</div>"


def _figure(name: str, value: int, kind: str) -> str:
    return f"<div class='{kind if value else 'none'}'><dt>{name}</dt><dd>{value:,}</dd></div>"


def _table(run: VerifyRun) -> Iterator[str]:
    shown = shown_results(run)
    heads = ["rule", *(_NAMES.get(result, result) for result in shown), *(["not tried"] if run.skipped else [])]
    yield "<h2>Rules</h2><div class='wide'><table class='rules'><thead><tr>"
    yield "".join(f"<th scope='col'>{head}</th>" for head in heads)
    yield "</tr></thead><tbody>"
    for number, each in enumerate(run.by_rule()):
        kind = "" if each.is_kept else " class='broken'"
        cells = [f"{each.count(result) or ''}" for result in shown]
        cells += [f"{len(each.skipped) or ''}"] if run.skipped else []
        if not each.is_kept:
            case_match = shown.index("fail")
            cells[case_match] = f"<a href='#failed-{number}'>{cells[case_match]}</a>"
        counts = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f"<tr{kind}><th scope='row'><a href='#rule-{number}'>{_broken(each.rule)}</a></th>{counts}</tr>"
    yield "</tbody></table></div>"


def _failures(run: VerifyRun) -> Iterator[str]:
    broken = [(number, each) for number, each in enumerate(run.by_rule()) if not each.is_kept]
    if not broken:
        return
    yield "<h2>What is not kept</h2>"
    for number, each in broken:
        failed = [completed for completed in each.completed if completed.verdict.result == "fail"]
        text = f"{counted(len(failed), 'check')} failed"
        yield f"<section id='failed-{number}'><h3>{_broken(each.rule)} <small>{text}</small></h3>"
        for completed in failed[:SHOWN_OPEN]:
            yield from _failure(completed)
        if len(failed) > SHOWN_OPEN:
            yield f"<details class='more'><summary>{len(failed) - SHOWN_OPEN} more of {_text(each.rule)}</summary>"
            for completed in failed[SHOWN_OPEN:]:
                yield from _failure(completed)
            yield "</details>"
        yield "</section>"


def _failure(completed: CompletedCheck) -> Iterator[str]:
    check = completed.check
    case = f" <small>in case {_text(check.case)}</small>" if check.case else ""
    yield f"<article class='failure'><h4>{_text(check.description)}{case}</h4>"
    yield f"<p class='reason'>{_text(completed.verdict.reason)}</p><dl class='facts'>"
    yield _fact("sent", sent_in_words(check.request), is_code=True)
    yield _fact("came back", came_back(completed.response), is_code=True)
    if completed.response.is_captured:
        yield _fact("the engine got", engine_got(completed.response), is_code=True)
    yield _fact("expected", wanted(check), is_code=True)
    yield _fact("the contract", completed.rule_description)
    source = f" — {completed.source}" if completed.source else ""
    yield _fact("declared", f"{completed.declared}{source}")
    yield "</dl></article>"


def _fact(name: str, value: str, *, is_code: bool = False) -> str:
    shown = f"<code>{_text(value)}</code>" if is_code else _text(value)
    return f"<dt>{name}</dt><dd>{shown}</dd>"


def _rules(run: VerifyRun) -> Iterator[str]:
    yield "<h2>Every check</h2>"
    for number, each in enumerate(run.by_rule()):
        yield from _rule(number, each)


def _rule(number: int, each: RuleResults) -> Iterator[str]:
    counts = {result: each.count(result) for result in VERDICTS} | {"not tried": len(each.skipped)}
    text = ", ".join(f"{count:,} {_NAMES.get(result, result)}" for result, count in counts.items() if count)
    worst = next(result for result in ("fail", "not observable", "pass", "not tried") if counts[result])
    yield f"<details class='rule'><summary>{_mark(worst)} <strong>{_broken(each.rule)}</strong> <small>{text}</small>"
    # A link opens the details around its target, but not the target's own details.
    yield f"</summary><div id='rule-{number}'>"
    first = next(iter(each.completed), None)
    if first is not None:
        source = f" — {first.source}" if first.source else ""
        yield f"<p class='declared'>declared: {_text(first.declared)}{_text(source)}</p>"
    yield "<div class='wide'><table class='checks'><thead><tr><th scope='col'><span class='unshown'>result</span></th>"
    yield "<th scope='col'>what was tried</th><th scope='col'>in case</th><th scope='col'>due</th></tr></thead><tbody>"
    for completed in each.completed:
        case = completed.check.case or ""
        reason = f"<br><small>{_text(completed.verdict.reason)}</small>" if completed.verdict.reason else ""
        yield f"<tr><td>{_mark(completed.verdict.result)}</td><td>{_text(completed.check.description)}{reason}</td>"
        yield f"<td>{_text(case)}</td><td>{_due(completed)}</td></tr>"
    yield from (_untried_row(skipped) for skipped in each.skipped)
    yield "</tbody></table></div></div></details>"


def _mark(result: str) -> str:
    kind, mark = _MARKS[result]
    return f"<span class='{kind}' role='img' aria-label='{_NAMES.get(result, result)}'>{mark}</span>"


def _due(completed: CompletedCheck) -> str:
    status = getattr(completed.check.expected, "status", None)
    return "answered" if status is None else f"rejected, {status}"


def _untried_row(skipped: SkippedCheck) -> str:
    reason = f"<br><small>not tried: {_text(skipped.reason)}</small>"
    return (
        f"<tr><td>{_mark('not tried')}</td><td>{_text(skipped.description)}{reason}</td>"
        f"<td>{_text(skipped.case or '')}</td><td></td></tr>"
    )


def _left_out(run: VerifyRun) -> Iterator[str]:
    yield from _listed("What could not be observed", unobservable_of(run))
    yield from _listed("What was not tried", untried_of(run))


def _listed(title: str, reasons: Counter[str]) -> Iterator[str]:
    if reasons:
        yield f"<h2>{title}</h2><ul class='reasons'>"
        yield from (f"<li><strong>{count:,}</strong> {_text(reason)}</li>" for reason, count in reasons.most_common())
        yield "</ul>"


def _foot(run: VerifyRun) -> Iterator[str]:
    yield "<footer><p>Every check is derived from the contract: each rule at and around its edges, in each of its modes"
    yield "and cases. What is expected of a response is what the contract fixes, and nothing else; … stands for"
    yield "anything at all."
    if any(completed.source and _GRADED.search(completed.source) for completed in run.completed):
        yield "Behind a piece of evidence, H, M or L says how sure it is: high, medium or low."
    yield "Long requests and responses are cut in the middle.</p></footer>"


def _broken(rule: str) -> str:
    """Return the name of a rule with possible line breaks between its words."""
    return re.sub(r"(?<=[._])", "<wbr>", _text(rule))


def _text(value: str) -> str:
    return escape(value)
