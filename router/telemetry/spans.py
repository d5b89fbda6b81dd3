"""OpenTelemetry spans of finished requests: one for the router, and one for each attempt at an engine.

The exporter is opened in each worker, after the fork. OpenTelemetry's own variables, OTEL_EXPORTER_OTLP_ENDPOINT first,
say where spans go to. Attributes follow its conventions for HTTP and generative AI.
"""

import importlib
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from router.request import routes
from router.request.context import RequestContext
from router.request.request import Request
from router.request.trace import Attempt, Trace, new_span_id, new_trace_id, parent_of
from router.runtime.pid import cached_pid
from router.settings.declarations import OPENTELEMETRY
from router.telemetry.recorder import ExporterQueue

SERVICE: Final = "profilec-router"
MAX_TEXT_LENGTH: Final = 200
FLUSH_SECONDS: Final = 2.0

_OPERATIONS: Final = {
    routes.CHAT: "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
_NANOSECONDS: Final = 1_000_000_000
_TRACED: Final = frozenset(routes.INFERENCE)

Attributes = dict[str, Any]
_OpenTelemetry = Any
"""What is OpenTelemetry's own: it may not be installed."""


class Tracer(ExporterQueue["_Spans"]):
    """Begins traces, and makes spans of requests that are over."""

    def __init__(self) -> None:
        super().__init__(_Spans)

    def begin(self, context: RequestContext, request: Request) -> None:
        """Let an inference request have a trace: its client's, else a new one; none where OpenTelemetry fails."""
        if context.route not in _TRACED or self.has_failed():
            return
        parent = parent_of(request.header("traceparent"))
        trace_id = parent.trace_id if parent else new_trace_id()
        trace = Trace(trace_id, new_span_id(), parent, is_sampled=False)
        with suppress(Exception):  # its start says so itself, once; no trace is worth a request
            trace.is_sampled = self.start().samples(trace, f"{context.method} {context.route}")
            context.trace = trace

    def note(self, context: RequestContext) -> None:
        """Have spans made of a request that is over, where it has a trace that is sampled."""
        if context.trace is not None and context.trace.is_sampled:
            super().note(context)

    def export(self) -> None:
        """Send what there is, without waiting long: the process ends."""
        self.flush()
        if self._process == cached_pid():
            self._exporter.export()


class _Spans:
    """OpenTelemetry as one process has it."""

    def __init__(self) -> None:
        sdk, exporter = (importlib.import_module(name) for name in OPENTELEMETRY)
        resources = importlib.import_module("opentelemetry.sdk.resources")
        self._api: Any = importlib.import_module("opentelemetry.trace")
        self._span: Any = sdk.ReadableSpan
        self._scope = importlib.import_module("opentelemetry.sdk.util.instrumentation").InstrumentationScope("router")
        named = resources.Resource.create()
        if named.attributes.get("service.name", "").startswith("unknown_service"):
            named = named.merge(resources.Resource({"service.name": SERVICE}))
        self._resource = named.merge(resources.Resource({"process.pid": cached_pid()}))
        self._sampler: Any = sdk.TracerProvider(shutdown_on_exit=False).sampler
        self._processor: Any = importlib.import_module("opentelemetry.sdk.trace.export").BatchSpanProcessor(
            exporter.OTLPSpanExporter()
        )

    def samples(self, trace: Trace, name: str) -> bool:
        """Return whether the sampler of OTEL_TRACES_SAMPLER samples a trace."""
        context = None
        if trace.parent is not None:
            parent = self._context(trace.parent.trace_id, trace.parent.span_id, is_sampled=trace.parent.is_sampled)
            context = self._api.set_span_in_context(self._api.NonRecordingSpan(parent))
        result = self._sampler.should_sample(context, trace.trace_id, name, self._api.SpanKind.SERVER)
        return bool(result.decision.is_sampled())

    def add(self, contexts: Iterator[RequestContext]) -> None:
        """Make the spans of requests and leave them to OpenTelemetry's own thread, which sends them."""
        # The clocks of spans and of requests may drift apart over the years, but not while a request waits here.
        self._epoch = time.time_ns() - time.monotonic_ns()
        for context in contexts:
            if context.trace is not None:
                self._add(context, context.trace)

    def export(self) -> None:
        """Send what waits, as far as that goes in a moment."""
        # OpenTelemetry takes a time for it, and then all the time that its exporter needs to give up.
        flush = threading.Thread(target=self._processor.force_flush, daemon=True)
        flush.start()
        flush.join(FLUSH_SECONDS)

    def _add(self, context: RequestContext, trace: Trace) -> None:
        own = self._context(trace.trace_id, trace.span_id)
        parent = self._context(trace.trace_id, trace.parent.span_id, is_remote=True) if trace.parent else None
        kinds = self._api.SpanKind
        name = f"{context.method} {context.route}"
        for number, attempt in enumerate(trace.attempts):
            self._end(
                f"POST {context.route}",
                self._context(trace.trace_id, attempt.span_id),
                own,
                kinds.CLIENT,
                attributes_of_attempt(context, attempt, number),
                (attempt.started_at, context.ended_at if attempt.ended_at is None else attempt.ended_at),
            )
        times = (context.started_at, context.ended_at)
        self._end(name, own, parent, kinds.SERVER, attributes_of(context), times)

    def _end(  # noqa: PLR0913, PLR0917 - a span has many sides
        self,
        name: str,
        context: _OpenTelemetry,
        parent: _OpenTelemetry,
        kind: _OpenTelemetry,
        attributes: Attributes,
        times: tuple[float, float],
    ) -> None:
        codes = self._api.StatusCode
        status = self._api.Status(codes.ERROR if "error.type" in attributes else codes.UNSET)
        begun, ended = (self._epoch + int(seconds * _NANOSECONDS) for seconds in times)
        span = self._span(
            name,
            context,
            parent,
            self._resource,
            attributes,
            kind=kind,
            status=status,
            start_time=begun,
            end_time=ended,
            instrumentation_scope=self._scope,
        )
        self._processor.on_end(span)

    def _context(
        self, trace_id: int, span_id: int, *, is_sampled: bool = True, is_remote: bool = False
    ) -> _OpenTelemetry:
        flags = self._api.TraceFlags(int(is_sampled))
        return self._api.SpanContext(trace_id, span_id, is_remote=is_remote, trace_flags=flags)


def attributes_of(context: RequestContext) -> Attributes:
    """Return the attributes of the router's own span."""
    status = context.status
    error = context.code if status >= HTTPStatus.INTERNAL_SERVER_ERROR or context.stream_end == "broken" else None
    if error is None and status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        error = str(status)
    return _without_none(
        {
            "http.request.method": context.method,
            "http.route": context.route,
            "http.response.status_code": status,
            "http.request.body.size": context.bytes_in,
            "http.response.body.size": context.bytes_out,
            **_model_attributes(context),
            "router.request_id": context.request_id,
            "router.code": context.code,
            "router.rule": context.rule,
            "router.client_gone": context.client_gone or None,
            "error.type": error,
        }
    )


def attributes_of_attempt(context: RequestContext, attempt: Attempt, number: int) -> Attributes:
    """Return the attributes of the span of an attempt at an engine, which has a number, counted from 0."""
    address = urlsplit(attempt.engine)
    failed = attempt.status is not None and attempt.status >= HTTPStatus.BAD_REQUEST
    return _without_none(
        {
            "http.request.method": "POST",
            "url.full": attempt.engine + context.route,
            "server.address": address.hostname,
            "server.port": address.port,
            "http.request.resend_count": number or None,
            "http.response.status_code": attempt.status,
            **_model_attributes(context),
            "gen_ai.response.model": context.model_served if attempt.status == HTTPStatus.OK else None,
            "error.type": attempt.error or (str(attempt.status) if failed else None),
        }
    )


def _model_attributes(context: RequestContext) -> Attributes:
    asked = context.model_asked
    return {
        "gen_ai.operation.name": _OPERATIONS.get(context.route),
        "gen_ai.request.model": None if asked is None else asked[:MAX_TEXT_LENGTH],
        "gen_ai.request.stream": context.stream or None,
        "gen_ai.request.max_tokens": None if context.tokens is None else context.tokens.granted,
    }


def _without_none(attributes: Attributes) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}
