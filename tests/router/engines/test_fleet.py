"""The fleet: what was learnt of each engine, and which is next."""

import pytest

from router.contract.decision import ServedIds
from router.contract.errors import ApiError
from router.engines.fleet import Fleet, Report

A, B, C = "http://a", "http://b", "http://c"


def _cards(*names: str) -> tuple[dict[str, str], ...]:
    return tuple({"id": name} for name in names)


def _fleet(*healthy: str, ids: tuple[str, ...] = (), has_aliases: bool = False) -> Fleet:
    fleet = Fleet((A, B, C), ids, has_aliases=has_aliases)
    for engine in healthy:
        fleet.learn(engine, Report(healthy=True, cards=_cards("m")))
    return fleet


def test_nothing_is_known_at_first() -> None:
    """Before any probe no engine is healthy, no id is known, and none is picked."""
    fleet = _fleet()
    assert fleet.healthy() == ()
    assert fleet.served_ids() == ServedIds((), routes_aliases=False)
    with pytest.raises(ApiError, match="No engine is healthy"):
        fleet.pick(None)


def test_healthy_engines_take_turns() -> None:
    """Picks go round the healthy engines, in the configured order."""
    fleet = _fleet(C, A)
    assert [fleet.pick("m") for _ in range(4)] == [A, C, A, C]


def test_an_unreachable_engine_is_left_out_until_it_is_learnt_anew() -> None:
    """An engine that was found unreachable is not picked before a probe finds it healthy."""
    fleet = _fleet(A, B)
    fleet.note_unreachable(A)
    assert {fleet.pick("m") for _ in range(4)} == {B}
    fleet.learn(A, Report(healthy=True))
    assert {fleet.pick("m") for _ in range(4)} == {A, B}


def test_a_model_is_asked_of_those_that_list_it() -> None:
    """Engines that list other models are passed over; one that never said what it serves is not."""
    fleet = _fleet()
    fleet.learn(A, Report(healthy=True, cards=_cards("x")))
    fleet.learn(B, Report(healthy=True, cards=_cards("y")))
    fleet.learn(C, Report(healthy=True))
    assert {fleet.pick("x") for _ in range(6)} == {A, C}
    assert {fleet.pick(None) for _ in range(6)} == {A, B, C}


def test_a_model_that_nobody_lists_is_asked_of_anybody() -> None:
    """A configured id that no engine lists goes to any healthy engine, whose answer it then is."""
    fleet = _fleet(A, B, ids=("given",))
    assert {fleet.pick("given") for _ in range(4)} == {A, B}


def test_cards_outlive_a_probe_that_found_none() -> None:
    """An engine that lists nothing at the moment keeps the ids that it listed before."""
    fleet = _fleet(A)
    fleet.learn(A, Report(healthy=False))
    assert fleet.served_ids() == ServedIds(("m",), routes_aliases=True)
    fleet.learn(A, Report(healthy=True, cards=_cards("n")))
    assert fleet.served_ids().ids == ("n",)


def test_ids_are_the_union_in_the_order_of_the_engines() -> None:
    """Ids of all engines are served once each; more than one makes aliases ambiguous."""
    fleet = _fleet()
    fleet.learn(B, Report(healthy=True, cards=_cards("y", "x")))
    fleet.learn(A, Report(healthy=True, cards=_cards("x")))
    assert fleet.served_ids() == ServedIds(("x", "y"), routes_aliases=False)


def test_given_ids_win_over_learnt_ones() -> None:
    """Configured ids are what is served, whatever engines list, and aliases mean the first."""
    assert _fleet(A, ids=("p", "q")).served_ids() == ServedIds(("p", "q"), routes_aliases=True)


@pytest.mark.parametrize(
    ("fleet", "obstacle"),
    [
        (_fleet(), "no engine is healthy"),
        (_fleet(A), None),
        (_fleet(A, has_aliases=True), None),
        (_fleet(ids=("m",)), "no engine is healthy"),
    ],
)
def test_what_stands_in_the_way_is_said(fleet: Fleet, obstacle: str | None) -> None:
    """A fleet is ready when an engine is healthy and ids are known."""
    assert fleet.obstacle() == obstacle


def test_a_healthy_engine_without_ids_is_not_enough() -> None:
    """Health alone does not make ready: somebody has to have said what is served."""
    fleet = _fleet()
    fleet.learn(A, Report(healthy=True))
    assert fleet.obstacle() == "no engine has listed a model yet"


def test_several_ids_are_in_the_way_of_aliases_alone() -> None:
    """Several learnt ids are an obstacle only where aliases need one of them."""
    for has_aliases in (False, True):
        fleet = _fleet(has_aliases=has_aliases)
        fleet.learn(A, Report(healthy=True, cards=_cards("x", "y")))
        assert ("ROUTER_MODEL_ID" in str(fleet.obstacle())) is has_aliases
