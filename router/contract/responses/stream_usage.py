"""Where a streamed answer reports its usage: what is asked of the engine, and what of it the client gets."""

from typing import Any, Final, Literal

from router.contract.rules.evaluation import EvaluationContext
from router.contract.schema.sections import Stream

RULE: Final = "response.stream.usage"
_PATH: Final = ("stream_options", "include_usage")

Usage = Literal["move", "copy"]
"""What becomes of the frame that reports the usage: its usage moves into the end frame, or is copied there."""


def ask(context: EvaluationContext, stream: Stream, *, streamed: bool) -> Usage | None:
    """Ask the engine for usage where the contract wants it; return what is to be done with it in the answer.

    What the client says itself stands: true gets the frame too, false goes as it was sent.
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
