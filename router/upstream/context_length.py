"""Engines whose context is too short for the token limit that the contract injects."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from router.upstream import shared_cache
from router.upstream.registry import EngineRegistry

_LOG = logging.getLogger("router")


class Overflow(NamedTuple):
    """A budget in tokens that an engine rejected, and the `max_model_len` that it listed (None: it lists none)."""

    budget: int
    max_model_len: int | None

    def __str__(self) -> str:
        said = f"too small for the contract: it rejects the default budget of {self.budget} tokens; "
        if self.max_model_len is None:
            return f"{said}it lists no max_model_len, so a request that sends no budget is sent to it twice"
        return f"{said}its max_model_len is {self.max_model_len}, so no default is injected for it any more"


class ContextLimits:
    """The engines whose context is too short for a contract. Safe to use from many threads.

    Each process finds out by one rejected request. The first to find out logs it, and all report it.
    """

    def __init__(self, registry: EngineRegistry, digest: str) -> None:
        self._registry = registry
        self._digest = digest
        self._too_small: frozenset[tuple[str, str]] = frozenset()

    def is_exceeded_by(self, engine: str, model: str, budget: int) -> bool:
        """Return whether an engine is known to reject such a budget, and limits the output itself.

        Where an engine lists no length, only its response shows whether prompt and budget fit.
        """
        if (engine, model) not in self._too_small:
            return False
        longest = self._registry.max_model_len(engine, model)
        return longest is not None and longest <= budget

    def record_overflow(self, engine: str, model: str, budget: int) -> None:
        """Record that an engine rejected a budget and accepted the request without it; log it the first time.

        An engine that lists more than the budget is not too small: the prompt was long.
        """
        longest = self._registry.max_model_len(engine, model)
        if longest is not None and longest > budget:
            return
        engines = self._registry.engines
        self._too_small = frozenset(pair for pair in self._too_small if pair[0] in engines) | {(engine, model)}
        if shared_cache.store_overflow(self._digest, engine, model, (budget, longest), among=engines):
            _LOG.warning("engine %s with %s is %s", engine, model, Overflow(budget, longest))

    def problems(self) -> dict[str, str]:
        """Return the problem of each engine that is too small, found by any process."""
        known = shared_cache.load_overflows(self._digest)
        found = {engine: self._current_overflows(engine, known.get(engine, {})) for engine in self._registry.engines}
        return {engine: str(overflows[0]) for engine, overflows in found.items() if overflows}

    def _current_overflows(self, engine: str, overflows: Mapping[str, tuple[int, int | None]]) -> list[Overflow]:
        """Return the overflows of an engine, without models that it now lists with a longer context."""
        noted = {model: Overflow(*overflow) for model, overflow in overflows.items()}
        return [
            each for model, each in noted.items() if (self._registry.max_model_len(engine, model) or 0) <= each.budget
        ]
