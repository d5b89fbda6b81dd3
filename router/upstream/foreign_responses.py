"""Responses that belong to another request, detected by their ids.

vLLM derives the id of a response from the `X-Request-Id` of the request: `chatcmpl-<request id>`, and with another
prefix on other routes (`_base_request_id` in vllm/entrypoints/openai). With
engines that make ids of their own nothing can be detected.
"""

import re
from collections import deque
from typing import Final

MAX_IDS: Final = 1024
"""How many ids are kept for each engine: a late response belongs to a recent request."""
MAX_ENGINES: Final = 1000
PREFIX_BYTES: Final = 256
"""How much of a response is examined. The id has to be its first member: model output may follow."""

_ID = re.compile(rb'\s*+(?:data:\s*+)?\{\s*+"id"\s*+:\s*+"[a-z]{1,16}-([A-Za-z0-9._:/+=-]{1,128})"')
_GENERATED_ID = re.compile("[0-9a-f]{24}")


class SentRequestIds:
    """The request ids that were sent to each engine lately, and which engines derive ids from them.

    An engine counts as deriving once it has returned an id that the router generated at random. Otherwise a client
    could have responses to others rejected: it would choose an id that an engine gives to all its responses.
    """

    def __init__(self) -> None:
        self._sent: dict[str, deque[str]] = {}
        self._deriving_engines: set[str] = set()

    def add(self, engine: str, request_id: str) -> None:
        """Record that a request with this id is sent to an engine."""
        sent = self._sent.get(engine)
        if sent is None:
            if len(self._sent) >= MAX_ENGINES:
                self._sent.clear()
                self._deriving_engines.clear()
            sent = self._sent.setdefault(engine, deque(maxlen=MAX_IDS))
        sent.append(request_id)

    def is_foreign(self, engine: str, request_id: str, beginning: bytes) -> bool:
        """Return whether the first bytes of a response carry the id of another request."""
        is_deriving = engine in self._deriving_engines
        if is_deriving and f'-{request_id}"'.encode() in beginning[:PREFIX_BYTES]:
            return False
        found = _ID.match(beginning, 0, PREFIX_BYTES)
        if found is None:
            return False
        response_id = found[1].decode()
        if response_id == request_id:
            if _GENERATED_ID.fullmatch(request_id):
                self._deriving_engines.add(engine)
            return False
        return is_deriving and response_id in tuple(self._sent.get(engine, ()))
