"""The whole body of an engine's response."""

from functools import cached_property
from typing import Final

from router.content_encoding import IDENTITY_CODINGS, DecodingError, TruncatedError, decode
from router.runtime import cpu_executor

MAX_BUFFERED_BYTES: Final = 8 * 1024 * 1024
"""Longest response in bytes that is buffered; a longer one is streamed, and aborted if it is truncated."""


class BufferedBody:
    """The whole body of a response, as it was sent, and decoded on demand."""

    def __init__(self, sent: bytes, codings: str) -> None:
        self.sent = sent
        self._codings = codings.strip().lower()
        self.is_coded = bool(sent) and self._codings not in IDENTITY_CODINGS
        self.is_cut = False
        """Whether it is truncated; known once `plain` was read."""

    @cached_property
    def plain(self) -> bytes | None:
        """The decoded body; None if its codings are unknown or broken, or it is too long."""
        if not self.is_coded:
            return self.sent
        try:
            return cpu_executor.run(MAX_BUFFERED_BYTES, decode, self.sent, self._codings, MAX_BUFFERED_BYTES)
        except TruncatedError:
            self.is_cut = True
        except DecodingError:
            pass
        return None
