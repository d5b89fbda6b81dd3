"""What every report tells: requests and answers shown, and counts in words."""

import json
from typing import Final

from compiler.diagnostics import visible
from compiler.verify.check import Acceptance, Ask, Check, written
from compiler.verify.judgement import Answer, shown_wanted
from compiler.verify.run import Run

MAX_SHOWN: Final = 2000
"""Longest request or answer in characters that is shown whole."""


_LARGE: Final = 1024 * 1024


def sent(ask: Ask, most: int = MAX_SHOWN) -> str:
    """Return the body of a request as it was sent, cut in the middle where it is long."""
    size = ask.size()
    if size > _LARGE:
        plain = ask._replace(length=None).members
        text = f"{{{', '.join(f'{written(name)}: {value}' for name, value in plain)}}}"
        return f"{shortened(text, most)} … {size:,} bytes in all"
    return shortened(ask.body().decode("utf-8", "replace"), most)


def came_back(answer: Answer, most: int = MAX_SHOWN) -> str:
    """Return the status and the body of an answer."""
    if answer.failure is not None:
        return answer.failure
    return f"{answer.status} {shortened(answer.body.decode('utf-8', 'replace').strip(), most)}"


def engine_got(answer: Answer, most: int = MAX_SHOWN) -> str:
    """Return what the engine got."""
    return "nothing" if answer.engine is None else shortened(answer.engine.decode("utf-8", "replace"), most)


def wanted(check: Check) -> str:
    """Return what is expected of the answer to a check's request."""
    expected = check.expected
    if not isinstance(expected, Acceptance):
        return f"{expected.status} {shown_wanted(expected.body)}"
    told = ["200"]
    told += [f"model {written(expected.model)}"] if expected.model is not None else []
    told += [f"usage in: {expected.usage.replace('_', ' ')}"] if expected.usage is not None else []
    if expected.changed:
        gets = {name: expected.engine[name] for name in expected.changed if name in expected.engine}
        lacks = [name for name in expected.changed if name not in expected.engine]
        told += [f"the engine gets {json.dumps(gets, ensure_ascii=False)}"] if gets else []
        told += [f"the engine does not get {', '.join(lacks)}"] if lacks else []
    elif expected.untouched:
        told.append("the engine gets the same bytes")
    return "; ".join(told)


def shortened(text: str, most: int) -> str:
    """Return a text that fits, its middle left out where it is long, with nothing that a terminal would obey."""
    text = visible(text)
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} … {len(text) - 2 * half:,} characters … {text[-half:]}"


def verdict_of(run: Run) -> str:
    """Return the one sentence that a reader wants first."""
    failed, passed = run.count("fail"), run.count("pass")
    unseen, untried = run.count("not observable"), len(run.untried)
    if failed:
        broken = sum(not each.is_kept for each in run.by_rule())
        head = (
            f"The contract is not kept: {failed:,} of {len(run.judged):,} checks failed, over {counted(broken, 'rule')}"
        )
    elif passed:
        head = f"The contract is kept as far as it was tried: {counted(passed, 'check')} passed, none failed"
    else:
        head = "Nothing was tried"
    behind = [f"{unseen:,} not observable"] if unseen else []
    behind += [f"{untried:,} not tried"] if untried else []
    return f"{head}; {', '.join(behind)}." if behind else f"{head}."


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
