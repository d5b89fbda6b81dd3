"""The metrics registry, on top of prometheus_client.

A scrape first counts all queued requests. Under our gunicorn conf all worker processes are aggregated; without it each
reports only itself.
"""

import importlib
import os
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from router import lifecycle
from router.request.context import RequestContext
from router.telemetry import metrics, shared_metrics
from router.telemetry.metrics import Metric
from router.telemetry.recorder import ExporterQueue

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


MOST_ENGINES: Final = 1000
"""Engines that a process counts by name; those that come after them are counted as `other`."""


class ErrorCounts(NamedTuple):
    """The problems of this process outside of requests: how often they occurred, and the current ones."""

    dns_errors: int = 0
    dns_failing: int = 0
    api_keys_failed: int = 0
    api_keys_errors: int = 0
    unsolicited: int = 0
    """How often engines sent unsolicited bytes."""


class GaugeSource(NamedTuple):
    """The sources of a worker's gauges: requests in flight, engines, errors, and the active artifact.

    `in_flight_by_engine` is None where nothing is counted by engine.
    """

    in_flight: Callable[[], int]
    engines: Callable[[], Mapping[str, int]]
    profile: tuple[str, str]
    error_counts: Callable[[], ErrorCounts] = ErrorCounts
    in_flight_by_engine: Callable[[], Mapping[str, int]] | None = None
    unsolicited_by_engine: Callable[[], Mapping[str, int]] = dict
    in_flight_limit: int = 0


class MetricsRegistry(ExporterQueue["_PrometheusMetrics"]):
    """Counts finished requests in the metrics."""

    def __init__(self, gauges: GaugeSource) -> None:
        super().__init__(lambda: _PrometheusMetrics(gauges))

    def exposition(self) -> bytes:
        """Return all metrics, up to date, in Prometheus' text format."""
        numbers = self.start()
        self.flush()
        return numbers.exposition()


