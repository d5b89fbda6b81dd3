"""What stands in for sockets in tests of the parts that work above them."""

import time
from collections.abc import Iterable
from typing import Any

from router.request.outcome import Outcome
from router.upstream.poller import Watch
from router.upstream.response import Answer, Times

TIMES = Times(connect=5, first_byte=5, idle=5, total=5)


class FakeConnection:
    """A connection that brings the given pieces, then its end; an exception among them is raised."""

    def __init__(self, pieces: Iterable[bytes | Exception]) -> None:
        self.pieces = iter(pieces)
        self.is_closed = False
        self.is_unread = False
        self.is_reused = False

    def receive(self, watch: Watch, seconds: float) -> bytes:
        piece = next(self.pieces, b"")
        if isinstance(piece, Exception):
            raise piece
        return piece

    def was_unread(self) -> bool:
        return self.is_unread

    def close(self) -> None:
        self.is_closed = True


def answer_of(*pieces: bytes | Exception, **options: Any) -> tuple[Answer, list[Outcome], list[FakeConnection]]:
    """Return an answer that comes in pieces, what it tells of its engine, and the connections it gives back.

    `on_close` is what it calls when it is done.
    """
    connection: Any = FakeConnection(pieces)
    connection.is_unread = options.get("is_unread", False)
    told: list[Outcome] = []
    kept: list[Any] = []
    watch = Watch(None, options.get("deadline", time.monotonic() + 60))
    answer = Answer(connection, watch, TIMES, kept.append, is_sent_whole=options.get("is_sent_whole", True))
    answer.on_end = told.append
    answer.on_close = options.get("on_close")
    return answer, told, kept
