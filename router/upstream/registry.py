"""The registry of engines: which of them take requests, and which models each lists."""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from router.contract.decide import ServedIds
from router.request.outcome import Outcome, TrialResult
from router.upstream import circuit_breaker
from router.upstream.circuit_breaker import BreakerConfig, EngineHealth, HealthState
from router.upstream.engine_state import (
    REQUEST_FAILED,
    STATE_NAMES,
    ConfiguredIds,
    EngineState,
    HealthCheckResult,
    ModelCard,
    problem_of,
)

_NO_IDS: Final[ConfiguredIds] = MappingProxyType({})
_SUSPECT_OUTCOMES: Final = frozenset({Outcome.UNREACHABLE, Outcome.BROKEN, Outcome.TIMED_OUT})
_NO_REQUESTS: Final = ", so it gets no requests"
_MODELS_HINT: Final = "what it serves can be given in ROUTER_ENGINES: {} models=ID"
_MAX_LISTED: Final = 10
# Unlike a seeded generator it differs between forked processes, and threads of health checks share no state with it.
_RNG: Final = random.SystemRandom()
_LOG = logging.getLogger("router")


class _EngineStates(dict[str, EngineState]):
    """The engines in their order, each with its state; an engine that has left has an empty state."""

    def __missing__(self, _: str) -> EngineState:
        return EngineState()


