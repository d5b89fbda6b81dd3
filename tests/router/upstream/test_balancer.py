"""The choice of an engine: the policy's, among the fleet's candidates."""

from typing import Any

import pytest

from router.balancing.in_flight import Loads
from router.balancing.policies import LeastInflight, PrefixAffinity, RoundRobin
from router.contract.errors import ApiError
from router.upstream.balancer import Chooser

A, B, C = "http://a", "http://b", "http://c"
BODY = b'{"model": "m", "messages": []}'


class _Fleet:
    def candidates(self, model: str, excluding: tuple[str, ...] = ()) -> tuple[str, ...]:
        return tuple(engine for engine in (A, B, C) if engine not in excluding)


def _chooser(policy: Any, loads: Loads | None = None) -> Chooser:
    fleet: Any = _Fleet()
    return Chooser(fleet, policy, loads or Loads(), chance=lambda: 0.0)


def test_engines_take_turns() -> None:
    """Each choice is a turn, whatever model it is for."""
    chooser = _chooser(RoundRobin())
    assert [chooser.choose(model) for model in ("m", "n", "o", "m")] == [A, B, C, A]


def test_what_is_in_flight_counts() -> None:
    """Requests that began and did not end make an engine less wanted."""
    loads = Loads()
    chooser = _chooser(LeastInflight(), loads)
    assert chooser.choose("m") == A
    counted = loads.begin(A)
    assert chooser.choose("m") == B
    counted.end()
    assert chooser.choose("m") == A


def test_none_that_was_tried_is_chosen_again() -> None:
    """Excluded engines are passed over; when none is left, the client hears of it."""
    for policy in (RoundRobin(), LeastInflight(), PrefixAffinity()):
        assert _chooser(policy).choose("m", 7, (A, C)) == B
        with pytest.raises(ApiError, match="No engine that serves this model is healthy") as raised:
            _chooser(policy).choose("m", 7, (A, B, C))
        assert raised.value.code == "no_healthy_engines"


def test_a_key_is_made_only_where_it_is_asked_for() -> None:
    """Only prefix_affinity has bodies looked at."""
    assert _chooser(PrefixAffinity()).key_of(None, BODY) is not None
    assert _chooser(RoundRobin()).key_of("s", BODY) is None
    assert _chooser(LeastInflight()).key_of("s", BODY) is None
