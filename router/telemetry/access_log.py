"""The access log: one line on stdout for each request that is over, written by a thread of its own.

Serving never waits for it: what the writer cannot get rid of in time is dropped, and a later line says how many were.
Of what clients send, a line holds the model's name and the request's id, bounded and escaped; never a prompt or a key.
"""

import atexit
import errno
import json
import logging
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import orjson

from router.request import routes
from router.request.context import RequestContext
from router.runtime.pid import cached_pid
from router.settings import Settings

STDOUT: Final = 1
MAX_QUEUED: Final = 10_000
"""How many lines may wait for the writer; a line has some 300 bytes, and at most WRITE_BYTES."""
WRITE_BYTES: Final = 4096
"""Most bytes of one write: Linux never mixes up writes of several workers to a pipe up to this (PIPE_BUF, pipe(7))."""
MAX_TEXT_LENGTH: Final = 200
FLUSH_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.02
"""How long the writer lets lines gather under load, which costs less than waking it for each."""

_MAX_BATCH: Final = 1000
_LINE_END: Final = b"\n"
_UNLOGGED: Final = frozenset({*routes.HEALTH_ROUTES, routes.METRICS})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
_IS_GONE: Final = (errno.EPIPE, errno.EBADF, errno.EIO)
_LOG = logging.getLogger("router")

Fields = dict[str, Any]
"""What a line says, by name, in the order in which it says it."""


class _LogRecord(NamedTuple):
    """A request that is over, and when that was, on both clocks."""

    context: RequestContext
    clock: float
    monotonic: float