class EngineRegistry:
    """Engines by base URL with their states; they may join and leave. Safe to use from many threads."""

    def __init__(  # noqa: PLR0913 - tests replace clock and rng
        self,
        engines: tuple[str, ...],
        configured_ids: tuple[str, ...],
        *,
        has_aliases: bool,
        breaker: BreakerConfig,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = _RNG.random,
    ) -> None:
        self._configured_ids = configured_ids
        self._has_aliases = has_aliases
        self._breaker = breaker
        self._clock = clock
        self._rng = rng
        self._lock = threading.Lock()
        self._states = _EngineStates((engine, EngineState()) for engine in engines)
        self._candidates_cache: tuple[dict[str, EngineState], dict[str, tuple[str, ...]]] = self._states, {}
        """The candidates for each model, and the states that they were computed from."""
        self._served_cache: tuple[dict[str, EngineState], ServedIds] = (
            self._states,
            _served_ids(self._states, configured_ids),
        )
        """The served ids, and the states that they were computed from."""
        self._suspect_callback: Callable[[str], None] = lambda _: None

    # --- which engines there are ---

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines, in their order."""
        return tuple(self._states)

    def set_engines(
        self, engines: Iterable[str], engine_ids: ConfiguredIds = _NO_IDS
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Set the engines, with their configured ids, and return those that joined and those that left.

        An engine that stays keeps its state. One that joins gets no request before its first health check succeeds. One
        that left gets no new request and its state is dropped; its requests in flight continue.
        """
        with self._lock:
            before = self._states
            self._states = _EngineStates(
                (each, before[each]._replace(configured_ids=engine_ids.get(each, before[each].configured_ids)))
                for each in engines
            )
            joined = tuple(engine for engine in self._states if engine not in before)
            left = tuple(engine for engine in before if engine not in self._states)
        for engine in joined:
            _LOG.info("engine %s joined", engine)
        for engine in left:
            _LOG.info("engine %s left", engine)
        return joined, left

    # --- changes of state ---

    def on_suspect(self, callback: Callable[[str], None]) -> None:
        """Set the function that is called with an engine that should be checked now; it must not block."""
        self._suspect_callback = callback

    def restore_model_lists(self, lists: Mapping[str, tuple[ModelCard, ...]]) -> None:
        """Set the model lists that other processes read; an engine gets requests once its list is confirmed here."""
        with self._lock:
            for engine, cards in lists.items():
                if engine in self._states and self._states[engine].model_cards is None:
                    self._put(engine, self._states[engine]._replace(model_cards=cards))

    def record_health_check(self, engine: str, result: HealthCheckResult) -> bool:
        """Record the result of a health check and return whether the model list has changed.

        An engine that gives no list keeps the one that it gave before, unless a check has failed since.
        """
        with self._lock:
            if engine not in self._states:
                return False
            before = self._states[engine]
            cards = result.model_cards if result.model_cards is not None else before.model_cards
            is_confirmed = result.state is HealthState.HEALTHY and (
                result.model_cards is not None or before.is_list_confirmed
            )
            known = before._replace(
                health=circuit_breaker.record_health_check(before.health, result.state),
                model_cards=cards,
                is_list_confirmed=is_confirmed,
            )
            problem = result.problem
            if result.state is HealthState.HEALTHY:
                problem = self._list_problem(engine, known, result.problem)
            self._put(engine, known._replace(problem=problem))
        if _is_logged(result.state, problem, before):
            _log_state(engine, result.state, problem)
        return cards != before.model_cards

    def _list_problem(self, engine: str, known: EngineState, problem: str) -> str:
        """Return the problem of a healthy engine's model list, "" if there is none."""
        if not known.has_list:
            return f"{problem or '/v1/models gives no list'}{_NO_REQUESTS}; {_MODELS_HINT.format(engine)}"
        if not known.ids:
            return f"/v1/models lists no model{_NO_REQUESTS}; {_MODELS_HINT.format(engine)}"
        if self._configured_ids and set(known.ids).isdisjoint(self._configured_ids):
            configured = _id_list(self._configured_ids)
            return f"it lists {_id_list(known.ids)}, none of ROUTER_MODEL_ID ({configured}){_NO_REQUESTS}"
        return "" if known.configured_ids else problem

    def record_outcome(self, engine: str, outcome: Outcome) -> None:
        """Record the outcome of a request, and have the engine checked now if it is suspect."""
        if outcome is Outcome.SUCCEEDED and self._states[engine].health.has_no_failures:
            return
        now = self._clock()
        before, after = self._update_health(
            engine,
            _cause(outcome),
            lambda it: circuit_breaker.record_outcome(it, outcome, self._breaker, now, self._rng()),
        )
        # A circuit that opens has its trial before the next scheduled check.
        opened = after.is_open and not before.is_open
        if opened or outcome in _SUSPECT_OUTCOMES or circuit_breaker.half_open_at(after, self._breaker) <= now:
            self._suspect_callback(engine)

    def begin_trial(self, engine: str) -> bool:
        """Begin a half-open trial if its delay has passed. Return whether it began; then call `end_trial`."""
        with self._lock:
            known = self._states[engine]
            due = circuit_breaker.half_open_at(known.health, self._breaker) <= self._clock()
            if due:
                self._put(engine, known._replace(health=circuit_breaker.begin_trial(known.health)))
        return due

    def end_trial(self, engine: str, result: TrialResult, cause: str) -> None:
        """Record the result of a trial; `cause` explains it in the log."""
        now = self._clock()
        self._update_health(
            engine, cause, lambda it: circuit_breaker.end_trial(it, result, self._breaker, now, self._rng())
        )

    def seconds_until_check(self, engine: str, healthy_seconds: float, other_seconds: float) -> float:
        """Return the time until the next check of an engine, with jitter, and not after its trial.

        A healthy engine without a model list is checked as often as an unhealthy one.
        """
        known = self._states[engine]
        is_well = known.health.state is HealthState.HEALTHY and known.has_list
        wait = circuit_breaker.add_jitter(healthy_seconds if is_well else other_seconds, self._rng())
        return min(wait, max(0.0, circuit_breaker.half_open_at(known.health, self._breaker) - self._clock()))

    def is_suspect(self, engine: str) -> bool:
        """Return whether a check of an engine may take long: it gets no requests, or its trial is due."""
        known = self._states[engine].health
        return not known.takes_requests or circuit_breaker.half_open_at(known, self._breaker) <= self._clock()

    def _update_health(
        self, engine: str, cause: str, step: Callable[[EngineHealth], EngineHealth]
    ) -> tuple[EngineHealth, EngineHealth]:
        with self._lock:
            known = self._states[engine]
            if engine not in self._states:
                return known.health, known.health
            before, after = known.health, step(known.health)
            if after is not before:
                known = known._replace(health=after)
                if after.state is not before.state:
                    known = known._replace(is_list_confirmed=False, problem="")
                self._put(engine, known)
        if after.state is not before.state:
            _log_state(engine, after.state, REQUEST_FAILED)
        if after.is_open and not before.is_open:
            _LOG.warning("engine %s gets no more requests until a trial succeeds: %s", engine, cause)
        if before.is_open and not after.is_open:
            _LOG.info("engine %s gets requests again: %s", engine, cause)
        return before, after

    def _put(self, engine: str, known: EngineState) -> None:
        # Readers take no lock, so the states are replaced as a whole; what is computed from them is kept otherwise.
        if known != self._states.get(engine):
            states = _EngineStates(self._states)
            states[engine] = known
            self._states = states

    # --- which engines may be chosen ---

    def healthy_engines(self) -> tuple[str, ...]:
        """Return the engines whose last health check succeeded, in their order."""
        return tuple(engine for engine, known in self._states.items() if known.health.state is HealthState.HEALTHY)

    def state_counts(self) -> dict[str, int]:
        """Return the number of configured or discovered engines in each state, and with an open circuit."""
        known = self._states.values()
        states = Counter(each.health.state for each in known)
        of_each = {state.value: states[state] for state in HealthState}
        return {"configured": len(known), **of_each, "open": sum(each.health.is_open for each in known)}

    def problems(self) -> dict[str, str]:
        """Return the problem of each engine that has one or gets no requests."""
        problems = {engine: problem_of(known) for engine, known in self._states.items()}
        return {engine: problem for engine, problem in problems.items() if problem}

    def available_count(self) -> int:
        """Return how many engines get requests at the moment."""
        served = self.served_ids().ids
        return sum(any(map(known.takes_requests_for, served)) for known in self._states.values())

    def has_candidates(self, model: str, excluding: Collection[str]) -> bool:
        """Return whether there are candidates."""
        return bool(self.candidates(model, excluding))

    def candidates(self, model: str, excluding: Collection[str] = ()) -> tuple[str, ...]:
        """Return the engines that take requests and are known to list the model, in the configured order."""
        known = self._states
        if excluding:
            return _candidates(known, model, excluding)
        remembered = self._candidates_cache
        if remembered[0] is not known:
            remembered = self._candidates_cache = known, {}
        of_models = remembered[1]
        if model not in of_models:
            of_models[model] = _candidates(known, model, ())
        return of_models[model]

    # --- what is served ---

    def trial_model(self, engine: str) -> str | None:
        """Return the model of a trial request: the first that the engine lists, else the first configured."""
        listed = self._states[engine].ids or ()
        return next(iter((*listed, *self._configured_ids)), None)

    def served_ids(self) -> ServedIds:
        """Return the configured model ids, else the union of what the engines list."""
        known, served = self._served_cache
        if known is not self._states:
            known = self._states
            served = _served_ids(known, self._configured_ids)
            self._served_cache = known, served
        return served

    def model_cards(self) -> list[ModelCard]:
        """Return the cards of all engines, as they list them."""
        return [card for known in self._states.values() for card in known.model_cards or ()]

    def max_model_len(self, engine: str, model: str) -> int | None:
        """Return the `max_model_len` in tokens that an engine lists for a model; None where it lists none."""
        cards = self._states[engine].model_cards or ()
        longest = next((card.get("max_model_len") for card in cards if card["id"] == model), None)
        return longest if type(longest) is int and longest > 0 else None

    def not_ready_reason(self) -> str | None:
        """Return why this router is not ready to serve; None if it is ready."""
        served = self.served_ids()
        if not self._states:
            return "no engine is known yet"
        if not self.healthy_engines():
            return "no engine is healthy"
        if not any(each.health.takes_requests for each in self._states.values()):
            return "every healthy engine failed too often and waits for its trial"
        if not served.ids:
            return "no engine has listed a model yet"
        if not self.available_count():
            ids = f"ROUTER_MODEL_ID ({_id_list(served.ids)})" if self._configured_ids else _id_list(served.ids)
            return f"no healthy engine lists any of {ids}"
        if self._has_aliases and not served.routes_aliases:
            return "several models are served: set ROUTER_MODEL_ID to the one that the aliases mean, first in the list"
        return None


