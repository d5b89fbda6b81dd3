"""The access log: one line on stdout for each request, written by a background thread.

Requests never wait for it: if the queue is full, lines are dropped, and a later line says how many.
Of the client's input a line contains only the model name and request id, bounded and escaped; never a prompt or a key.
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
from typing import Final, NamedTuple

import orjson

from router.request import routes
from router.request.context import RequestContext
from router.runtime.pid import cached_pid
from router.settings.declarations import Settings

STDOUT: Final = 1
MAX_QUEUED: Final = 10_000
"""Maximum of queued lines; a line has about 300 bytes, and at most WRITE_BYTES."""
WRITE_BYTES: Final = 4096
"""Maximum bytes of one write: Linux does not interleave such writes to a pipe (PIPE_BUF, pipe(7))."""
MAX_TEXT_LENGTH: Final = 200
FLUSH_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.02
"""How long the writer collects lines under load; that is cheaper than a wake-up for each."""

_MAX_BATCH: Final = 1000
_LINE_END: Final = b"\n"
_STREAM: Final = ',"stream":true'
_DEFAULT_MODEL: Final = ',"model_default":true'
_CLIENT_GONE: Final = ',"client_gone":true'
_UNLOGGED: Final = frozenset({*routes.HEALTH_ROUTES, routes.METRICS})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
_IS_GONE: Final = (errno.EPIPE, errno.EBADF, errno.EIO)
_LOG = logging.getLogger("router")


class LineFormat(NamedTuple):
    """How lines are rendered: of a finished request with its end on both clocks, and of a count of dropped lines."""

    request: Callable[[RequestContext, float, float], bytes]
    dropped: Callable[[int, float], bytes]


class AccessLog:
    """Writes lines to a file descriptor. Each process starts its writer thread with its first line.

    A line is rendered by the request itself, which takes a few microseconds; the thread only writes.
    """

    def __init__(self, form: LineFormat, descriptor: int = STDOUT, max_queued: int = MAX_QUEUED) -> None:
        self._form = form
        self._descriptor = descriptor
        self._max_queued = max_queued
        self._queue: queue.SimpleQueue[bytes | threading.Event] = queue.SimpleQueue()
        self._process = 0
        self._lock = threading.Lock()
        self._dropped = 0
        self._unwritten = b""
        """Bytes not yet written; only the writer thread uses it."""
        self._is_within_line = False
        self._is_broken = False

    def note(self, context: RequestContext) -> None:
        """Queue the line of a finished request; successful health checks and scrapes are not logged."""
        if context.route in _UNLOGGED and context.status == HTTPStatus.OK:
            return
        if self._is_broken or not self._is_running():
            return
        if self._queue.qsize() >= self._max_queued:
            self._drop(1)
            return
        self._queue.put(self._form.request(context, time.time(), time.monotonic()))

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until the queued lines are written, at most `seconds`."""
        if self._process == cached_pid():
            written = threading.Event()
            self._queue.put(written)
            written.wait(seconds)

    def _is_running(self) -> bool:
        """Start the writer unless it runs, and return whether it runs; threads do not survive a fork."""
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
            except Exception:  # noqa: BLE001 - the only writer must not end for a line
                _LOG.exception("access log lines were lost")
            for entry in batch:
                if isinstance(entry, threading.Event):
                    entry.set()
            time.sleep(PAUSE_SECONDS)

    def _next_batch(self) -> Iterator[bytes | threading.Event]:
        """Yield what waits, at least one, but no more than _MOST_AT_ONCE."""
        yield self._queue.get()
        for _ in range(_MAX_BATCH - 1):
            try:
                yield self._queue.get_nowait()
            except queue.Empty:
                return

    def _write(self, batch: list[bytes | threading.Event]) -> None:
        lines = [entry for entry in batch if isinstance(entry, bytes)]
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(self._form.dropped(dropped, time.time()))
        if self._is_broken:
            return
        pieces = list(_batched(lines))
        for number, piece in enumerate(pieces):
            try:
                self._write_all(piece)
            except OSError as error:
                lost = self._drop_unstarted() + sum(other.count(_LINE_END) for other in pieces[number + 1 :])
                # The last line reports the lines that were dropped before.
                self._fail(error, lost + dropped - 1 if dropped and lost else lost)
                return

    def _write_all(self, lines: bytes) -> None:
        self._unwritten += lines
        while self._unwritten:
            try:
                written = os.write(self._descriptor, self._unwritten)
            except BlockingIOError:
                # Another process that shares the terminal or pipe may have made it non-blocking.
                select.select([], [self._descriptor], [])
                continue
            self._is_within_line = not self._unwritten.endswith(_LINE_END, 0, written)
            self._unwritten = self._unwritten[written:]

    def _drop_unstarted(self) -> int:
        """Keep only the rest of a partly written line, as on a full disk, and return how many lines are lost."""
        begun = self._unwritten.find(_LINE_END) + 1 if self._is_within_line else 0
        lost = self._unwritten.count(_LINE_END, begun)
        self._unwritten = self._unwritten[:begun]
        return lost

    def _fail(self, error: OSError, lines: int) -> None:
        self._drop(lines)
        if error.errno in _IS_GONE:
            self._is_broken = True
            _LOG.error("the access log is closed: stdout cannot be written: %s", error.strerror)


