"""Answers that belong to another request, as far as their ids tell.

vLLM makes the id of an answer out of the `X-Request-Id` that it is sent: `chatcmpl-<request id>`, and with another
prefix on other routes (`_base_request_id` in vllm/entrypoints/openai). Engines that make ids of their own tell nothing.
"""

import re
from collections import deque
from typing import Final

MAX_IDS: Final = 1024
"""How many ids that an engine was sent are remembered: an answer that is too late belongs to a recent request."""
MAX_ENGINES: Final = 1000
PREFIX_BYTES: Final = 256
"""How much of an answer is looked at. The id has to be its first member: behind it may stand the model's words."""

_ID = re.compile(rb'\s*+(?:data:\s*+)?\{\s*+"id"\s*+:\s*+"[a-z]{1,16}-([A-Za-z0-9._:/+=-]{1,128})"')
_GENERATED_ID = re.compile("[0-9a-f]{24}")


class SentRequestIds:
    """The request ids that each engine was sent lately, and which engines derive ids from them.

    An engine is taken for one that does once it answered with an id that the router had made by chance. Else a client
    could have the answers of others rejected, by the choice of an id that an engine gives to all its answers.
    """

    def __init__(self) -> None:
        self._sent: dict[str, deque[str]] = {}
        self._deriving_engines: set[str] = set()

    def add(self, engine: str, request_id: str) -> None:
        """Remember that an engine is sent a request with this id."""
        sent = self._sent.get(engine)
        if sent is None:
            if len(self._sent) >= MAX_ENGINES:
                self._sent.clear()
                self._deriving_engines.clear()
            sent = self._sent.setdefault(engine, deque(maxlen=MAX_IDS))
        sent.append(request_id)

    def is_foreign(self, engine: str, request_id: str, beginning: bytes) -> bool:
        """Tell whether an answer to a request, by its first bytes, carries the id of another one."""
        is_deriving = engine in self._deriving_engines
        if is_deriving and f'-{request_id}"'.encode() in beginning[:PREFIX_BYTES]:
            return False
        found = _ID.match(beginning, 0, PREFIX_BYTES)
        if found is None:
            return False
        answered = found[1].decode()
        if answered == request_id:
            if _GENERATED_ID.fullmatch(request_id):
                self._deriving_engines.add(engine)
            return False
        return is_deriving and answered in tuple(self._sent.get(engine, ()))
