"""What the policies are worth: `python -m tests.bench.policies`.

A simulation of conversations that come turn by turn to router replicas that know nothing of each other, in front of
engines with a prefix cache each; then what leaving and joining engines move, and what a choice costs here. The figures
of the simulation depend on the seed alone. There are no queues in it: a request takes its prefill and its decoding.
"""

import argparse
import heapq
import random
import statistics
import time
import timeit
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from router.balancing.affinity_key import compute_key
from router.balancing.in_flight import COLUMNS, InFlightTable
from router.balancing.policies import BalancingContext, LeastInflight, Policy, PrefixAffinity, RoundRobin, hash_of
from router.runtime.worker_table import CELL_BYTES, ROWS, WorkerRows
from router.upstream.balancer import LoadBalancer
from router.upstream.circuit_breaker import BreakerConfig, HealthState
from router.upstream.engine_state import HealthCheckResult
from router.upstream.registry import EngineRegistry
from tests.bench.cost import body_of

BLOCK = 64
"""Tokens of a block of the caches: what is not a whole block is not cached."""
MOST_BLOCKS = 1 << 20
PREFILL_TOKENS_PER_SECOND = 8000
DECODE_SECONDS_PER_TOKEN = 0.02
MEASURED_SECONDS = 0.02
"""How long a call is repeated at least to find out its cost."""


@dataclass(frozen=True)
class Workload:
    """Conversations and where they go; a system prompt is shared by many of them."""

    engines: int = 16
    replicas: int = 4
    conversations: int = 1000
    systems: int = 20
    cache_tokens: int = 300_000
    think_seconds: float = 20.0
    begin_within_seconds: float = 120.0
    seed: int = 1


