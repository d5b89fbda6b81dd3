"""The usage of streamed responses: requested from the engine, and reported to the client as the contract says."""

from typing import Any, Final, Literal

from router.contract.rules.evaluation import EvaluationContext
from router.contract.schema.sections import Stream

RULE: Final = "response.stream.usage"
_PATH: Final = ("stream_options", "include_usage")

Usage = Literal["move", "copy"]
"""Whether the usage of the tail frame is moved or copied into the end frame."""


def ask(context: EvaluationContext, stream: Stream, *, streamed: bool) -> Usage | None:
    """Request usage from the engine where the contract needs it. Return how the response is rewritten.

    The client's own `include_usage` is respected: with true it gets the tail frame too, false is forwarded unchanged.
    """
    if not streamed or stream.usage == "as_asked":
        return None
    asked: Any = context.value_at(_PATH)
    if asked is None:
        context.put(RULE, _PATH, True, b"true")
    elif asked is not True:
        return None
    if stream.usage == "tail_frame":
        return None
    return "move" if asked is None else "copy"
