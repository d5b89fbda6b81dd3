"""Load balancing policies: frozen values, each a pure choice among the candidates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Protocol

HASH_BYTES: Final = 8

_WORD: Final = (1 << 64) - 1
_LANE_BYTES: Final = 16
_MAX_SAMPLED: Final = 64
"""Most engines whose loads are read for the mean."""


class BalancingContext(NamedTuple):
    """The input of a choice."""

    candidates: tuple[str, ...]
    """Base URLs of the engines that may be chosen, at least one, in the configured order."""
    sequence_number: int
    """How many choices this process made before."""
    random_numbers: tuple[float, float]
    """Two random numbers, each at least 0 and below 1."""
    load: Callable[[str], int]
    """Returns how many requests are in flight at an engine, as far as this machine knows."""
    key: int | None
    """The 64-bit affinity key; None if the request has none."""


class Policy(Protocol):
    """Chooses one of the candidates; the same context always gives the same choice."""

    uses_key: ClassVar[bool]
    """Whether the choice depends on the affinity key; otherwise it is not computed."""

    def choose(self, context: BalancingContext) -> str:
        """Return the base URL of the chosen engine."""


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """The candidates take turns."""

    uses_key: ClassVar[bool] = False

    def choose(self, context: BalancingContext) -> str:
        """Return the candidate whose turn it is."""
        return context.candidates[context.sequence_number % len(context.candidates)]


@dataclass(frozen=True, slots=True)
class LeastInflight:
    """Of two candidates picked at random, the one with fewer requests in flight.

    Two choices keep the fullest engine close to the mean, and, unlike the least of all, do not send everybody to the
    same engine while counts lag behind (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
    """

    uses_key: ClassVar[bool] = False

    def choose(self, context: BalancingContext) -> str:
        """Return the less loaded of two; the first of them when they are equal."""
        candidates, (first_chance, second_chance) = context.candidates, context.random_numbers
        count = len(candidates)
        if count == 1:
            return candidates[0]
        first = int(first_chance * count)
        second = int(second_chance * (count - 1))
        second += second >= first
        return min(candidates[first], candidates[second], key=context.load)


@dataclass(frozen=True, slots=True)
class PrefixAffinity:
    """The engine that ranks first for the key and is not too full, so that requests of one key meet one prefix cache.

    Ranks are those of rendezvous hashing (Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates",
    1998): routers with the same engines agree without communication, and an engine that joins or leaves moves only its
    own share of the keys. An engine is too full when it has more than `balance_factor` times its even share of all
    requests in flight (Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2018), unless it
    has fewer than `min_bound`: with few requests in flight, chance alone exceeds the share, and prefixes would be
    computed again although no engine is busy (measured by `tests/bench/policies.py`).
    """

    balance_factor: float = 1.25
    min_bound: int = 4
    fallback: Policy = LeastInflight()
    """Chooses for requests that have no key."""

    uses_key: ClassVar[bool] = True

    def choose(self, context: BalancingContext) -> str:
        """Return the first engine in the key's ranks that is not too full; the first of all where every one is."""
        candidates, key = context.candidates, context.key
        if key is None:
            return self.fallback.choose(context)
        scores = _scores(candidates, key)
        best = candidates[scores.index(max(scores))]
        load = context.load(best)
        if load < self.min_bound or len(candidates) == 1:
            return best
        bound = max(self.min_bound, self.balance_factor * (_mean_load(context, key) + 1 / len(candidates)))
        if load < bound:
            return best
        ranked = sorted(zip(scores, candidates, strict=True), reverse=True)
        return next((engine for _, engine in ranked if context.load(engine) < bound), best)


POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {"round_robin": RoundRobin(), "least_inflight": LeastInflight(), "prefix_affinity": PrefixAffinity()}
)
"""The policies by the names that settings call them."""


def hash_of(data: bytes) -> int:
    """Return a 64-bit hash that is the same in every process, on every machine and in every version."""
    return int.from_bytes(blake2b(data, digest_size=HASH_BYTES).digest(), "little")


def _mean_load(context: BalancingContext, key: int) -> float:
    """Return how many requests a candidate has in flight on average; of many candidates from an even sample."""
    candidates = context.candidates
    step = -(-len(candidates) // _MAX_SAMPLED)
    sample = candidates[key % step :: step]
    return sum(map(context.load, sample)) / len(sample)


class _RendezvousLanes(NamedTuple):
    """The hashes of engines side by side in one integer, so that a few operations on it mix all with a key at once.

    Each hash fills the lower half of a lane of 128 bits. The upper half takes the overflow of a multiplication.
    """

    seeds: int
    ones: int
    """A 1 in each lane: times a number, it is that number in each lane."""
    words: int
    """All bits of the lower half of each lane."""
    layout: Struct
    """Unpacks the lower halves."""


@lru_cache(maxsize=256)
def _lanes(engines: tuple[str, ...]) -> _RendezvousLanes:
    seeds = b"".join(hash_of(engine.encode()).to_bytes(_LANE_BYTES, "little") for engine in engines)
    ones = int.from_bytes((1).to_bytes(_LANE_BYTES, "little") * len(engines), "little")
    return _RendezvousLanes(int.from_bytes(seeds, "little"), ones, ones * _WORD, Struct("<" + "Q8x" * len(engines)))


def _scores(engines: tuple[str, ...], key: int) -> tuple[int, ...]:
    """Return a pseudorandom 64-bit number for each pair of an engine and the key: splitmix64's finalizer of both.

    (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.)
    """
    lanes = _lanes(engines)
    words = lanes.words
    mixed = lanes.seeds ^ (lanes.ones * key)
    mixed = ((mixed ^ ((mixed >> 30) & words)) * 0xBF58476D1CE4E5B9) & words
    mixed = ((mixed ^ ((mixed >> 27) & words)) * 0x94D049BB133111EB) & words
    mixed ^= (mixed >> 31) & words
    return lanes.layout.unpack(mixed.to_bytes(lanes.layout.size, "little"))
