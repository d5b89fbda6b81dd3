"""The choice of an engine: the policy's, among the fleet's candidates."""

from typing import Any

import pytest

from router.balancing.in_flight import InFlightTable
from router.balancing.policies import LeastInflight, PrefixAffinity, RoundRobin
from router.contract.errors import ApiError
from router.upstream.balancer import LoadBalancer

A, B, C = "http://a", "http://b", "http://c"
BODY = b'{"model": "m", "messages": []}'


class _Fleet:
    def candidates(self, model: str, excluding: tuple[str, ...] = ()) -> tuple[str, ...]:
        return tuple(engine for engine in (A, B, C) if engine not in excluding)


def _load_balancer(policy: Any, in_flight_table: InFlightTable | None = None) -> LoadBalancer:
    registry: Any = _Fleet()
    return LoadBalancer(registry, policy, in_flight_table or InFlightTable(), rng=lambda: 0.0)


def test_engines_take_turns() -> None:
    """Each choice is a turn, whatever model it is for."""
    load_balancer = _load_balancer(RoundRobin())
    assert [load_balancer.choose(model) for model in ("m", "n", "o", "m")] == [A, B, C, A]


def test_what_is_in_flight_counts() -> None:
    """Requests that began and did not end make an engine less wanted."""
    in_flight_table = InFlightTable()
    load_balancer = _load_balancer(LeastInflight(), in_flight_table)
    assert load_balancer.choose("m") == A
    counted = in_flight_table.begin(A)
    assert load_balancer.choose("m") == B
    counted.end()
    assert load_balancer.choose("m") == A


def test_none_that_was_tried_is_chosen_again() -> None:
    """Excluded engines are passed over; when none is left, the client hears of it."""
    for policy in (RoundRobin(), LeastInflight(), PrefixAffinity()):
        assert _load_balancer(policy).choose("m", 7, (A, C)) == B
        with pytest.raises(ApiError, match="No engine that serves this model is healthy") as raised:
            _load_balancer(policy).choose("m", 7, (A, B, C))
        assert raised.value.code == "no_healthy_engines"


def test_a_key_is_made_only_where_it_is_asked_for() -> None:
    """Only prefix_affinity has bodies looked at."""
    assert _load_balancer(PrefixAffinity()).affinity_key(None, BODY) is not None
    assert _load_balancer(RoundRobin()).affinity_key("s", BODY) is None
    assert _load_balancer(LeastInflight()).affinity_key("s", BODY) is None
