"""The policies: which engine they choose, how evenly, and what an engine that comes or goes moves."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.balancing.policies import POLICIES, BalancingContext, LeastInflight, PrefixAffinity, RoundRobin, hash_of

A, B, C = "http://a", "http://b", "http://c"
ENGINES = tuple(f"http://10.0.0.{number}:30000" for number in range(1, 17))
KEYS = [hash_of(b"%d" % number) for number in range(8000)]
SEVERAL = st.lists(st.sampled_from(ENGINES), min_size=1, unique=True).map(tuple)
WORDS = st.integers(0, 2**64 - 1)


def _situation(
    candidates: tuple[str, ...] = ENGINES,
    in_flight_table: Mapping[str, int] | None = None,
    key: int | None = None,
    turn: int = 0,
    chances: tuple[float, float] = (0.0, 0.0),
) -> BalancingContext:
    in_flight_table = in_flight_table or {}
    return BalancingContext(candidates, turn, chances, lambda engine: in_flight_table.get(engine, 0), key)


def _homes(engines: tuple[str, ...]) -> list[str]:
    return [PrefixAffinity().choose(_situation(engines, key=key)) for key in KEYS]


@settings(deadline=None)
@given(candidates=SEVERAL, in_flight_table=st.lists(st.integers(0, 9), min_size=16, max_size=16), data=st.data())
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_choice_is_one_of_the_candidates(policy, data: st.DataObject, candidates, in_flight_table) -> None:
    """Whatever the situation, a policy chooses a candidate, and the same one again."""
    chance = st.floats(0, 1, exclude_max=True)
    situation = _situation(
        candidates,
        dict(zip(ENGINES, in_flight_table, strict=True)),
        data.draw(st.none() | WORDS),
        data.draw(st.integers(0)),
        data.draw(st.tuples(chance, chance)),
    )
    assert policy.choose(situation) in candidates
    assert policy.choose(situation) == policy.choose(situation)


def test_round_robin_goes_round() -> None:
    """Turns follow the order of the candidates."""
    assert [RoundRobin().choose(_situation((A, B, C), turn=turn)) for turn in range(5)] == [A, B, C, A, B]


@pytest.mark.parametrize(
    ("chances", "chosen"),
    [((0.0, 0.0), A), ((0.0, 0.9), A), ((0.4, 0.9), B), ((0.9, 0.0), A), ((0.9, 0.9), B)],
)
def test_least_inflight_takes_the_emptier_of_two_different_ones(chances: tuple[float, float], chosen: str) -> None:
    """Chance names two engines, never the same twice; the one with fewer requests gets one more."""
    assert LeastInflight().choose(_situation((A, B, C), {A: 1, B: 2, C: 3}, chances=chances)) == chosen


def test_every_pair_is_equally_likely() -> None:
    """Evenly spread chances name each ordered pair of engines equally often."""
    step = 1 / 60
    pairs = Counter()
    for first in range(60):
        for second in range(60):
            asked: list[str] = []
            chances = ((first + 0.5) * step, (second + 0.5) * step)
            LeastInflight().choose(
                BalancingContext((A, B, C), 0, chances, lambda it, asked=asked: asked.append(it) or 0, None)
            )
            pairs[tuple(asked)] += 1
    assert len(pairs) == 6
    assert set(pairs.values()) == {600}


def test_the_rank_of_an_engine_is_the_same_everywhere() -> None:
    """Ranks are frozen: routers of different versions, on different machines, in different processes agree."""
    assert hash_of(b"a conversation") == 11238753045960465058
    homes = [ENGINES.index(PrefixAffinity().choose(_situation(key=key))) for key in KEYS[:12]]
    assert homes == [8, 6, 12, 3, 13, 3, 5, 6, 10, 10, 10, 7]


@settings(deadline=None)
@given(candidates=SEVERAL, key=WORDS, data=st.data())
def test_the_order_of_the_engines_does_not_matter(candidates, key: int, data: st.DataObject) -> None:
    """Routers that list the same engines in different orders send a key to the same one."""
    other = tuple(data.draw(st.permutations(candidates)))
    policy = PrefixAffinity()
    assert policy.choose(_situation(candidates, key=key)) == policy.choose(_situation(other, key=key))


def test_keys_spread_evenly() -> None:
    """Each of 16 engines is home to its share of the keys, within what chance allows (5 sigma)."""
    counts = Counter(_homes(ENGINES))
    share = len(KEYS) / 16
    assert all(abs(counts[engine] - share) < 5 * share**0.5 for engine in ENGINES)


def test_an_engine_that_leaves_moves_its_own_keys_alone() -> None:
    """Of 16 engines one leaves: all other keys stay, and its own spread over all that are left."""
    before, after = _homes(ENGINES), _homes(ENGINES[:-1])
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {old for old, _ in moved} == {ENGINES[-1]}
    assert {new for _, new in moved} == set(ENGINES[:-1])


def test_an_engine_that_was_tried_hands_on_to_the_next_in_rank() -> None:
    """Without the first choice a key goes where it would go if that engine had left: every router retries alike."""
    for key in KEYS[:50]:
        ranks = []
        left = ENGINES
        while left:
            ranks.append(PrefixAffinity().choose(_situation(left, key=key)))
            left = tuple(engine for engine in left if engine != ranks[-1])
        full = dict.fromkeys(ranks[:4], 100)
        assert PrefixAffinity().choose(_situation(in_flight_table=full, key=key)) == ranks[4]


@pytest.mark.parametrize(
    ("load", "others", "stays"),
    [
        (0, 0, True),
        (1, 0, False),  # ceil(1.25 * (1 + 1) / 16) is 1
        (1, 1, True),  # ceil(1.25 * (16 + 1) / 16) is 2
        (2, 1, False),
        (12, 10, True),  # ceil(1.25 * (162 + 1) / 16) is 13
        (13, 10, False),
    ],
)
def test_an_engine_takes_so_much_more_than_its_share(load: int, others: int, *, stays: bool) -> None:
    """A key leaves its engine only while that has 1.25 times its even share in flight, this request counted."""
    key = KEYS[0]
    home = PrefixAffinity(min_bound=1).choose(_situation(key=key))
    in_flight_table = dict.fromkeys(ENGINES, others) | {home: load}
    assert (PrefixAffinity(min_bound=1).choose(_situation(in_flight_table=in_flight_table, key=key)) == home) is stays


def test_few_requests_never_leave_their_engine() -> None:
    """Up to `spare` requests an engine takes, however little the others have."""
    key = KEYS[0]
    home = PrefixAffinity().choose(_situation(key=key))
    assert PrefixAffinity(min_bound=4).choose(_situation(in_flight_table={home: 3}, key=key)) == home
    assert PrefixAffinity(min_bound=4).choose(_situation(in_flight_table={home: 4}, key=key)) != home


def test_without_a_key_the_emptier_of_two_is_chosen() -> None:
    """A request that nothing tells of goes where least_inflight sends it."""
    situation = _situation((A, B, C), {A: 1}, chances=(0.0, 0.0))
    assert PrefixAffinity().choose(situation) == LeastInflight().choose(situation) == B


def test_of_many_engines_a_sample_tells_the_mean() -> None:
    """However many engines there are, a choice reads the loads of few, and still passes one over that is too full."""
    engines = tuple(f"http://{number}" for number in range(1000))
    asked: list[str] = []
    home = PrefixAffinity().choose(_situation(engines, key=KEYS[0]))

    def load(engine: str) -> int:
        asked.append(engine)
        return 30 if engine == home else 8

    chosen = PrefixAffinity().choose(BalancingContext(engines, 0, (0.0, 0.0), load, KEYS[0]))
    assert chosen != home
    assert len(asked) < 100
