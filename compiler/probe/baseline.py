"""The base request, which all others modify: the first candidate that an endpoint accepts."""

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from compiler.diagnostics import CommandError, printable
from compiler.probe.experiment import BaseRequest, ExperimentResult, Learner, ask_one
from compiler.verify.assertion import EndpointResponse
from compiler.verify.check import Fields

ABOUT: Final = "request"

_TEXTS: Final = ("Say OK.", "Say OK as JSON.")
_BUDGETS: Final[tuple[Fields, ...]] = ({"max_tokens": 1}, {"max_completion_tokens": 1}, {"max_tokens": 16}, {})
_EXTRAS: Final[tuple[Fields, ...]] = ({}, {"stream": True})
_MOST_SHOWN: Final = 300


class BaselineError(CommandError):
    """The endpoint accepts no candidate; the message is one line."""


def learn_base(model: str) -> Learner[BaseRequest]:
    """Return a request that is accepted. Raises BaseError if there is none."""
    first: ExperimentResult | None = None
    for text, fields in _candidates(model):
        base = BaseRequest(fields, text)
        result = yield from ask_one(base.experiment(ABOUT))
        if result.is_accepted:
            return base
        first = first or result
    raise BaselineError(
        f"the endpoint accepts none of the base requests: {'' if first is None else _failure_text(first.response)}"
    )


def _candidates(model: str) -> Iterator[tuple[str, Fields]]:
    for extra, text, budget in product(_EXTRAS, _TEXTS, _BUDGETS):
        user = {"role": "user", "content": text}
        system: list[Any] = [{"role": "system", "content": text}, user]
        for messages in ([user], system):
            yield text, {"model": model, "messages": messages, **budget, **extra}


def _failure_text(response: EndpointResponse) -> str:
    if response.failure is not None:
        return response.failure
    text = " ".join(response.body.decode(errors="replace").split())
    return printable(f"the simplest got status {response.status}: {text[:_MOST_SHOWN]}")
