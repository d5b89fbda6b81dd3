"""The stand-in engine: a small OpenAI-compatible server that answers, streams and shows what it received.

In process, for tests and the demo:

    with StandIn(models=("served",)) as engine:
        engine.answer_next(Answer.json({"error": {"message": "no"}}, status=400))
        ...  # send something to engine.url
        [received] = engine.wait_for(1)

Out of process: `python -m router.mock_engine --model NAME` prints its URL when it is ready.
"""

from router.mock_engine.answer import EVENT_STREAM, Answer, Piece, Raw, Reply
from router.mock_engine.request import Received
from router.mock_engine.server import StandIn

__all__ = ["EVENT_STREAM", "Answer", "Piece", "Raw", "Received", "Reply", "StandIn"]
