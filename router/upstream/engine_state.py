"""The state of an engine: its health, the models that it lists, and its problem."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from router.upstream.circuit_breaker import EngineHealth, HealthState

ModelCard = dict[str, Any]
"""An engine's description of one model, as `GET /v1/models` lists it."""

ConfiguredIds = Mapping[str, tuple[str, ...]]
"""The model ids that the settings give to engines, in place of what those list."""

STATE_NAMES: Final = {HealthState.UNHEALTHY: "not healthy"}
REQUEST_FAILED: Final = "a request could not reach it"
_CIRCUIT_OPEN: Final = "it failed too often and waits for its trial"


class HealthCheckResult(NamedTuple):
    """The result of a health check: the engine's state, its model list (None: it has none), and its problem."""

    state: HealthState
    model_cards: tuple[ModelCard, ...] | None = None
    problem: str = ""


class EngineState(NamedTuple):
    """What is known of one engine.

    model_cards: its newest model list, read by any process; None: it has never given one.
    configured_ids: the model ids that the settings give it; they replace its list.
    is_list_confirmed: it gave its list to this process, and no health check has failed since.
    problem: what the last health check found wrong; empty when a request could not reach the engine.
    """

    health: EngineHealth = EngineHealth()
    model_cards: tuple[ModelCard, ...] | None = None
    configured_ids: tuple[str, ...] = ()
    is_list_confirmed: bool = False
    problem: str = "not checked yet"

    @property
    def ids(self) -> list[str] | None:
        """The model ids of the engine, None while its list is not known."""
        if self.configured_ids:
            return list(self.configured_ids)
        return None if self.model_cards is None else ids_of(self.model_cards)

    @property
    def has_list(self) -> bool:
        """Whether its model ids are known for certain: configured or confirmed."""
        return self.is_list_confirmed or bool(self.configured_ids)

    def lists(self, model: str) -> bool:
        """Return whether a model is among the engine's ids."""
        return model in (self.ids or ())

    def takes_requests_for(self, model: str) -> bool:
        """Return whether a request for a model may go to the engine now."""
        return self.health.takes_requests and self.has_list and self.lists(model)


def ids_of(cards: Iterable[ModelCard]) -> list[str]:
    """Return the model ids of cards."""
    return [card["id"] for card in cards]


def problem_of(known: EngineState) -> str:
    """Return why an engine gets no requests, or what else is wrong with it."""
    state = known.health.state
    if state is not HealthState.HEALTHY:
        return f"{STATE_NAMES.get(state, state.value)}: {known.problem or REQUEST_FAILED}"
    return _CIRCUIT_OPEN if known.health.is_open else known.problem