class _PrometheusMetrics:
    """The metrics of one process as prometheus_client keeps them."""

    def __init__(self, gauges: GaugeSource) -> None:
        # prometheus_client decides at its import whether processes share their numbers.
        self._client: Any = importlib.import_module("prometheus_client")
        self._client.disable_created_metrics()
        self._gauges = gauges
        self._is_shared = shared_metrics.VARIABLE in os.environ
        if self._is_shared:
            shared_metrics.reserve(os.getpid())
        self._registry = self._client.CollectorRegistry()
        by_engine = () if gauges.in_flight_by_engine is None else metrics.BY_ENGINE
        self._metrics = {
            metric: self._create(metric) for metric in (*metrics.PER_REQUEST, *metrics.PER_WORKER, *by_engine)
        }
        self._samples_of = _samples_with_engines if by_engine else metrics.samples_of
        self._engines: set[str] = set()
        self._error_counts = ErrorCounts()
        self._unsolicited: dict[str, int] = {}
        self._children: dict[tuple[str, tuple[str, ...]], Any] = {}
        for metric in metrics.PER_REQUEST:
            self._start_at_zero(metric)
        self._set_gauges()

    def _create(self, metric: Metric) -> Any:  # noqa: ANN401 - one of prometheus_client's three kinds
        registry = None if self._is_shared else self._registry
        about = (metric.name, metric.help, tuple(metric.labels))
        if metric.kind == "counter":
            return self._client.Counter(*about, registry=registry)
        if metric.kind == "histogram":
            return self._client.Histogram(*about, registry=registry, buckets=metric.buckets)
        return self._client.Gauge(*about, registry=registry, multiprocess_mode=metric.aggregation)

    def _start_at_zero(self, metric: Metric) -> None:
        """Let the values of a counter's only label exist: a rate needs to see the first increase."""
        labels = list(metric.labels.values())
        if metric.kind == "counter" and len(labels) == 1:
            for value in labels[0] or ():
                self._child(metric, (value,))

    def _child(self, metric: Metric, labels: tuple[str, ...]) -> Any:  # noqa: ANN401 - as above
        key = (metric.name, labels)
        child = self._children.get(key)
        if child is None:
            whole = self._metrics[metric]
            child = self._children[key] = whole.labels(*labels) if labels else whole
        return child

    def add(self, contexts: Iterator[RequestContext]) -> None:
        """Count requests, each label set once for all of them, and bring the gauges up to date."""
        values: dict[tuple[Metric, tuple[str, ...]], list[float]] = defaultdict(list)
        for context in contexts:
            for metric, labels, value in self._samples_of(context):
                values[metric, labels].append(value)
        for (metric, labels), of_all in values.items():
            child = self._child(metric, self._bounded(labels) if metric in metrics.BY_ENGINE else labels)
            if metric.kind == "counter":
                child.inc(sum(of_all))
            else:
                _observe(child, of_all)
        self._set_gauges()

    def _bounded(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Return the labels; the first one, an engine, becomes `other` if there are too many engines."""
        engine, *others = labels
        if engine not in self._engines:
            if len(self._engines) >= MOST_ENGINES:
                return (metrics.OTHER, *others)
            self._engines.add(engine)
        return labels

    def _set_gauges(self) -> None:
        engines = self._gauges.engines()
        self._child(metrics.IN_FLIGHT, ()).set(self._gauges.in_flight())
        self._child(metrics.AVAILABLE, ()).set(engines["available"])
        for state in metrics.ENGINE_STATES:
            self._child(metrics.ENGINES, (state,)).set(engines[state])
        before, now = self._error_counts, self._gauges.error_counts()
        self._error_counts = now
        self._child(metrics.DNS_ERRORS, ()).inc(now.dns_errors - before.dns_errors)
        self._child(metrics.DNS_FAILING, ()).set(now.dns_failing)
        self._child(metrics.API_KEYS_ERRORS, ()).inc(now.api_keys_errors - before.api_keys_errors)
        self._child(metrics.API_KEYS_FAILED, ()).set(now.api_keys_failed)
        self._child(metrics.UNSOLICITED, ()).inc(now.unsolicited - before.unsolicited)
        if self._gauges.in_flight_by_engine is not None:
            self._count_unsolicited(self._gauges.unsolicited_by_engine())

    def _count_unsolicited(self, counts: Mapping[str, int]) -> None:
        for engine, count in counts.items():
            if self._unsolicited.get(engine) == count:
                continue
            child = self._child(metrics.ENGINE_UNSOLICITED, self._bounded((engine,)))
            child.inc(count - self._unsolicited.get(engine, 0))
            self._unsolicited[engine] = count

    def exposition(self) -> bytes:
        """Return the metrics of all processes that share them."""
        if not self._is_shared:
            return self._render(self._registry)
        return shared_metrics.read_consistent(self._all_processes)

    def _all_processes(self) -> bytes:
        registry = self._client.CollectorRegistry()
        importlib.import_module("prometheus_client.multiprocess").MultiProcessCollector(registry)
        return self._render(registry)

    def _render(self, registry: Any) -> bytes:  # noqa: ANN401 - prometheus_client's
        inherited = self._client.CollectorRegistry()
        inherited.register(_MasterCollector(self._gauges))
        return bytes(self._client.generate_latest(registry) + self._client.generate_latest(inherited))


def _samples_with_engines(context: RequestContext) -> Iterator[metrics.MetricSample]:
    yield from metrics.samples_of(context)
    yield from metrics.samples_by_engine(context)


def _observe(histogram: Any, values: list[float]) -> None:  # noqa: ANN401 - prometheus_client's
    """Let a histogram observe values all at once: one by one each would cost the system calls that now all cost."""
    # Its own `observe` takes only one. A test holds the two side by side.
    histogram._sum.inc(sum(values))  # noqa: SLF001
    for place, count in Counter(bisect_left(histogram._upper_bounds, value) for value in values).items():  # noqa: SLF001
        histogram._buckets[place].inc(count)  # noqa: SLF001


class _MasterCollector:
    """Collects the gauges of the arbiter at each scrape; every worker can report them."""

    def __init__(self, gauges: GaugeSource) -> None:
        self._core: Any = importlib.import_module("prometheus_client.core")
        self._gauges = gauges

    def collect(self) -> Iterator[Any]:
        """Yield what prometheus_client writes out."""
        errors, failed, profile = metrics.RELOAD_ERRORS, metrics.RELOAD_FAILED, metrics.PROFILE
        limit = metrics.IN_FLIGHT_LIMIT
        yield self._core.GaugeMetricFamily(limit.name, limit.help, self._gauges.in_flight_limit)
        yield self._core.CounterMetricFamily(errors.name, errors.help, lifecycle.reload_errors())
        yield self._core.GaugeMetricFamily(failed.name, failed.help, lifecycle.reload_error() is not None)
        family = self._core.GaugeMetricFamily(profile.name, profile.help, labels=tuple(profile.labels))
        family.add_metric(self._gauges.profile, 1)
        yield family
        if self._gauges.in_flight_by_engine is not None:
            in_flight = metrics.ENGINE_IN_FLIGHT
            family = self._core.GaugeMetricFamily(in_flight.name, in_flight.help, labels=tuple(in_flight.labels))
            for engine, count in self._gauges.in_flight_by_engine().items():
                family.add_metric((engine,), count)
            yield family
