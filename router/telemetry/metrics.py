"""Every metric, declared once, and what a request that is over adds to each. Pure: router/meter.py keeps the numbers.

No label holds what a client, an engine or a model is named: each takes its values from a list that is closed, to
which only the fields that the artifact names are added. The metrics by engine, which a setting opens, name engines.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from router.contract.decide import BODY_SIZE, MODELS, READING
from router.contract.errors import STATUS_OF
from router.contract.rules import budget
from router.contract.rules.checks import PARAM_OF
from router.contract.schema.fields import BUDGET_FIELDS, SAMPLING_FIELDS
from router.contract.schema.named_checks import CHECKS
from router.contract.schema.rule_list import PART_LIMITS
from router.request import routes
from router.request.context import RETRY_REASONS, STREAM_ENDS, RequestContext
from router.request.outcome import Outcome
from router.upstream.circuit_breaker import HealthState

NONE: Final = "none"
"""Stands for a route that does not exist, and for the rule of a request that none refused."""
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
PARAMETERS: Final = (*SAMPLING_FIELDS, "messages", *BUDGET_FIELDS, *PARAM_OF.values(), "unknown_fields")
ENGINE_STATES: Final = (*(state.value for state in HealthState), "open")
CAUSES: Final = tuple(outcome.value.replace(" ", "_") for outcome in Outcome if outcome is not Outcome.SUCCEEDED)
PHASES: Final = ("sending", "waiting", "answer")

_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_OVERHEAD_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


@dataclass(frozen=True, eq=False, slots=True)
class Metric:
    """A metric: its name, help text, and labels with their closed lists (None: what the artifact says)."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    help: str
    labels: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()
    aggregation: Literal["livesum", "livemin", "livemax"] = "livesum"
    """How a gauge is put together from those of all worker processes that live."""