@dataclass(frozen=True)
class Conversation:
    """One conversation: when it begins, and for each turn the tokens it asks, is answered, and the pause after it."""

    number: int
    system: int
    system_blocks: int
    begins: float
    turns: tuple[tuple[int, int, float], ...]

    def chain(self, tokens: int) -> list[int]:
        """Return the blocks of the system prompt and so many tokens behind it."""
        own = (self.number + 1) * 2 * MOST_BLOCKS
        shared = (self.system * 2 + 1) * MOST_BLOCKS
        return [*range(shared, shared + self.system_blocks), *range(own, own + tokens // BLOCK)]


def conversations_of(workload: Workload) -> list[Conversation]:
    """Return the conversations of a workload: 4 to 12 turns, system prompts of 512 to 4,096 tokens."""
    chance = random.Random(workload.seed)
    blocks = [chance.randrange(512, 4096) // BLOCK for _ in range(workload.systems)]
    found = []
    for number in range(workload.conversations):
        system = chance.randrange(workload.systems)
        turns = tuple(
            (chance.randrange(20, 400), chance.randrange(50, 600), chance.expovariate(1 / workload.think_seconds))
            for _ in range(chance.randrange(4, 13))
        )
        begins = chance.uniform(0, workload.begin_within_seconds)
        found.append(Conversation(number, system, blocks[system], begins, turns))
    return found


class Cache:
    """The prefix cache of an engine: the blocks that were used last, of a prefix its end goes first."""

    def __init__(self, tokens: int) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()
        self._most = tokens // BLOCK

    def matched(self, chain: Sequence[int]) -> int:
        """Return how many blocks of a prompt are there, from its beginning on."""
        blocks = self._blocks
        return next((count for count, block in enumerate(chain) if block not in blocks), len(chain))

    def keep(self, chain: Sequence[int]) -> None:
        """Make blocks the last ones used."""
        for block in reversed(chain):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)


@dataclass
class Engines:
    """The engines of a simulation: their caches, and what is in flight at them, in all and by replica."""

    urls: tuple[str, ...]
    caches: list[Cache]
    in_flight: Counter[str] = field(default_factory=Counter)
    seen: list[Counter[str]] = field(default_factory=list)


Choice = Callable[[Engines, int, Conversation, Sequence[int]], str]
"""Returns the engine for a prompt of a conversation that came to a replica."""


def by_policy(policy: Policy, workload: Workload) -> Choice:
    """Choose as the replicas of a router do, each from its own turns, chances and counts."""
    chances = [random.Random(f"{workload.seed} {replica}") for replica in range(workload.replicas)]
    turns = [0] * workload.replicas

    def choose(engines: Engines, replica: int, conversation: Conversation, _: Sequence[int]) -> str:
        chance = chances[replica].random
        load = engines.seen[replica].__getitem__
        key = hash_of(b"%d" % conversation.number)
        turns[replica] += 1
        return policy.choose(BalancingContext(engines.urls, turns[replica], (chance(), chance()), load, key))

    return choose


def by_all_knowledge(engines: Engines, _replica: int, _conversation: Conversation, chain: Sequence[int]) -> str:
    """Choose what no router can: of engines that are not too full, the one that has most of the prompt right now."""
    bound = 1.25 * (engines.in_flight.total() + 1) / len(engines.urls)
    ranked = [
        (cache.matched(chain), -engines.in_flight[url], url)
        for url, cache in zip(engines.urls, engines.caches, strict=True)
        if engines.in_flight[url] < bound
    ]
    return max(ranked)[2]


@dataclass(frozen=True)
class Figures:
    """What came of a simulation."""

    hit_rate: float
    """Share of the prompts' tokens that were in the cache of the engine that got them."""
    requests_spread: float
    """Requests of the engine that got most, as a multiple of the mean."""
    load_spread: float
    """In flight at the fullest engine, as a multiple of the mean: on average over the arrivals of busy times."""
    changes: float
    """Share of the turns that went to another engine than the turn before."""
    in_flight: float
    """Requests in flight per engine, on average over all arrivals."""


def simulate(workload: Workload, choose: Choice) -> Figures:
    """Let all conversations take place."""
    urls = tuple(f"http://10.0.{number // 256}.{number % 256}:30000" for number in range(workload.engines))
    engines = Engines(urls, [Cache(workload.cache_tokens) for _ in urls])
    engines.seen = [Counter() for _ in range(workload.replicas)]
    cache_of = dict(zip(urls, engines.caches, strict=True))
    balancer = random.Random(workload.seed + 1)
    requests: Counter[str] = Counter()
    spreads, means = [], []
    hits = tokens = changes = followed = 0
    order = 0
    heap: list[tuple[float, int, Conversation, int, int, tuple[str, int] | None]] = []
    for conversation in conversations_of(workload):
        heapq.heappush(heap, (conversation.begins, order, conversation, 0, 0, None))
        order += 1
    last: dict[int, str] = {}
    between_looks = max(1, len(urls) // 16)
    while heap:
        now, _, conversation, turn, history, running = heapq.heappop(heap)
        asks, answers, pause = conversation.turns[turn]
        order += 1
        if running is not None:
            engine, replica = running
            engines.in_flight[engine] -= 1
            engines.seen[replica][engine] -= 1
            cache_of[engine].keep(conversation.chain(history + asks + answers))
            if turn + 1 < len(conversation.turns):
                heapq.heappush(heap, (now + pause, order, conversation, turn + 1, history + asks + answers, None))
            continue
        chain = conversation.chain(history + asks)
        replica = balancer.randrange(workload.replicas)
        engine = choose(engines, replica, conversation, chain)
        cached = cache_of[engine].matched(chain) * BLOCK
        prompt = conversation.system_blocks * BLOCK + history + asks
        hits, tokens = hits + cached, tokens + prompt
        cache_of[engine].keep(chain)
        engines.in_flight[engine] += 1
        engines.seen[replica][engine] += 1
        requests[engine] += 1
        followed += turn > 0
        changes += turn > 0 and last[conversation.number] != engine
        last[conversation.number] = engine
        if order % between_looks == 0:
            means.append(engines.in_flight.total() / len(urls))
            spreads.append(max(engines.in_flight.values()) / means[-1])
        seconds = (prompt - cached) / PREFILL_TOKENS_PER_SECOND + answers * DECODE_SECONDS_PER_TOKEN
        heapq.heappush(heap, (now + seconds, order, conversation, turn, history, (engine, replica)))
    mean = requests.total() / len(urls)
    usual = statistics.fmean(means)
    busy = [spread for spread, load in zip(spreads, means, strict=True) if load >= usual / 2]
    return Figures(hits / tokens, max(requests.values()) / mean, statistics.fmean(busy), changes / followed, usual)


def ceiling(workload: Workload) -> float:
    """Return the hit rate of one cache that all engines share and that forgets nothing."""
    one = replace(workload, engines=1, cache_tokens=MOST_BLOCKS * BLOCK * 1000)
    return simulate(one, lambda engines, *_: engines.urls[0]).hit_rate


def print_policies(workload: Workload, *, with_best: bool = True) -> None:
    """Print what each policy makes of a workload."""
    affinity = PrefixAffinity()
    rows: list[tuple[str, Choice]] = [
        ("`round_robin`", by_policy(RoundRobin(), workload)),
        ("`least_inflight`", by_policy(LeastInflight(), workload)),
        (f"`prefix_affinity` (spare {affinity.min_bound})", by_policy(affinity, workload)),
    ]
    for name, spare in (("spare 1", 1), ("spare 8", 8), ("no bound", 1 << 30)):
        rows.append((f"`prefix_affinity`, {name}", by_policy(replace(affinity, min_bound=spare), workload)))
    if with_best:
        rows.append(("best below the bound, all caches known", by_all_knowledge))
    print(
        f"\n{workload.conversations:,} conversations, {workload.engines:,} engines with a cache of "
        f"{workload.cache_tokens:,} tokens each, {workload.replicas} replicas:\n"
    )
    print("| policy | hit rate | requests, max/mean | in flight, max/mean | turns that change engine |")
    print("|---|---|---|---|---|")
    in_flight_table = []
    for name, choice in rows:
        found = simulate(workload, choice)
        in_flight_table.append(found.in_flight)
        spreads = f"{found.requests_spread:.2f} | {found.load_spread:.2f}"
        print(f"| {name} | {found.hit_rate:.1%} | {spreads} | {found.changes:.1%} |", flush=True)
    print(f"| one cache for all that forgets nothing | {ceiling(workload):.1%} | | | |")
    print(f"\n{statistics.mean(in_flight_table):.1f} requests in flight per engine on average.", flush=True)


def homes(engines: Sequence[str], keys: int) -> list[str]:
    """Return where so many keys are at home."""
    policy = PrefixAffinity()
    urls = tuple(engines)
    return [
        policy.choose(BalancingContext(urls, 0, (0.0, 0.0), lambda _: 0, hash_of(b"%d" % number)))
        for number in range(keys)
    ]


def print_moves(keys: int = 20_000) -> None:
    """Print how evenly keys spread, and which share of them moves when an engine leaves or joins."""
    print(f"\n{keys:,} conversations, nothing in flight:\n")
    print("| engines | share of the fullest, max/mean | moved when one leaves | when one joins | by hash mod n |")
    print("|---|---|---|---|---|")
    for count in (4, 16, 64, 1000):
        urls = [f"http://10.1.{number // 256}.{number % 256}:30000" for number in range(count + 1)]
        before, fewer, more = (homes(urls[:number], keys) for number in (count, count - 1, count + 1))
        fullest = max(Counter(before).values()) / (keys / count)
        left, joined = (sum(a != b for a, b in zip(before, after, strict=True)) / keys for after in (fewer, more))
        modulo = sum(hash_of(b"%d" % it) % count != hash_of(b"%d" % it) % (count - 1) for it in range(keys)) / keys
        print(f"| {count:,} | {fullest:.2f} | {left:.2%} | {joined:.2%} | {modulo:.1%} |", flush=True)


def fleet_of(count: int) -> EngineRegistry:
    """Return a fleet of so many healthy engines that list one model."""
    urls = tuple(f"http://10.2.{number // 256}.{number % 256}:30000" for number in range(count))
    registry = EngineRegistry(urls, (), has_aliases=False, breaker=BreakerConfig(5, 2.0))
    for url in urls:
        registry.record_health_check(url, HealthCheckResult(HealthState.HEALTHY, ({"id": "served"},)))
    return registry


def microseconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a call: the best of some rounds, steadier than the clock on a shared machine."""
    timer = timeit.Timer(work, timer=time.thread_time)
    count = 1
    while timer.timeit(count) < MEASURED_SECONDS:
        count *= 2
    return min(timer.repeat(5, count)) / count * 1e6


def choices(registry: EngineRegistry, count: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what a choice consists of, in front of so many engines, 3 requests in flight at each from 8 workers."""
    in_flight_table = InFlightTable(ROWS, is_shared=True)
    rows = WorkerRows([in_flight_table])
    for worker in range(8):
        rows.allocate(worker, range(8))
        for engine in registry.candidates(None):
            if worker < 3:
                in_flight_table.begin(engine)
    candidates = registry.candidates(None)
    yield "the fleet's candidates", lambda: registry.candidates("served")
    policies: dict[str, Policy] = {
        "`round_robin`": RoundRobin(),
        "`least_inflight`": LeastInflight(),
        "`prefix_affinity`": PrefixAffinity(),
    }
    situation = BalancingContext(candidates, 7, (0.3, 0.7), in_flight_table.load, hash_of(b"a"))
    for name, policy in policies.items():
        yield f"{name} alone", lambda policy=policy: policy.choose(situation)  # type: ignore[misc]
    for name, policy in policies.items():
        load_balancer = LoadBalancer(registry, policy, in_flight_table)
        yield f"{name} with the candidates", lambda load_balancer=load_balancer: load_balancer.choose("served", 7)  # type: ignore[misc]
    yield "a load", lambda: in_flight_table.load(candidates[count // 2])
    yield "one more in flight, and its end", lambda: in_flight_table.begin(candidates[0]).end()


def print_costs() -> None:
    """Print the µs that a choice and a key cost on this machine, and the memory of the table."""
    table: dict[str, list[float]] = {}
    for count in (16, 1000):
        for name, work in choices(fleet_of(count), count):
            table.setdefault(name, []).append(microseconds(work))
    print("\n| µs | 16 engines | 1,000 engines |\n|---|---|---|")
    for name, costs in table.items():
        print(f"| {name} | {' | '.join(f'{cost:.1f}' for cost in costs)} |")
    print("\n| the key of a chat body | µs |\n|---|---|")
    bodies: list[tuple[str, Any, bytes]] = [
        (f"{size // 1024} KiB", None, body_of(size)) for size in (1024, 32768, 2**20)
    ]
    for name, session, body in [*bodies, ("with a session header", "a-session", body_of(1024))]:
        print(f"| {name} | {microseconds(lambda session=session, body=body: compute_key(session, body)):.1f} |")  # type: ignore[misc]
    mapped = 8 * (COLUMNS + 1) + CELL_BYTES * ROWS * COLUMNS
    column = CELL_BYTES * ROWS / 1024
    print(
        f"\nThe table maps {mapped / 2**20:.1f} MiB a machine, of which an engine that is known takes {column:.0f} KiB."
    )


def print_fleet(engines: int = 1000, replicas: int = 50, workers: int = 4, seconds: float = 10.0) -> None:
    """Print what probing a large fleet comes to."""
    probes = engines * replicas * workers / seconds
    print(
        f"\n{engines:,} engines, {replicas} replicas of {workers} workers, a look every {seconds:g} s: "
        f"{probes:,.0f} looks (two requests each) a second in all, {probes / engines:g} at each engine, "
        f"{probes / replicas / workers:g} by each worker, which has {engines:,} threads for them."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, measure and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large", action="store_true", help="simulate 1,000 engines and 50 replicas instead: minutes")
    parser.add_argument("--skip-costs", action="store_true", help="print only what depends on the seed alone")
    options = parser.parse_args(arguments)
    if not options.large:
        for cache_tokens in (100_000, 300_000, 1_000_000):
            print_policies(Workload(seed=options.seed, cache_tokens=cache_tokens))
        print_moves()
    else:
        large = Workload(1000, 50, 10_000, 100, seed=options.seed)
        print_policies(large, with_best=False)
    if not options.skip_costs:
        print_costs()
        print_fleet()


if __name__ == "__main__":
    main()
