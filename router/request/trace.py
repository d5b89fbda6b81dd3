"""The trace of a request: ids by W3C Trace Context, and the attempts at engines.

It does not need OpenTelemetry; router/telemetry/spans.py creates the spans when the request has ended.
"""

import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from router.request.outcome import Outcome

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED: Final = 1


class ParentSpan(NamedTuple):
    """The client's span, which is the parent of the request's."""

    trace_id: int
    span_id: int
    is_sampled: bool


@dataclass(slots=True)
class Attempt:
    """One attempt at an engine. Times are of `time.monotonic()`, in seconds."""

    span_id: int
    engine: str
    started_at: float
    ended_at: float | None = None
    status: int | None = None
    error: str | None = None


@dataclass(slots=True)
class Trace:
    """The trace of one request."""

    trace_id: int
    span_id: int
    parent: ParentSpan | None
    is_sampled: bool
    attempts: list[Attempt] = field(default_factory=list)

    def begin_attempt(self, engine: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Start an attempt at an engine and return its request headers with the trace in them."""
        now = time.monotonic()
        self._end(now)
        attempt = Attempt(new_span_id(), engine, now)
        self.attempts.append(attempt)
        own = {**headers, "Traceparent": traceparent(self.trace_id, attempt.span_id, is_sampled=self.is_sampled)}
        if self.parent is None:
            own.pop("Tracestate", None)
        return own

    def end_attempt(self, outcome: Outcome) -> None:
        """Record the outcome of the current attempt."""
        if outcome is not Outcome.SUCCEEDED and self.attempts[-1].error is None:
            self.attempts[-1].error = outcome.value.replace(" ", "_")
        self._end(time.monotonic())

    def _end(self, now: float) -> None:
        if self.attempts and self.attempts[-1].ended_at is None:
            self.attempts[-1].ended_at = now


def parent_of(traceparent: str | None) -> ParentSpan | None:
    """Return the span in the client's Traceparent, None if it is missing or malformed."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return ParentSpan(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED))


def traceparent(trace_id: int, span_id: int, *, is_sampled: bool) -> str:
    """Return the Traceparent header of a span."""
    return f"00-{trace_id:032x}-{span_id:016x}-{_SAMPLED if is_sampled else 0:02x}"


def new_trace_id() -> int:
    """Return the id of a new trace."""
    # Python seeds `random` in each process after a fork.
    return random.getrandbits(128) or 1


def new_span_id() -> int:
    """Return the id of a new span."""
    return random.getrandbits(64) or 1
