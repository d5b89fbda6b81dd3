"""The engine of a request: the policy's choice among those of the fleet that may serve it."""

import itertools
import random
from collections.abc import Callable, Collection

from router.balancing import affinity_key
from router.balancing.in_flight import Loads
from router.balancing.policies import Policy, Situation
from router.contract.errors import ApiError
from router.runtime import cpu_executor
from router.upstream.registry import Fleet


class Chooser:
    """Chooses by one policy, from what the fleet knows and what is in flight. Safe to use from many threads."""

    def __init__(self, fleet: Fleet, policy: Policy, loads: Loads, chance: Callable[[], float] = random.random) -> None:
        self._fleet = fleet
        self._policy = policy
        self._loads = loads
        self._chance = chance
        self._turns = itertools.count()
        self.asks_for_key = policy.asks_for_key
        """Does the policy keep together what belongs together?"""

    def key_of(self, session: str | None, body: bytes) -> int | None:
        """Return what a request should stay together with, where the policy asks for it."""
        return cpu_executor.run(len(body), affinity_key.key_of, session, body) if self.asks_for_key else None

    def choose(self, model: str, key: int | None = None, excluding: Collection[str] = ()) -> str:
        """Return an engine that takes requests and is known to list the model.

        Raises ApiError `no_healthy_engines` when there is none outside `excluding`.
        """
        candidates = self._fleet.candidates(model, excluding)
        if not candidates:
            raise ApiError("no_healthy_engines", "No engine that serves this model is healthy at the moment")
        chances = (self._chance(), self._chance())
        return self._policy.choose(Situation(candidates, next(self._turns), chances, self._loads.load, key))
