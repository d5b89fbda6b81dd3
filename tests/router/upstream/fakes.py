"""What stands in for sockets in tests of the parts that work above them."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from router.request.outcome import Outcome
from router.upstream.connection import ReceiveError
from router.upstream.poller import Poller
from router.upstream.response import Timeouts, UpstreamResponse

TIMES = Timeouts(connect=5, first_byte=5, idle=5, total=5)


class FakeConnection:
    """A connection that brings the given pieces, then its end; an exception among them is raised.

    `plain`: it can be read like a plain socket, after a wait with `poll`, which then takes the place of the system's.
    """

    fd = 1_000_000

    def __init__(self, chunks: Iterable[bytes | Exception], *, plain: bool = False) -> None:
        self.chunks = list(chunks)
        self.is_closed = False
        self.is_stale = False
        self.is_reused = False
        self._plain = plain

    def poll(self, masks: Mapping[int, int], _deadline: float) -> list[tuple[int, int]]:
        """Return that a piece has arrived, and nothing where the next one is a silence."""
        assert self.fd in masks
        if self.chunks and isinstance(self.chunks[0], TimeoutError):
            del self.chunks[0]
            return []
        return [(self.fd, masks[self.fd])]

    def receive(self, poller: Poller, seconds: float) -> bytes:
        chunk = self.chunks.pop(0) if self.chunks else b""
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    def is_plain(self) -> bool:
        return self._plain

    def receive_available(self) -> bytes:
        try:
            return self.receive(Poller(), 0)
        except OSError as error:
            raise ReceiveError from error

    def was_stale(self) -> bool:
        return self.is_stale

    def close(self) -> None:
        self.is_closed = True


def make_response(
    *chunks: bytes | Exception, **options: Any
) -> tuple[UpstreamResponse, list[Outcome], list[FakeConnection]]:
    """Return an answer that comes in pieces, what it tells of its engine, and the connections it gives back.

    `on_close` is what it calls when it is done.
    """
    connection: Any = FakeConnection(chunks, plain=options.get("is_plain", False))
    connection.is_stale = options.get("is_stale", False)
    told: list[Outcome] = []
    kept: list[Any] = []
    poller = Poller(None, options.get("deadline", time.monotonic() + 60))
    response = UpstreamResponse(
        connection, poller, TIMES, kept.append, is_request_sent=options.get("is_sent_whole", True)
    )
    response.on_outcome = told.append
    response.on_close = options.get("on_close")
    return response, told, kept
