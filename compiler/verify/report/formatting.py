"""What all reports share: display texts of requests and responses, and counts."""

import json
from collections import Counter
from typing import Final

from compiler.diagnostics import printable
from compiler.verify.assertion import EndpointResponse, Result, shown_wanted
from compiler.verify.check import ChatRequest, Check, ExpectedAcceptance, written
from compiler.verify.run import VERDICTS, VerifyRun

MAX_SHOWN: Final = 2000
"""Longest request or response, in characters, that is shown whole."""


EMPTY: Final = "(an empty body)"
"""Stands for a request or a response of no bytes."""

LARGE: Final = 1024 * 1024
"""Largest request in bytes that a report has whole."""

_MOST_MODELS: Final = 8
_MOST_UNTRIED: Final = 12
_OK: Final = 200


def sent(request: ChatRequest, most: int = MAX_SHOWN) -> str:
    """Return the body of a request as sent, shortened in the middle if it is long."""
    if request.size() > LARGE:
        return f"{shortened(_unfilled(request), most)} … {request.size():,} bytes in all"
    return shortened(request.body().decode("utf-8", "replace"), most)


def sent_whole(request: ChatRequest) -> str:
    """Return the body of a request as sent; above `LARGE`, the text of the `ChatRequest` with its markers."""
    return _unfilled(request) if request.size() > LARGE else request.body().decode()


def _unfilled(request: ChatRequest) -> str:
    members = ", ".join(f"{written(name)}: {value}" for name, value in request.members)
    return f"{{{members}}}" if request.text is None else request.text


def sent_in_words(request: ChatRequest, most: int = MAX_SHOWN) -> str:
    """Return the body of a request as it was sent, or a description of one that cannot be shown."""
    return sent(request, most) or EMPTY


def came_back(response: EndpointResponse, most: int = MAX_SHOWN) -> str:
    """Return the status and the body of a response."""
    if response.failure is not None:
        return response.failure
    return f"{response.status} {shortened(response.body.decode('utf-8', 'replace').strip(), most) or EMPTY}"


def engine_got(response: EndpointResponse, most: int = MAX_SHOWN) -> str:
    """Return the request that the engine received."""
    return "nothing" if response.engine is None else shortened(response.engine.decode("utf-8", "replace"), most)


def wanted(check: Check) -> str:
    """Return the description of the expected response to a check's request."""
    expected = check.expected
    if not isinstance(expected, ExpectedAcceptance):
        return f"{expected.status} {shown_wanted(expected.body)}"
    parts = ["200"]
    parts += [f"model {written(expected.model)}"] if expected.model is not None else []
    parts += [f"usage in: {expected.usage.replace('_', ' ')}"] if expected.usage is not None else []
    if expected.changed:
        gets = {name: expected.engine[name] for name in expected.changed if name in expected.engine}
        lacks = [name for name in expected.changed if name not in expected.engine]
        parts += [f"the engine gets {json.dumps(gets, ensure_ascii=False)}"] if gets else []
        parts += [f"the engine does not get {', '.join(lacks)}"] if lacks else []
    elif expected.untouched:
        parts.append("the engine gets the same bytes")
    return "; ".join(parts)


def shortened(text: str, most: int) -> str:
    """Return a text shortened in the middle to fit, without control characters for a terminal."""
    text = printable(text)
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} … {len(text) - 2 * half:,} characters … {text[-half:]}"


def verdict_of(run: VerifyRun) -> str:
    """Return the one sentence that a reader wants first."""
    failed, passed = run.count("fail"), run.count("pass")
    unseen, skipped = run.count("not observable"), len(run.skipped)
    if failed:
        broken = sum(not each.is_kept for each in run.by_rule())
        made = len(run.completed)
        head = f"The contract is not kept: {failed:,} of {made:,} checks failed, over {counted(broken, 'rule')}"
    elif passed:
        head = f"The contract is kept as far as it was tried: {counted(passed, 'check')} passed, none failed"
    else:
        head = "Nothing was tried"
    behind = [f"{unseen:,} not observable"] if unseen else []
    behind += [f"{skipped:,} not tried"] if skipped else []
    return f"{head}; {', '.join(behind)}." if behind else f"{head}."


def caution_of(run: VerifyRun) -> str | None:
    """Return a reason to doubt a run: no check was made, or no request got a response, as with a wrong model."""
    if not run.is_telling:
        reasons = unobservable_of(run) or untried_of(run)
        most = next((f" ({reason})" for reason, _ in reasons.most_common(1)), "")
        return f"Nothing was verified: no check passed or failed{most}. This says nothing about the contract."
    due = [each.response for each in run.completed if isinstance(each.check.expected, ExpectedAcceptance)]
    statuses = Counter(response.status for response in due if response.failure is None)
    if not statuses or _OK in statuses:
        return None
    status, count = statuses.most_common(1)[0]
    return (
        f"Not one request was answered with 200; of {len(due):,} that the contract lets pass {count:,} got {status}. "
        "See that the address and the model are right: otherwise this says nothing about the contract."
    )


def facts_of(run: VerifyRun) -> list[tuple[str, str]]:
    """Return what identifies a run, each fact with its name: when, which contract, what models, how, by what."""
    models = ", ".join(run.models[:_MOST_MODELS])
    more = len(run.models) - _MOST_MODELS
    return [
        ("asked", moment_of(run)),
        ("contract", f"{run.profile}, {run.digest}"),
        ("models", f"{models} and {more:,} more" if more > 0 else models),
        ("run", pace_of(run)),
        ("made by", f"profilec {run.release or 'of a checkout'}"),
    ]


def moment_of(run: VerifyRun) -> str:
    """Return the time of a run's first request as text."""
    return "at an unknown time" if run.begun is None else f"{run.begun.replace('T', ' ').removesuffix('Z')} UTC"


def pace_of(run: VerifyRun) -> str:
    """Return how many requests were sent in what time, and how many responses come from a record."""
    asked = f"{counted(run.requests, 'request')} in {run.seconds:.1f} s"
    if run.record is None:
        return asked
    remembered = f"{counted(run.remembered, 'response')} from the record {printable(run.record)}"
    return f"{asked}, and {remembered}" if run.requests else f"{remembered}, nothing asked again"


def unobservable_of(run: VerifyRun) -> Counter[str]:
    """Return why checks could not be observed, with how many."""
    return sum((each.unobservable() for each in run.by_rule()), Counter())


def untried_of(run: VerifyRun) -> Counter[str]:
    """Return the skipped checks with reasons and counts; if there are many, the reasons alone."""
    is_long = len(run.skipped) > _MOST_UNTRIED
    return Counter(each.reason if is_long else f"{each.description}: {each.reason}" for each in run.skipped)


def shown_results(run: VerifyRun) -> tuple[Result, ...]:
    """Return the results that tables show: passed and failed always, the others if there are any."""
    return tuple(result for result in VERDICTS if result in {"pass", "fail"} or run.count(result))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
