"""The numbers behind the metrics: counted by batch as one by one."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from router.request.context import RequestContext
from router.request.outcome import Outcome
from router.telemetry import meter
from router.telemetry.meter import GaugeSource, _observe, _PrometheusMetrics

BUCKETS = (0.01, 0.5, 1.0)


def _samples(histogram: Histogram) -> dict[tuple[str, str], float]:
    (metric,) = histogram.collect()
    return {
        (sample.name, sample.labels.get("le", "")): sample.value
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


@given(st.lists(st.sampled_from([*BUCKETS, 2.0]) | st.floats(-1, 3), max_size=20))
def test_values_observed_together_are_as_each_alone(values: list[float]) -> None:
    """At the edge of a bucket, below the first and beyond the last, too: the library's own way is the measure."""
    one, other = (Histogram("seconds", "-", registry=CollectorRegistry(), buckets=BUCKETS) for _ in range(2))
    for value in values:
        one.observe(value)
    _observe(other, values)
    assert _samples(other) == pytest.approx(_samples(one))


def test_engines_that_are_counted_by_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many engines come and go, only so many have series of their own; the rest are one."""
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    monkeypatch.setattr(meter, "MOST_ENGINES", 2)
    states = dict.fromkeys((*meter.metrics.ENGINE_STATES, "available"), 0)
    numbers = _PrometheusMetrics(GaugeSource(lambda: 0, lambda: states, ("p", "d"), in_flight_by_engine=dict))

    def over() -> Iterator[RequestContext]:
        for engine in "abcadb":
            errors = ((engine, Outcome.BROKEN),)
            yield RequestContext(
                request_id="1", first_attempt_at=1.0, attempted_engines=(engine, engine), upstream_errors=errors
            )

    numbers.add(over())
    text = numbers.exposition().decode()
    for engine in ("a", "b", "other"):
        assert f'router_engine_requests_total{{engine="{engine}"}} 4.0' in text
        assert f'router_engine_errors_total{{cause="broken",engine="{engine}"}} 2.0' in text
    assert 'engine="c"' not in text