REQUESTS: Final = Metric(
    "counter",
    "router_requests_total",
    "Requests that are over.",
    {"route": ROUTES, "status": (*_STATUSES.values(), OTHER)},
)
ERRORS: Final = Metric(
    "counter",
    "router_errors_total",
    "Errors that the router itself answered, also within a stream, by its error code.",
    {"code": (*STATUS_OF, OTHER)},
)
DECISIONS: Final = Metric(
    "counter",
    "router_decisions_total",
    "Requests that were judged, on any route, by the rule or step that refused; `none` for those that it let through.",
    {"rule": RULES},
)
VIOLATIONS: Final = Metric(
    "counter",
    "router_violations_total",
    "Parameters that violated the contract: all of a request, not only the one that it was refused for.",
    {"parameter": PARAMETERS},
)
TOKENS_ASKED: Final = Metric(
    "counter",
    "router_tokens_asked_total",
    "Output tokens that clients asked for in requests that went on, by who set the budget that was granted.",
    {"source": budget.SOURCES},
)
TOKENS_GRANTED: Final = Metric(
    "counter",
    "router_tokens_granted_total",
    "Output tokens that requests went on with: as the client asked, the default for none, the cap for too many.",
    {"source": budget.SOURCES},
)
REQUEST_SECONDS: Final = Metric(
    "histogram",
    "router_request_seconds",
    "Time from the arrival of a request to the end of its answer, where an engine answered.",
    {"route": routes.INFERENCE},
    _SECONDS,
)
FIRST_BYTE_SECONDS: Final = Metric(
    "histogram",
    "router_first_byte_seconds",
    "Time from the arrival of a request to the first byte of an engine's answer.",
    {"route": routes.INFERENCE},
    _SECONDS,
)
OVERHEAD_SECONDS: Final = Metric(
    "histogram",
    "router_overhead_seconds",
    "The router's own time: until it sent a request for the first time, without waiting for its body, "
    "and from the answer (of a stream, the first piece) to handing its first bytes over.",
    {"route": routes.INFERENCE},
    _OVERHEAD_SECONDS,
)
RETRIES: Final = Metric(
    "counter",
    "router_retries_total",
    "Requests sent once more: the engine was unreachable, refused with 429 or 503, had closed a kept connection, or "
    "rejected a budget that the router had injected.",
    {"reason": RETRY_REASONS},
)
ABORTED: Final = Metric(
    "counter",
    "router_aborted_total",
    "Requests whose client left: while it was sending, while it waited for an answer, or within the answer.",
    {"phase": PHASES},
)
UPSTREAM_ERRORS: Final = Metric(
    "counter", "router_upstream_errors_total", "What went wrong at engines, in all attempts.", {"cause": CAUSES}
)
UNSOLICITED: Final = Metric(
    "counter",
    "router_unsolicited_total",
    "Times that an engine sent what no request asked for, or another request's answer; the log says which engine.",
)
STREAMS: Final = Metric(
    "counter",
    "router_streams_total",
    "Streams that are over: with their last event, whole without, in an encoding that hides it, broken off, or left.",
    {"end": STREAM_ENDS},
)
IN_FLIGHT: Final = Metric(
    "gauge", "router_requests_in_flight", "Inference requests in flight, over all worker processes."
)
ENGINES: Final = Metric(
    "gauge",
    "router_engines",
    "Engines in each state, and behind an open circuit, as the worker process sees that sees most in it.",
    {"state": ENGINE_STATES},
    aggregation="livemax",
)
AVAILABLE: Final = Metric(
    "gauge",
    "router_engines_available",
    "Engines that get requests, as the worker process sees that sees fewest.",
    aggregation="livemin",
)
DNS_ERRORS: Final = Metric(
    "counter",
    "router_dns_errors_total",
    "Resolutions of names in ROUTER_ENGINES that failed or gave no address, over all worker processes.",
)
DNS_FAILING: Final = Metric(
    "gauge",
    "router_dns_failing",
    "Names in ROUTER_ENGINES whose newest resolution failed, as the worker process sees that sees most.",
    aggregation="livemax",
)
API_KEYS_ERRORS: Final = Metric(
    "counter",
    "router_api_keys_errors_total",
    "Broken versions of ROUTER_API_KEYS_FILE, as each worker process finds them.",
)
API_KEYS_FAILED: Final = Metric(
    "gauge",
    "router_api_keys_failed",
    "1 while ROUTER_API_KEYS_FILE is broken and older keys hold, else 0.",
    aggregation="livemax",
)
ENGINE_REQUESTS: Final = Metric(
    "counter",
    "router_engine_requests_total",
    "Requests sent to each engine, those sent once more included. With ROUTER_METRICS_BY_ENGINE.",
    {"engine": None},
)
ENGINE_ERRORS: Final = Metric(
    "counter",
    "router_engine_errors_total",
    "What went wrong at each engine, in all attempts. With ROUTER_METRICS_BY_ENGINE.",
    {"engine": None, "cause": CAUSES},
)
ENGINE_UNSOLICITED: Final = Metric(
    "counter",
    "router_engine_unsolicited_total",
    "Times that each engine sent what no request asked for. With ROUTER_METRICS_BY_ENGINE.",
    {"engine": None},
)
ENGINE_IN_FLIGHT: Final = Metric(
    "gauge",
    "router_engine_requests_in_flight",
    "Requests in flight at each engine, over all worker processes. With ROUTER_METRICS_BY_ENGINE.",
    {"engine": None},
)
RELOAD_ERRORS: Final = Metric(
    "counter", "router_reload_errors_total", "Reloads whose artifact was broken, since the start."
)
RELOAD_FAILED: Final = Metric(
    "gauge", "router_reload_failed", "1 while the newest artifact is broken and an older one in force, else 0."
)
PROFILE: Final = Metric(
    "gauge",
    "router_profile_info",
    "Always 1; its labels say which artifact is in force.",
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
"""Metrics that requests add to when they are over."""
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
"""What each worker process keeps up to date."""
BY_ENGINE: Final = (ENGINE_REQUESTS, ENGINE_ERRORS, ENGINE_UNSOLICITED)
"""What each worker counts by engine, where a setting says so."""
FROM_MASTER: Final = (RELOAD_ERRORS, RELOAD_FAILED, PROFILE)
"""What all workers inherit or share, told by the one that is asked."""
METRICS: Final = (*PER_REQUEST, *PER_WORKER, *FROM_MASTER, *BY_ENGINE, ENGINE_IN_FLIGHT)

_CAUSE_OF_CODE: Final = {"upstream_incomplete": Outcome.BROKEN}
"""What is found out about an answer only after its engine has been judged."""


class MetricSample(NamedTuple):
    """What a request adds to a metric: an amount to a counter, a value to a histogram."""

    metric: Metric
    labels: tuple[str, ...]
    value: float = 1.0


def samples_of(context: RequestContext) -> Iterator[MetricSample]:
    """Yield what a request that is over adds to each metric."""
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
    """Yield what a request that is over adds to the metrics by engine; the first label is the engine."""
    for engine in context.attempted_engines:
        yield MetricSample(ENGINE_REQUESTS, (engine,))
    for engine, cause in _upstream_errors(context):
        yield MetricSample(ENGINE_ERRORS, (engine, _label(cause)))


def _upstream_errors(context: RequestContext) -> tuple[tuple[str, Outcome], ...]:
    """Return what went wrong at engines, also what turned out once an engine had been judged."""
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
