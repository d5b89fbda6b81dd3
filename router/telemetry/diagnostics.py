"""Non-blocking log handlers for stderr: if it is full, lines are dropped, and a later line says how many."""

import logging
import select
import sys
from contextlib import suppress
from os import write
from typing import Any, Final

from gunicorn.glogging import Logger

WRITE_BYTES: Final = 4096
"""Maximum bytes of one write: a pipe or socket that poll reports writable has room for them (PIPE_BUF, pipe(7))."""


class NonBlockingStderrHandler(logging.StreamHandler[Any]):
    """Writes lines to stderr without blocking; it has no thread, so it survives a fork."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it as dropped."""
        descriptor = _descriptor_of(self.stream)
        if descriptor is None:
            super().emit(record)
            return
        try:
            line = self.format(record)
            if self._dropped:
                line = f"{self.format(_of_dropped(self._dropped))}\n{line}"
            is_written = _write_all(descriptor, f"{line}\n".encode(errors="backslashreplace"))
        except Exception:  # noqa: BLE001 - as in each of logging's handlers
            self.handleError(record)
        else:
            self._dropped = 0 if is_written else self._dropped + 1


class NonBlockingLogger(Logger):  # type: ignore[misc] # gunicorn has no types
    """gunicorn's logger with a non-blocking handler for stderr."""

    def _set_handler(self, log: logging.Logger, output: str | None, fmt: logging.Formatter, stream: Any = None) -> None:  # noqa: ANN401 - gunicorn's
        super()._set_handler(log, output, fmt, stream)
        former = self._get_gunicorn_handler(log)
        if output == "-" and stream is None and former is not None:
            handler: Any = NonBlockingStderrHandler()
            handler.setFormatter(fmt)
            handler._gunicorn = True  # noqa: SLF001 - so gunicorn knows it as its own
            log.removeHandler(former)
            log.addHandler(handler)


def _descriptor_of(stream: Any) -> int | None:  # noqa: ANN401 - any replacement of stderr
    """Return the descriptor of a stream, None if it has none, as in a test."""
    with suppress(AttributeError, OSError, ValueError):
        return int(stream.fileno())
    return None


def _of_dropped(count: int) -> logging.LogRecord:
    text = "%d line(s) before this one were dropped: stderr was full"
    return logging.LogRecord("router", logging.WARNING, __file__, 0, text, (count,), None)


def _write_all(descriptor: int, data: bytes) -> bool:
    """Write data and return whether all of it was written."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    for start in range(0, len(data), WRITE_BYTES):
        piece = data[start : start + WRITE_BYTES]
        while piece:
            if not poll.poll(0):
                return False
            try:
                piece = piece[write(descriptor, piece) :]
            except OSError:  # closed by its reader, or made non-blocking
                return False
    return True
