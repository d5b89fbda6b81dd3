"""The numbers behind the metrics: counted by batch as one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from router.telemetry.meter import _observe

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
