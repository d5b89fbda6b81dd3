"""The engine of a request: the policy's choice among those of the fleet that may serve it."""

import itertools
import random
from collections.abc import Callable, Collection

from router import long_work
from router.contract.errors import ApiError
from router.engines import affinity
from router.engines.fleet import Fleet
from router.engines.loads import Loads
from router.engines.policies import Policy, Situation


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
        return long_work.do(len(body), affinity.key_of, session, body) if self.asks_for_key else None

    def choose(self, model: str, key: int | None = None, excluding: Collection[str] = ()) -> str:
        """Return an engine that takes requests and is known to list the model.

        Raises ApiError `no_healthy_engines` when there is none outside `excluding`.
        """
        candidates = self._fleet.candidates(model, excluding)
        if not candidates:
            raise ApiError("no_healthy_engines", "No engine that serves this model is healthy at the moment")
        chances = (self._chance(), self._chance())
        return self._policy.choose(Situation(candidates, next(self._turns), chances, self._loads.load, key))
