"""A run as one JSON object; keys are only ever added, and `format_version` rises when one changes its meaning.

    {
      "format_version": 1,
      "profile": …, "digest": …, "target": …, "models": […],
      "passed": 1, "failed": 0, "not_observable": 0, "not_tried": 0, "requests": 1, "seconds": 0.1,
      "checks": [{"id", "rule", "case", "model", "shows", "result", "reason", "sent", "expected",
                  "came_back": {"status", "content_type", "body"}, "engine_got", "says", "declared", "source"}],
      "untried": [{"rule", "case", "shows", "reason"}]
    }

`sent`, `body` and `engine_got` are cut in the middle where they are long; `engine_got` is null where nothing came to an
engine or nobody looked.
"""

import json
from typing import Any, Final

from compiler.verify.report.telling import MAX_SHOWN, engine_got, sent, shortened, wanted
from compiler.verify.run import Judged, Run

FORMAT_VERSION: Final = 1
"""The version of the JSON that this module writes."""


def json_of(run: Run) -> bytes:
    """Return a run as JSON."""
    value = {
        "format_version": FORMAT_VERSION,
        "profile": run.profile,
        "digest": run.digest,
        "target": run.target,
        "models": list(run.models),
        "passed": run.count("pass"),
        "failed": run.count("fail"),
        "not_observable": run.count("not observable"),
        "not_tried": len(run.untried),
        "requests": run.requests,
        "seconds": round(run.seconds, 3),
        "checks": [_check(judged) for judged in run.judged],
        "untried": [each._asdict() for each in run.untried],
    }
    return f"{json.dumps(value, indent=2, ensure_ascii=False)}\n".encode("utf-8", "backslashreplace")


def _check(judged: Judged) -> dict[str, Any]:
    check, answer = judged.check, judged.answer
    body = shortened(answer.body.decode("utf-8", "replace"), MAX_SHOWN)
    return {
        "id": check.id,
        "rule": check.rule,
        "case": check.case,
        "model": check.model,
        "shows": check.shows,
        "result": judged.verdict.result,
        "reason": judged.verdict.reason or None,
        "sent": sent(check.ask),
        "expected": wanted(check),
        "came_back": {"status": answer.status, "content_type": answer.content_type, "body": body},
        "engine_got": engine_got(answer) if answer.engine is not None else None,
        "says": judged.says,
        "declared": judged.declared,
        "source": judged.source,
    }