def _served_ids(known: Mapping[str, EngineState], configured: tuple[str, ...]) -> ServedIds:
    each = [known_of.ids or [] for known_of in known.values()]
    listed_ids = dict.fromkeys(model for listed in each for model in listed)
    ids = configured or tuple(listed_ids)
    is_complete = _have_all_lists(known.values())
    only = ids[0] if len(ids) == 1 else None
    # An engine that lists other models, too, may use another one as its default.
    is_alone = all(len(listed) == 1 for listed in each if only in listed)
    return ServedIds(
        ids,
        routes_aliases=bool(configured) or only is not None,
        is_complete=bool(configured) or is_complete,
        default=only if is_alone else None,
        absent=frozenset(configured) - listed_ids.keys() if is_complete else frozenset(),
    )


def _have_all_lists(known: Collection[EngineState]) -> bool:
    """Return whether every engine has a known model list, perhaps from another process or from before a failure."""
    return bool(known) and all(each.ids is not None for each in known)


def _candidates(known: dict[str, EngineState], model: str, excluding: Collection[str]) -> tuple[str, ...]:
    return tuple(engine for engine, each in known.items() if engine not in excluding and each.takes_requests_for(model))


def _is_logged(state: HealthState, problem: str, before: EngineState) -> bool:
    """Return whether a health check is logged. A new problem of an engine that requests found unhealthy is not."""
    if state is not before.health.state:
        return True
    return problem != before.problem and (bool(before.problem) or state is HealthState.HEALTHY)


def _id_list(ids: Collection[str]) -> str:
    """Return model ids as text, at most the first ten."""
    return ", ".join(list(ids)[:_MAX_LISTED]) + (", …" if len(ids) > _MAX_LISTED else "")


def _log_state(engine: str, state: HealthState, problem: str) -> None:
    name = STATE_NAMES.get(state, state.value)
    level = logging.WARNING if problem else logging.INFO
    _LOG.log(level, "engine %s is %s", engine, f"{name}: {problem}" if problem else name)


def _cause(outcome: Outcome) -> str:
    return "a request succeeded" if outcome is Outcome.SUCCEEDED else f"too many failures in a row, now {outcome.value}"
