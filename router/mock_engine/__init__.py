"""The mock engine: a small OpenAI-compatible server that responds, streams and records its requests.

In process, for tests and the demo:

    with MockEngine(models=("served",)) as engine:
        engine.answer_next(MockResponse.json({"error": {"message": "no"}}, status=400))
        ...  # send something to engine.url
        [received] = engine.wait_for(1)

Out of process: `python -m router.mock_engine --model NAME` prints its URL when it is ready.
"""

from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import EVENT_STREAM, MockResponse, Piece, RawResponse, ScriptedResponse
from router.mock_engine.server import MockEngine

__all__ = ["EVENT_STREAM", "MockEngine", "MockResponse", "Piece", "RawResponse", "ReceivedRequest", "ScriptedResponse"]
