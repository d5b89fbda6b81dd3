"""Every metric, declared once, and what a finished request adds to each. Pure: telemetry/meter.py has the values.

No label contains the name of a client, an engine or a model: its values are a closed list, and the fields of the
artifact. Only the metrics by engine, which a setting turns on, contain engines.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from router.contract.decide import BODY_SIZE, MODELS, READING
from router.contract.errors import STATUS_OF
from router.contract.rules import budget
from router.contract.schema.fields import BUDGET_FIELDS, SAMPLING_FIELDS
from router.contract.schema.named_checks import CHECKS
from router.contract.schema.rule_list import FIELDS_OF_CHECKS, PART_LIMITS
from router.request import routes
from router.request.context import RETRY_REASONS, STREAM_ENDS, RequestContext
from router.request.outcome import Outcome
from router.upstream.circuit_breaker import HealthState

NONE: Final = "none"
"""The label of an unknown route, and the rule of a request that was not rejected."""
OTHER: Final = "other"
CLIENT_CLOSED_REQUEST: Final = 499

ROUTES: Final = (*routes.CONFIGURABLE, routes.MODEL_DETAIL, routes.HEALTHZ, routes.READYZ, routes.METRICS, NONE)
_STATUSES: Final = {
    status: str(status) for status in sorted({200, 403, 409, 422, 429, CLIENT_CLOSED_REQUEST, *STATUS_OF.values()})
}
RULES: Final = (
    READING,
    MODELS,
    BODY_SIZE,
    *(f"sampling.params.{field}" for field in SAMPLING_FIELDS),
    "unknown_fields",
    *(f"checks.{check}" for check in CHECKS),
    *(f"limits.{limit}" for limit in PART_LIMITS.values()),
    "output.max_tokens",
    NONE,
)
PARAMETERS: Final = (*SAMPLING_FIELDS, "messages", *BUDGET_FIELDS, *FIELDS_OF_CHECKS, "unknown_fields")
ENGINE_STATES: Final = (*(state.value for state in HealthState), "open")
CAUSES: Final = tuple(outcome.value.replace(" ", "_") for outcome in Outcome if outcome is not Outcome.SUCCEEDED)
PHASES: Final = ("sending", "waiting", "answer")

_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_OVERHEAD_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


@dataclass(frozen=True, eq=False, slots=True)
class Metric:
    """A metric: name, help text, and labels with their closed lists of values (None: by the artifact)."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    help: str
    labels: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()
    aggregation: Literal["livesum", "livemin", "livemax"] = "livesum"
    """How a gauge is aggregated over the live worker processes."""