def open_access_log(settings: Settings) -> AccessLog | None:
    """Return the access log by the settings, None for `off`."""
    # If stdout was closed at start, another file may have its descriptor number.
    if settings.access_log == "off" or sys.__stdout__ is None:
        return None
    form = settings.access_log
    if form == "auto":
        form = "text" if os.isatty(STDOUT) else "json"
    return AccessLog(TEXT if form == "text" else JSON)


def as_json(context: RequestContext, clock: float, monotonic: float) -> bytes:
    """Return the line of a request as JSON, without the fields that have no value."""
    started, sent, first_byte = context.started_at, context.sent_at, context.first_byte_at
    asked = context.model_asked
    return (
        f'{{"time":"{_rfc3339(clock)}","request_id":"{context.request_id}"'  # its characters were checked
        f"{_subject(context.method, context.route, context.key_name, asked and asked[:MAX_TEXT_LENGTH])}"
        f"{_DEFAULT_MODEL if context.is_default_model else ''}"
        f"{_served(context.model_served, context.stream, context.engine)}"
        f'{_attempts(context.attempts) if context.attempts > 1 else ""},"status":{context.status}'
        f"{_reason(context.code, context.rule, context.case)}{_CLIENT_GONE if context.client_gone else ''}"
        f',"bytes_in":{context.bytes_in},"bytes_out":{context.bytes_out}'
        f"{'' if sent is None else _to_engine(sent - started, first_byte and first_byte - sent)}"
        f',"total_ms":{(monotonic - started) * 1000:.1f}}}\n'
    ).encode()


@lru_cache(maxsize=1024)
def _subject(method: str, route: str, key: str | None, model: str | None) -> str:
    """Return the fields of what was asked, which many requests share."""
    known = method if method in _METHODS else "other"
    return f',"method":"{known}"{_member("route", route or None)}{_member("key", key)}{_member("model_asked", model)}'


@lru_cache(maxsize=1024)
def _served(model: str | None, is_stream: bool, engine: str | None) -> str:
    """Return the fields of what served a request, which many requests share."""
    return f"{_member('model_served', model)}{_STREAM if is_stream else ''}{_member('engine', engine)}"


@lru_cache(maxsize=1024)
def _reason(code: str | None, rule: str | None, case: str | None) -> str:
    return f"{_member('code', code)}{_member('rule', rule)}{_member('case', case)}"


def _attempts(count: int) -> str:
    return f',"attempts":{count}'


def _to_engine(seconds: float, first_byte: float | None) -> str:
    rest = "" if first_byte is None else f',"first_byte_ms":{first_byte * 1000:.1f}'
    return f',"to_engine_ms":{seconds * 1000:.1f}{rest}'


def _member(name: str, value: str | None) -> str:
    if value is None:
        return ""
    text = value[:MAX_TEXT_LENGTH]
    # Not printable are, for example, Unicode line breaks, terminal escapes and lone surrogates.
    encoded = orjson.dumps(text).decode() if text.isprintable() else json.dumps(_without_surrogates(text))
    return f',"{name}":{encoded}'


def _dropped_as_json(count: int, clock: float) -> bytes:
    return f'{{"time":"{_rfc3339(clock)}","dropped_lines":{count}}}\n'.encode()


def as_text(context: RequestContext, clock: float, monotonic: float) -> bytes:
    """Return the line of a request in columns, without terminal escapes."""
    sent, first_byte, total = context.sent_at, context.first_byte_at, monotonic - context.started_at
    method = context.method if context.method in _METHODS else "other"
    rest = {
        "request_id": context.request_id,
        "key": context.key_name,
        "model_asked": context.model_asked,
        "model_default": context.is_default_model or None,
        "model_served": context.model_served,
        "stream": context.stream or None,
        "engine": context.engine,
        "attempts": context.attempts if context.attempts > 1 else None,
        "code": context.code,
        "rule": context.rule,
        "case": context.case,
        "client_gone": context.client_gone or None,
        "bytes_in": context.bytes_in,
        "bytes_out": context.bytes_out,
        "to_engine_ms": None if sent is None else _milliseconds(sent - context.started_at),
        "first_byte_ms": None if sent is None or first_byte is None else _milliseconds(first_byte - sent),
    }
    columns = (
        f"{_rfc3339(clock)} {context.status} {method:<6} {context.route or '-':<25} {_milliseconds(total):>9.1f} ms"
    )
    named = [f"{name}={_quoted(_bounded(value))}" for name, value in rest.items() if value is not None]
    return f"{' '.join([columns, *named])}\n".encode()


def _dropped_as_text(count: int, clock: float) -> bytes:
    return f"{_rfc3339(clock)} dropped_lines={count}\n".encode()


JSON: Final = LineFormat(as_json, _dropped_as_json)
TEXT: Final = LineFormat(as_text, _dropped_as_text)


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return "yes"
    text = str(value)
    # Unprintable characters may control a terminal; quotes and spaces could fake another field.
    return text if text.isprintable() and not set(text) & set(" \"'=") else json.dumps(text)


def _batched(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield batches of whole lines, each at most WRITE_BYTES."""
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


def _without_surrogates(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode()


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _rfc3339(clock: float) -> str:
    second, milliseconds = divmod(int(clock * 1000), 1000)
    return f"{_format_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=8)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")
