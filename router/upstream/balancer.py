"""The load balancer: the policy's choice among the engines that serve the model."""

import itertools
import random
from collections.abc import Callable, Collection

from router.balancing import affinity_key
from router.balancing.in_flight import InFlightTable
from router.balancing.policies import BalancingContext, Policy
from router.contract.errors import ApiError
from router.runtime import cpu_executor
from router.upstream.registry import EngineRegistry


class LoadBalancer:
    """Chooses engines by one policy. Safe to use from many threads."""

    def __init__(
        self,
        registry: EngineRegistry,
        policy: Policy,
        in_flight_table: InFlightTable,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._registry = registry
        self._policy = policy
        self._in_flight_table = in_flight_table
        self._rng = rng
        self._sequence = itertools.count()
        self.uses_key = policy.uses_key
        """Whether the policy uses the affinity key."""

    def affinity_key(self, session: str | None, body: bytes) -> int | None:
        """Return the affinity key of a request; None if the policy does not use it."""
        return cpu_executor.run(len(body), affinity_key.compute_key, session, body) if self.uses_key else None

    def choose(self, model: str, key: int | None = None, excluding: Collection[str] = ()) -> str:
        """Return an engine that takes requests and is known to list the model.

        Raises ApiError `no_healthy_engines` when there is none outside `excluding`.
        """
        candidates = self._registry.candidates(model, excluding)
        if not candidates:
            raise ApiError("no_healthy_engines", "No engine that serves this model is healthy at the moment")
        chances = (self._rng(), self._rng())
        return self._policy.choose(
            BalancingContext(candidates, next(self._sequence), chances, self._in_flight_table.load, key)
        )