REQUESTS: Final = Metric(
    "counter",
    "router_requests_total",
    "Finished requests.",
    {"route": ROUTES, "status": (*_STATUSES.values(), OTHER)},
)
ERRORS: Final = Metric(
    "counter",
    "router_errors_total",
    "Errors of the router itself, also within a stream, by error code.",
    {"code": (*STATUS_OF, OTHER)},
)
DECISIONS: Final = Metric(
    "counter",
    "router_decisions_total",
    "Requests checked against the contract, by the rule or step that rejected them; `none`: accepted.",
    {"rule": RULES},
)
VIOLATIONS: Final = Metric(
    "counter",
    "router_violations_total",
    "Parameters that violated the contract: all of a request, not only the one that it was rejected for.",
    {"parameter": PARAMETERS},
)
TOKENS_ASKED: Final = Metric(
    "counter",
    "router_tokens_asked_total",
    "Output tokens that clients requested in accepted requests, by the source of the granted limit.",
    {"source": budget.SOURCES},
)
TOKENS_GRANTED: Final = Metric(
    "counter",
    "router_tokens_granted_total",
    "Output tokens granted to accepted requests: the client's limit, the default, or the cap.",
    {"source": budget.SOURCES},
)
REQUEST_SECONDS: Final = Metric(
    "histogram",
    "router_request_seconds",
    "Time from the arrival of a request to the end of its response, if an engine responded.",
    {"route": routes.INFERENCE},
    _SECONDS,
)
FIRST_BYTE_SECONDS: Final = Metric(
    "histogram",
    "router_first_byte_seconds",
    "Time from the arrival of a request to the first byte of an engine's response.",
    {"route": routes.INFERENCE},
    _SECONDS,
)
OVERHEAD_SECONDS: Final = Metric(
    "histogram",
    "router_overhead_seconds",
    "The router's own time: until the first attempt, without reading the body, and from the response (of a stream, "
    "its first piece) to its first bytes to the client.",
    {"route": routes.INFERENCE},
    _OVERHEAD_SECONDS,
)
RETRIES: Final = Metric(
    "counter",
    "router_retries_total",
    "Retries: the engine was unreachable, returned 429 or 503, had closed a kept-alive connection, or rejected a token "
    "limit that the router had set.",
    {"reason": RETRY_REASONS},
)
ABORTED: Final = Metric(
    "counter",
    "router_aborted_total",
    "Requests whose client disconnected: while sending, while waiting for a response, or within the response.",
    {"phase": PHASES},
)
UPSTREAM_ERRORS: Final = Metric(
    "counter", "router_upstream_errors_total", "Errors of engines, in all attempts.", {"cause": CAUSES}
)
UNSOLICITED: Final = Metric(
    "counter",
    "router_unsolicited_total",
    "Unsolicited bytes from engines, or responses to another request; the log names the engine.",
)
STREAMS: Final = Metric(
    "counter",
    "router_streams_total",
    "Finished streams: with their last event, complete without it, encoded, broken off, or left by the client.",
    {"end": STREAM_ENDS},
)
IN_FLIGHT: Final = Metric(
    "gauge", "router_requests_in_flight", "Inference requests in flight, over all worker processes."
)
IN_FLIGHT_LIMIT: Final = Metric(
    "gauge", "router_requests_in_flight_limit", "ROUTER_MAX_IN_FLIGHT, the most that may be in flight."
)
ENGINES: Final = Metric(
    "gauge",
    "router_engines",
    "Engines in each state, and with an open circuit breaker: the maximum over worker processes.",
    {"state": ENGINE_STATES},
    aggregation="livemax",
)
AVAILABLE: Final = Metric(
    "gauge",
    "router_engines_available",
    "Engines that get requests: the minimum over worker processes.",
    aggregation="livemin",
)
DNS_ERRORS: Final = Metric(
    "counter",
    "router_dns_errors_total",
    "DNS queries for names in ROUTER_ENGINES that failed or returned no address, over all worker processes.",
)
DNS_FAILING: Final = Metric(
    "gauge",
    "router_dns_failing",
    "Names in ROUTER_ENGINES whose last DNS query failed: the maximum over worker processes.",
    aggregation="livemax",
)
API_KEYS_ERRORS: Final = Metric(
    "counter",
    "router_api_keys_errors_total",
    "Invalid versions of ROUTER_API_KEYS_FILE, counted by each worker process.",
)
API_KEYS_FAILED: Final = Metric(
    "gauge",
    "router_api_keys_failed",
    "1 while ROUTER_API_KEYS_FILE is invalid and the former keys are active, else 0.",
    aggregation="livemax",
)
ENGINE_REQUESTS: Final = Metric(
    "counter",
    "router_engine_requests_total",
    "Requests sent to each engine, retries included. With ROUTER_METRICS_BY_ENGINE.",
    {"engine": None},
)
ENGINE_ERRORS: Final = Metric(
    "counter",
    "router_engine_errors_total",
    "Errors of each engine, in all attempts. With ROUTER_METRICS_BY_ENGINE.",
    {"engine": None, "cause": CAUSES},
)
ENGINE_UNSOLICITED: Final = Metric(
    "counter",
    "router_engine_unsolicited_total",
    "Times that each engine sent unsolicited bytes. With ROUTER_METRICS_BY_ENGINE.",
    {"engine": None},
)
ENGINE_IN_FLIGHT: Final = Metric(
    "gauge",
    "router_engine_requests_in_flight",
    "Requests in flight at each engine, over all worker processes. With ROUTER_METRICS_BY_ENGINE.",
    {"engine": None},
)
RELOAD_ERRORS: Final = Metric(
    "counter", "router_reload_errors_total", "Reloads with an invalid artifact, since the start."
)
RELOAD_FAILED: Final = Metric(
    "gauge", "router_reload_failed", "1 while the newest artifact is invalid and an older one is active, else 0."
)
PROFILE: Final = Metric(
    "gauge",
    "router_profile_info",
    "Always 1; its labels name the active artifact.",
    {"name": None, "digest": None},
)