class AccessLog:
    """Lines on their way to a file descriptor. The thread that writes them is started by each process's first line."""

    def __init__(
        self, render: Callable[[Fields], bytes], descriptor: int = STDOUT, max_queued: int = MAX_QUEUED
    ) -> None:
        self._render = render
        self._descriptor = descriptor
        self._max_queued = max_queued
        self._queue: queue.SimpleQueue[_LogRecord | threading.Event] = queue.SimpleQueue()
        self._process = 0
        self._lock = threading.Lock()
        self._dropped = 0
        self._unwritten = b""
        """What has still to be written; the writer's alone."""
        self._is_within_line = False
        self._is_broken = False

    def note(self, context: RequestContext) -> None:
        """Have a line written about a request that is over; probes and scrapes that went well are left out."""
        if context.route in _UNLOGGED and context.status == HTTPStatus.OK:
            return
        if self._is_broken or not self._is_running():
            return
        if self._queue.qsize() >= self._max_queued:
            self._drop(1)
            return
        if context.model_asked is not None:
            # Names may be as long as a body, and many may wait.
            context.model_asked = context.model_asked[:MAX_TEXT_LENGTH]
        self._queue.put(_LogRecord(context, time.time(), time.monotonic()))

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until the lines so far are written, but no longer than that."""
        if self._process == cached_pid():
            written = threading.Event()
            self._queue.put(written)
            written.wait(seconds)

    def _is_running(self) -> bool:
        """Start the writer unless it runs; threads do not survive a fork. Without a thread to be had there is none."""
        if self._process == cached_pid():
            return True
        with self._lock:
            if self._process != cached_pid():
                try:
                    threading.Thread(target=self._write_loop, name="access-log", daemon=True).start()
                except RuntimeError:
                    self._dropped += 1
                    return False
                atexit.register(self.flush)
                self._process = cached_pid()
        return True

    def _drop(self, count: int) -> None:
        with self._lock:
            self._dropped += count

    def _write_loop(self) -> None:
        while True:
            batch = list(self._next_batch())
            try:
                self._write(batch)
            except Exception:  # noqa: BLE001 - the writer is the only one, and no line is worth its end
                _LOG.exception("lines of the access log are lost")
            for entry in batch:
                if isinstance(entry, threading.Event):
                    entry.set()
            time.sleep(PAUSE_SECONDS)

    def _next_batch(self) -> Iterator[_LogRecord | threading.Event]:
        """Yield what waits, at least one, but no more than _MOST_AT_ONCE."""
        yield self._queue.get()
        for _ in range(_MAX_BATCH - 1):
            try:
                yield self._queue.get_nowait()
            except queue.Empty:
                return

    def _write(self, batch: list[_LogRecord | threading.Event]) -> None:
        lines = [self._render(fields_of(*entry)) for entry in batch if isinstance(entry, _LogRecord)]
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(self._render({"time": _rfc3339(time.time()), "dropped_lines": dropped}))
        if self._is_broken:
            return
        pieces = list(_batched(lines))
        for number, piece in enumerate(pieces):
            try:
                self._write_all(piece)
            except OSError as error:
                lost = self._drop_unstarted() + sum(other.count(_LINE_END) for other in pieces[number + 1 :])
                # The line that tells of those that were dropped before is the last.
                self._fail(error, lost + dropped - 1 if dropped and lost else lost)
                return

    def _write_all(self, lines: bytes) -> None:
        self._unwritten += lines
        while self._unwritten:
            try:
                written = os.write(self._descriptor, self._unwritten)
            except BlockingIOError:
                # Whoever shares a terminal or a pipe may have made it non-blocking.
                select.select([], [self._descriptor], [])
                continue
            self._is_within_line = not self._unwritten.endswith(_LINE_END, 0, written)
            self._unwritten = self._unwritten[written:]

    def _drop_unstarted(self) -> int:
        """Keep only the rest of a line that is written in part, as on a disk that gets full; tell how many are lost."""
        begun = self._unwritten.find(_LINE_END) + 1 if self._is_within_line else 0
        lost = self._unwritten.count(_LINE_END, begun)
        self._unwritten = self._unwritten[:begun]
        return lost

    def _fail(self, error: OSError, lines: int) -> None:
        self._drop(lines)
        if error.errno in _IS_GONE:
            self._is_broken = True
            _LOG.error("the access log ends, stdout cannot be written to: %s", error.strerror)


def open_access_log(settings: Settings) -> AccessLog | None:
    """Return the access log that the settings ask for, None for none."""
    # Without a stdout at start, the system gives its number to another file.
    if settings.access_log == "off" or sys.__stdout__ is None:
        return None
    form = settings.access_log
    if form == "auto":
        form = "text" if os.isatty(STDOUT) else "json"
    return AccessLog(as_text if form == "text" else as_json)


def fields_of(context: RequestContext, clock: float, monotonic: float) -> Fields:
    """Return what the line of a request says that was over at these times; what there is nothing to say of is None."""
    sent, first_byte = context.sent_at, context.first_byte_at
    return {
        "time": _rfc3339(clock),
        "request_id": context.request_id,
        "method": context.method if context.method in _METHODS else "other",
        "route": context.route or None,
        "key": context.key_name,
        "model_asked": context.model_asked,
        "model_served": context.model_served,
        "stream": context.stream or None,
        "engine": context.engine,
        "attempts": context.attempts if context.attempts > 1 else None,
        "status": context.status,
        "code": context.code,
        "rule": context.rule,
        "case": context.case,
        "client_gone": context.client_gone or None,
        "bytes_in": context.bytes_in,
        "bytes_out": context.bytes_out,
        "to_engine_ms": None if sent is None else _milliseconds(sent - context.started_at),
        "first_byte_ms": None if sent is None or first_byte is None else _milliseconds(first_byte - sent),
        "total_ms": _milliseconds(monotonic - context.started_at),
    }


def as_json(fields: Fields) -> bytes:
    """Return a line of JSON with those fields that are not None."""
    present = {
        name: value[:MAX_TEXT_LENGTH] if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }
    if "".join([value for value in present.values() if isinstance(value, str)]).isprintable():
        return orjson.dumps(present, option=orjson.OPT_APPEND_NEWLINE)
    # Among what is not printable are line breaks of Unicode's, orders to terminals and halves of surrogate pairs.
    whole = {name: _without_surrogates(value) for name, value in present.items()}
    return f"{json.dumps(whole, separators=(',', ':'))}\n".encode()


def as_text(fields: Fields) -> bytes:
    """Return a line for people, in columns, with nothing in it that a terminal takes orders from."""
    rest = {name: _bounded(value) for name, value in fields.items() if value is not None}
    columns = [str(rest.pop("time"))]
    if "status" in rest:
        status, method, route = rest.pop("status"), rest.pop("method"), rest.pop("route", "-")
        columns.append(f"{status} {method:<6} {route:<25} {rest.pop('total_ms'):>9.1f} ms")
    columns += [f"{name}={_quoted(value)}" for name, value in rest.items()]
    return f"{' '.join(columns)}\n".encode()


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return "yes"
    text = str(value)
    # Of what is not printable, terminals take orders; quotes and spaces would pretend to be another field.
    return text if text.isprintable() and not set(text) & set(" \"'=") else json.dumps(text)


def _batched(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield whole lines together, as many as one write may hold."""
    together: list[bytes] = []
    length = 0
    for line in lines:
        if length + len(line) > WRITE_BYTES and together:
            yield b"".join(together)
            together, length = [], 0
        together.append(line)
        length += len(line)
    if together:
        yield b"".join(together)


def _bounded(value: object) -> object:
    return value[:MAX_TEXT_LENGTH] if isinstance(value, str) else value


def _without_surrogates(value: object) -> object:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _rfc3339(clock: float) -> str:
    second, milliseconds = divmod(int(clock * 1000), 1000)
    return f"{_format_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=8)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")
