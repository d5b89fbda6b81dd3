"""The request that all others are made from: the first of a few that an endpoint answers."""

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from compiler.diagnostics import CommandError, printable
from compiler.probe.experiment import Base, Learning, Reply, one
from compiler.verify.assertion import Answer
from compiler.verify.check import Fields

ABOUT: Final = "request"

_TEXTS: Final = ("Say OK.", "Say OK as JSON.")
_BUDGETS: Final[tuple[Fields, ...]] = ({"max_tokens": 1}, {"max_completion_tokens": 1}, {"max_tokens": 16}, {})
_EXTRAS: Final[tuple[Fields, ...]] = ({}, {"stream": True})
_MOST_TOLD: Final = 300


class BaseError(CommandError):
    """No request was found that the endpoint answers; the message is one line."""


def learn_base(model: str) -> Learning[Base]:
    """Return a request that is answered. Raises BaseError when none is."""
    first: Reply | None = None
    for text, fields in _candidates(model):
        base = Base(fields, text)
        reply = yield from one(base.question(ABOUT))
        if reply.is_accepted:
            return base
        first = first or reply
    raise BaseError(f"no request was found that the endpoint answers: {'' if first is None else _told(first.answer)}")


def _candidates(model: str) -> Iterator[tuple[str, Fields]]:
    for extra, text, budget in product(_EXTRAS, _TEXTS, _BUDGETS):
        user = {"role": "user", "content": text}
        system: list[Any] = [{"role": "system", "content": text}, user]
        for messages in ([user], system):
            yield text, {"model": model, "messages": messages, **budget, **extra}


def _told(answer: Answer) -> str:
    if answer.failure is not None:
        return answer.failure
    text = " ".join(answer.body.decode(errors="replace").split())
    return printable(f"the plainest is answered {answer.status}: {text[:_MOST_TOLD]}")
