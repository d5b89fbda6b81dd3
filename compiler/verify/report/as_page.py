"""A run as one HTML page that needs nothing beside it: a summary, what failed, then every rule. Light and dark."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from compiler.verify.check import Untried
from compiler.verify.report.page_style import STYLE
from compiler.verify.report.telling import came_back, counted, engine_got, sent, verdict_of, wanted
from compiler.verify.run import Judged, OfRule, Run

SHOWN_OPEN: Final = 3
"""Failures of a rule that stand open; the others unfold."""

_MARKS: Final = {"pass": ("pass", "✓"), "fail": ("fail", "✗"), "not observable": ("unseen", "·")}


def page_of(run: Run) -> bytes:
    """Return a run as a page."""
    return "\n".join(_page(run)).encode("utf-8", "backslashreplace")


def _page(run: Run) -> Iterator[str]:
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


def _head(run: Run) -> Iterator[str]:
    failed = run.count("fail")
    yield f"<header><p class='kicker'>Contract verification</p><h1>{_text(run.profile)}</h1>"
    yield f"<p class='target'>held against <strong>{_text(run.target)}</strong></p></header>"
    yield f"<section class='verdict {'bad' if failed else 'good'}'><p>{_text(verdict_of(run))}</p>"
    total = max(1, len(run.judged))
    yield "<div class='bar' role='img' aria-label='share of checks by result'>"
    for result in ("pass", "fail", "not observable"):
        share = 100 * run.count(result) / total
        if share:
            yield f"<span class='{_MARKS[result][0]}' style='width:{share:.3f}%'></span>"
    yield "</div><dl class='figures'>"
    figures = (
        ("passed", run.count("pass"), "pass"),
        ("failed", failed, "fail"),
        ("not observable", run.count("not observable"), "unseen"),
        ("not tried", len(run.untried), "unseen"),
        ("requests sent", run.requests, ""),
    )
    for name, value, kind in figures:
        yield f"<div class='{kind}'><dd>{value:,}</dd><dt>{name}</dt></div>"
    yield "</dl></section>"


def _table(run: Run) -> Iterator[str]:
    yield "<h2>Rules</h2><div class='wide'><table class='rules'><thead><tr><th>rule</th><th>passed</th><th>failed</th>"
    yield "<th>not observable</th><th>not tried</th></tr></thead><tbody>"
    for number, each in enumerate(run.by_rule()):
        kind = "" if each.is_kept else " class='broken'"
        cells = (each.count("pass"), each.count("fail"), each.count("not observable"), len(each.untried))
        counts = "".join(f"<td>{count or ''}</td>" for count in cells)
        yield f"<tr{kind}><th scope='row'><a href='#rule-{number}'>{_text(each.rule)}</a></th>{counts}</tr>"
    yield "</tbody></table></div>"


def _failures(run: Run) -> Iterator[str]:
    broken = [each for each in run.by_rule() if not each.is_kept]
    if not broken:
        return
    yield "<h2>What is not kept</h2>"
    for each in broken:
        failed = [judged for judged in each.judged if judged.verdict.result == "fail"]
        told = f"{counted(len(failed), 'check')} failed"
        yield f"<section class='rule-failures'><h3>{_text(each.rule)} <small>{told}</small></h3>"
        for judged in failed[:SHOWN_OPEN]:
            yield from _failure(judged)
        if len(failed) > SHOWN_OPEN:
            yield f"<details class='more'><summary>{len(failed) - SHOWN_OPEN} more of {_text(each.rule)}</summary>"
            for judged in failed[SHOWN_OPEN:]:
                yield from _failure(judged)
            yield "</details>"
        yield "</section>"


def _failure(judged: Judged) -> Iterator[str]:
    check = judged.check
    case = f" <small>in case {_text(check.case)}</small>" if check.case else ""
    yield f"<article class='failure'><h4>{_text(check.shows)}{case}</h4>"
    yield f"<p class='reason'>{_text(judged.verdict.reason)}</p><dl class='facts'>"
    yield _fact("sent", sent(check.ask), is_code=True)
    yield _fact("came back", came_back(judged.answer), is_code=True)
    if judged.answer.is_captured:
        yield _fact("the engine got", engine_got(judged.answer), is_code=True)
    yield _fact("expected", wanted(check), is_code=True)
    yield _fact("the contract", judged.says)
    source = f" — {judged.source}" if judged.source else ""
    yield _fact("declared", f"{judged.declared}{source}")
    yield "</dl></article>"


def _fact(name: str, value: str, *, is_code: bool = False) -> str:
    shown = f"<code>{_text(value)}</code>" if is_code else _text(value)
    return f"<dt>{name}</dt><dd>{shown}</dd>"


def _rules(run: Run) -> Iterator[str]:
    yield "<h2>Every check</h2>"
    for number, each in enumerate(run.by_rule()):
        yield from _rule(number, each)


def _rule(number: int, each: OfRule) -> Iterator[str]:
    failed = each.count("fail")
    told = (
        f"{counted(failed, 'failure')} in {counted(len(each.judged), 'check')}"
        if failed
        else counted(len(each.judged), "check")
    )
    kind = "fail" if failed else "pass" if each.count("pass") else "unseen"
    mark = {"fail": "✗", "pass": "✓", "unseen": "·"}[kind]
    yield f"<details class='rule' id='rule-{number}'><summary><span class='{kind}'>{mark}</span> "
    yield f"<strong>{_text(each.rule)}</strong> <small>{told}</small></summary>"
    first = next(iter(each.judged), None)
    if first is not None:
        source = f" — {first.source}" if first.source else ""
        yield f"<p class='declared'>declared at {_text(first.declared)}{_text(source)}</p>"
    yield "<div class='wide'><table class='checks'><tbody>"
    for judged in each.judged:
        kind, mark = _MARKS[judged.verdict.result]
        case = judged.check.case or ""
        reason = f"<br><small>{_text(judged.verdict.reason)}</small>" if judged.verdict.reason else ""
        yield f"<tr><td class='{kind}'>{mark}</td><td>{_text(judged.check.shows)}{reason}</td>"
        yield f"<td>{_text(case)}</td><td>{_due(judged)}</td></tr>"
    yield from (_untried_row(untried) for untried in each.untried)
    yield "</tbody></table></div></details>"


def _due(judged: Judged) -> str:
    status = getattr(judged.check.expected, "status", None)
    return "answered" if status is None else f"refused, {status}"


def _untried_row(untried: Untried) -> str:
    reason = f"<br><small>not tried: {_text(untried.reason)}</small>"
    return (
        f"<tr><td class='unseen'>·</td><td>{_text(untried.shows)}{reason}</td>"
        f"<td>{_text(untried.case or '')}</td><td></td></tr>"
    )


def _left_out(run: Run) -> Iterator[str]:
    reasons: dict[str, int] = {}
    for each in run.by_rule():
        for reason, count in each.unobservable().items():
            reasons[reason] = reasons.get(reason, 0) + count
    if reasons:
        yield "<h2>What could not be observed</h2><ul class='reasons'>"
        yield from _listed(reasons.items())
        yield "</ul>"


def _listed(reasons: Iterable[tuple[str, int]]) -> Iterator[str]:
    ordered = sorted(reasons, key=lambda item: -item[1])
    return (f"<li><strong>{count:,}</strong> {_text(reason)}</li>" for reason, count in ordered)


def _foot(run: Run) -> Iterator[str]:
    models = ", ".join(run.models[:_MOST_MODELS]) + (" …" if len(run.models) > _MOST_MODELS else "")
    yield "<footer><dl class='facts'>"
    yield _fact("profile", f"{run.profile}, {run.digest}")
    yield _fact("endpoint", run.target)
    yield _fact("models", models)
    yield _fact("sent", f"{counted(run.requests, 'request')} in {run.seconds:.1f} s")
    yield "</dl><p>Every check is derived from the contract: each rule at and around its edges, in each of its modes"
    yield "and cases. What is expected of an answer is what the contract fixes, and nothing else."
    yield "Made by profilec verify.</p>"
    yield "</footer>"


_MOST_MODELS: Final = 8


def _text(value: str) -> str:
    return escape(value)
