"""A run as one JSON object. Members are only added; `format_version` rises when a member changes its meaning.

    {
      "format_version": 1,
      "profile": …, "digest": …, "target": …, "models": […],
      "begun": the time of the first request, in UTC, or null, "release": of profilec,
      "record": the file with recorded responses or null, "remembered": how many were used,
      "caution": a reason to doubt the results, or null,
      "passed": 1, "failed": 0, "not_observable": 0, "not_tried": 0, "requests": 1, "seconds": 0.1,
      "checks": [{"id", "rule", "case", "model", "shows", "result", "reason", "sent", "sent_bytes",
                  "expected", "expected_status", "came_back": {"status", "content_type", "body", "failure"},
                  "engine_got", "says", "declared", "source"}],
      "untried": [{"rule", "case", "shows", "reason"}]
    }

`sent` is the whole body of the request, and `sent_bytes` its size. Of a body above 1 MiB `sent` is the bare request
object without the blanks behind it, in which `~letters:N~` replaces N letters. `body` and `engine_got` are cut in the
middle where they are long; `engine_got` is null where no engine got the request, or that was not captured. Where no
response came, `failure` says why, and `status` is 0.
"""

import json
from typing import Any, Final

from compiler.verify.check import SkippedCheck
from compiler.verify.report.formatting import MAX_SHOWN, caution_of, engine_got, sent_whole, shortened, wanted
from compiler.verify.run import CompletedCheck, VerifyRun

FORMAT_VERSION: Final = 1
"""The version of the JSON that this module writes."""


def json_of(run: VerifyRun) -> bytes:
    """Return a run as JSON."""
    value = {
        "format_version": FORMAT_VERSION,
        "profile": run.profile,
        "digest": run.digest,
        "target": run.target,
        "begun": run.begun,
        "release": run.release,
        "record": run.record,
        "remembered": run.remembered,
        "caution": caution_of(run),
        "models": list(run.models),
        "passed": run.count("pass"),
        "failed": run.count("fail"),
        "not_observable": run.count("not observable"),
        "not_tried": len(run.skipped),
        "requests": run.requests,
        "seconds": round(run.seconds, 3),
        "checks": [_check(completed) for completed in run.completed],
        "untried": [_untried(skipped) for skipped in run.skipped],
    }
    return f"{json.dumps(value, indent=2, ensure_ascii=False)}\n".encode("utf-8", "backslashreplace")


def _untried(skipped: SkippedCheck) -> dict[str, str | None]:
    return {"rule": skipped.rule, "case": skipped.case, "shows": skipped.description, "reason": skipped.reason}


def _check(completed: CompletedCheck) -> dict[str, Any]:
    check, response = completed.check, completed.response
    body = shortened(response.body.decode("utf-8", "replace"), MAX_SHOWN)
    return {
        "id": check.id,
        "rule": check.rule,
        "case": check.case,
        "model": check.model,
        "shows": check.description,
        "result": completed.verdict.result,
        "reason": completed.verdict.reason or None,
        "sent": sent_whole(check.request),
        "sent_bytes": check.request.size(),
        "expected": wanted(check),
        "expected_status": getattr(check.expected, "status", 200),
        "came_back": {
            "status": response.status,
            "content_type": response.content_type,
            "body": body,
            "failure": response.failure,
        },
        "engine_got": engine_got(response) if response.engine is not None else None,
        "says": completed.rule_description,
        "declared": completed.declared,
        "source": completed.source,
    }