PER_REQUEST: Final = (
    REQUESTS,
    ERRORS,
    DECISIONS,
    VIOLATIONS,
    TOKENS_ASKED,
    TOKENS_GRANTED,
    REQUEST_SECONDS,
    FIRST_BYTE_SECONDS,
    OVERHEAD_SECONDS,
    RETRIES,
    ABORTED,
    UPSTREAM_ERRORS,
    STREAMS,
)
"""Metrics that each finished request adds to."""
PER_WORKER: Final = (
    IN_FLIGHT,
    ENGINES,
    AVAILABLE,
    DNS_ERRORS,
    DNS_FAILING,
    API_KEYS_ERRORS,
    API_KEYS_FAILED,
    UNSOLICITED,
)
"""Metrics of each worker process."""
BY_ENGINE: Final = (ENGINE_REQUESTS, ENGINE_ERRORS, ENGINE_UNSOLICITED)
"""The metrics by engine of each worker, with ROUTER_METRICS_BY_ENGINE."""
FROM_MASTER: Final = (IN_FLIGHT_LIMIT, RELOAD_ERRORS, RELOAD_FAILED, PROFILE)
"""Metrics that workers inherit from the master; the worker that serves /metrics reports them."""
METRICS: Final = (*PER_REQUEST, *PER_WORKER, *FROM_MASTER, *BY_ENGINE, ENGINE_IN_FLIGHT)

_CAUSE_OF_CODE: Final = {"upstream_incomplete": Outcome.BROKEN}
"""Errors of a response that are found only after the attempt was recorded as a success."""


class MetricSample(NamedTuple):
    """An increment of a counter, or an observation of a histogram."""

    metric: Metric
    labels: tuple[str, ...]
    value: float = 1.0


def samples_of(context: RequestContext) -> Iterator[MetricSample]:
    """Yield the samples of a finished request."""
    route = context.route or NONE
    yield MetricSample(REQUESTS, (route, _STATUSES.get(context.status, OTHER)))
    if context.code is not None:
        yield MetricSample(ERRORS, (context.code if context.code in STATUS_OF else OTHER,))
    if context.rule is not None or context.model_served is not None:
        yield MetricSample(DECISIONS, (context.rule or NONE,))
    for parameter in context.violations:
        yield MetricSample(VIOLATIONS, (parameter,))
    if context.tokens is not None:
        source, asked, granted = context.tokens
        yield MetricSample(TOKENS_ASKED, (source,), asked or 0)
        yield MetricSample(TOKENS_GRANTED, (source,), granted)
    if context.client_gone:
        yield MetricSample(ABORTED, (_phase_of(context),))
    if context.stream_end is not None:
        yield MetricSample(STREAMS, (context.stream_end,))
    if context.first_attempt_at is not None:
        yield from _samples_of_engine(context, context.first_attempt_at)


def _samples_of_engine(context: RequestContext, first_sent: float) -> Iterator[MetricSample]:
    for reason in context.retries:
        yield MetricSample(RETRIES, (reason,))
    for _, cause in _upstream_errors(context):
        yield MetricSample(UPSTREAM_ERRORS, (_label(cause),))
    if context.first_byte_at is not None:
        yield MetricSample(FIRST_BYTE_SECONDS, (context.route,), context.first_byte_at - context.started_at)
    if context.buffered_at is not None and context.response_started_at is not None:
        before = first_sent - context.started_at - context.body_read_seconds
        yield MetricSample(
            OVERHEAD_SECONDS, (context.route,), before + context.response_started_at - context.buffered_at
        )
        yield MetricSample(REQUEST_SECONDS, (context.route,), context.ended_at - context.started_at)


def samples_by_engine(context: RequestContext) -> Iterator[MetricSample]:
    """Yield the samples of a finished request for the metrics by engine; the first label is the engine."""
    for engine in context.attempted_engines:
        yield MetricSample(ENGINE_REQUESTS, (engine,))
    for engine, cause in _upstream_errors(context):
        yield MetricSample(ENGINE_ERRORS, (engine, _label(cause)))


def _upstream_errors(context: RequestContext) -> tuple[tuple[str, Outcome], ...]:
    """Return the errors of engines, also those found after the attempt was recorded."""
    late = _CAUSE_OF_CODE.get(context.code or "")
    return context.upstream_errors or (((context.engine or OTHER, late),) if late else ())


def _label(cause: Outcome) -> str:
    return cause.value.replace(" ", "_")


def _phase_of(context: RequestContext) -> str:
    if context.response_started_at is not None and context.status != CLIENT_CLOSED_REQUEST:
        return "answer"
    return "waiting" if context.first_attempt_at is not None else "sending"


def reference() -> str:
    """Return the metrics as a Markdown table."""
    rows = ["| metric | labels | meaning |", "|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
        rows.append(f"| `{metric.name}` | {labels} | {metric.help} |")
    return "\n".join(rows) + "\n"
