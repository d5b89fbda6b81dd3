"""The response rewrite plan: the edits of an engine's response by status, and of a stream by protocol."""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from router.contract.errors import NO_ERROR_TEXT
from router.contract.protocols import Protocol
from router.contract.responses.rewrite import rename_model, retype_bad_request
from router.contract.responses.sse import SseEventBuffer
from router.contract.responses.stream_rewrite import StreamRewriter
from router.contract.responses.stream_usage import Usage
from router.contract.schema.sections import Errors


class ResponseRewrite(NamedTuple):
    """The edits of a response: the model name of a 200 (None: unchanged) and the error texts of a 400.

    `usage` says how the usage in the tail frame of a stream is rewritten, see `StreamRewriter`.
    """

    model: str | None = None
    errors: Errors = NO_ERROR_TEXT
    usage: Usage | None = None

    def is_needed(self) -> bool:
        """Return whether a response may need an edit."""
        return self.model is not None or self.usage is not None or self._rewrites_400s()

    def body_edit(self, status: int) -> Callable[[bytes], bytes] | None:
        """Return the function that edits the body of a response with this status, None if there is no edit."""
        if status == HTTPStatus.OK and self.model is not None:
            return partial(rename_model, name=self.model)
        if status == HTTPStatus.BAD_REQUEST and self.errors.bad_request_type is not None:
            return partial(retype_bad_request, new_type=self.errors.bad_request_type)
        return None

    def _rewrites_400s(self) -> bool:
        return self.errors.bad_request_type is not None or self.errors.engine_400 is not None

    def stream_rewriter(self, protocol: Protocol) -> SseEventBuffer | StreamRewriter:
        """Return the rewriter of a stream of a protocol."""
        if self.model is None and self.usage is None:
            return SseEventBuffer()
        return StreamRewriter(self.model, self.usage, protocol.model_holder)
