"""Explanations and summaries as text for people and as JSON for programs."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from compiler.diagnostics import printable
from compiler.explain.explanation import CASES, Explanation
from compiler.explain.origin import Origin
from compiler.explain.steps import FIRST_ONLY, Step
from compiler.explain.traffic import Summary, Tally
from router.contract.decide import Forward, Rejection
from router.contract.errors import build_error_response
from router.contract.jsonbytes.splice import JsonEdit

FORMAT_VERSION: Final = 1
"""The version of the JSON that this module writes."""

REQUEST_ID: Final = "<request id>"
"""The request id in an error response that contains one."""

MAX_SHOWN_BODY: Final = 4096
"""Longest body in bytes that is shown whole as text."""


def explanation_text(explanation: Explanation, origin: Origin) -> str:
    """Return the steps as a table, and what the client or the engine receives."""
    decision = explanation.decision
    rows = [(step.rule, step.verdict, _reason(step), _place(step, decision, origin)) for step in explanation.steps]
    outcome = _rejection_text(decision) if isinstance(decision, Rejection) else _forward_text(decision)
    return f"{_table(rows)}\n{outcome}"


def explanation_json(explanation: Explanation, origin: Origin) -> str:
    """Return the steps and the outcome as one JSON object with a `format_version`."""
    decision = explanation.decision
    steps = [
        {
            "rule": step.rule,
            "verdict": step.verdict,
            "reason": step.reason,
            "part": step.part,
            "declared": _declared(step, decision, origin),
            "source": step.evidence,
        }
        for step in explanation.steps
    ]
    found = {"mode": decision.case_selection.mode, "case": _case_of(decision)}
    if isinstance(decision, Rejection):
        status, headers, body = build_error_response(decision.error, decision.errors, REQUEST_ID)
        outcome: dict[str, Any] = {
            "outcome": "refused",
            "answer": {"status": status, "headers": dict(headers), "body": json.loads(body)},
        }
    else:
        outcome = {
            "outcome": "forwarded",
            "model_asked": decision.model_asked,
            "model_served": decision.model_served,
            "stream": decision.stream,
            "edits": [
                {"rule": e.rule, "kind": e.kind, "field": e.field, "value": e.value.decode()} for e in decision.edits
            ],
            "body": decision.body.decode(),
        }
    return _json({"steps": steps, **found, **outcome, "violations": list(decision.violations)})


def summary_text(summary: Summary) -> str:
    """Return how many requests would be rejected and edited, by rule, as text."""
    noun = "request" if summary.requests == 1 else "requests"
    head = (
        f"{summary.requests:,} {noun}: {summary.rejected:,} rejected ({_share(summary.rejected, summary)}), "
        f"{summary.forwarded:,} forwarded, {summary.untouched:,} of them unchanged"
    )
    lines = [head]
    lines += _tallies("rejected by", summary.rejected_by, summary)
    lines += _tallies("edited by", summary.edited_by, summary)
    lines += _tallies("in case", summary.in_case, summary)
    return "\n".join(lines) + "\n"


def summary_json(summary: Summary) -> str:
    """Return a summary as one JSON object with a `format_version`."""
    return _json(
        {
            "requests": summary.requests,
            "refused": summary.rejected,
            "forwarded": summary.forwarded,
            "untouched": summary.untouched,
            "refused_by": _counts(summary.rejected_by),
            "edited_by": _counts(summary.edited_by),
            "in_case": _counts(summary.in_case),
            "violated": dict(summary.violated.most_common()),
        }
    )


def _reason(step: Step) -> str:
    if step.part is None:
        return step.reason
    reason, separator, note = step.reason.partition(f"; {FIRST_ONLY}")
    return f"{reason} [{step.part}]{separator}{note}"


def _place(step: Step, decision: Forward | Rejection, origin: Origin) -> str:
    if step.verdict == "not reached":
        return ""
    declared = _declared(step, decision, origin)
    return f"{declared} ({printable(step.evidence)})" if step.evidence is not None else declared


def _declared(step: Step, decision: Forward | Rejection, origin: Origin) -> str:
    case = _case_of(decision)
    if step.rule == CASES and case is not None:
        return origin.declared_case(case)
    return origin.declared(step.rule, case)


def _case_of(decision: Forward | Rejection) -> str | None:
    return None if decision.case_selection.case is None else decision.case_selection.case.name


def _rejection_text(decision: Rejection) -> str:
    status, headers, body = build_error_response(decision.error, decision.errors, REQUEST_ID)
    head = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
    return "The router rejects it; the client gets:\n\n" + "\n".join(head) + f"\n\n{body.decode()}\n"


def _forward_text(decision: Forward) -> str:
    streamed = "streamed" if decision.stream else "not streamed"
    head = f"The router forwards it to an engine that serves {decision.model_served}, {streamed}"
    if not decision.edits:
        return f"{head}, unchanged.\n"
    changes = "".join(f"  {_change(edit)}\n" for edit in decision.edits)
    return f"{head}, with these changes:\n\n{changes}\nThe engine gets:\n\n{_shown(decision.body)}\n"


def _change(edit: JsonEdit) -> str:
    value = edit.value.decode()
    return {
        "inject": f"+ {edit.field}: {value}",
        "set": f"~ {edit.field}: {value}",
        "drop": f"- {edit.field}",
        "remove": f"- {edit.field}: an earlier occurrence",
    }[edit.kind]


def _shown(body: bytes) -> str:
    if len(body) <= MAX_SHOWN_BODY:
        return body.decode()
    half = MAX_SHOWN_BODY // 2
    left_out = len(body) - 2 * half
    return f"{body[:half].decode(errors='ignore')} … {left_out:,} bytes … {body[-half:].decode(errors='ignore')}"


def _tallies(title: str, tallies: dict[str, Tally], summary: Summary) -> list[str]:
    if not tallies:
        return []
    ordered = sorted(tallies.items(), key=lambda item: (-item[1].requests, item[0]))
    rows = [
        (rule, f"{tally.requests:,}", _share(tally.requests, summary), str(tally.first_line)) for rule, tally in ordered
    ]
    return ["", _table([(title, "requests", "share", "first on line"), *rows]).rstrip("\n")]


def _counts(tallies: dict[str, Tally]) -> dict[str, dict[str, int]]:
    return {
        rule: {"requests": tally.requests, "first_line": tally.first_line} for rule, tally in sorted(tallies.items())
    }


def _share(count: int, summary: Summary) -> str:
    return f"{100 * count / max(1, summary.requests):.1f} %"


def _table(rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def _json(value: dict[str, Any]) -> str:
    return json.dumps({"format_version": FORMAT_VERSION, **value}, indent=2, ensure_ascii=False) + "\n"
