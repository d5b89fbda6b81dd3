"""The engines of one router: which of them take requests, and what they serve."""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

from router.contract.decision import ServedIds
from router.engines import health
from router.engines.health import Breaker, Health, State
from router.engines.outcome import Outcome, Verdict

Card = dict[str, Any]
"""An engine's description of one model, as `GET /v1/models` lists it."""

_ASK_FOR_A_LOOK: Final = frozenset({Outcome.UNREACHABLE, Outcome.BROKEN, Outcome.TIMED_OUT})
_SPOKEN: Final = {State.UNHEALTHY: "not healthy"}
_LOG = logging.getLogger("router")


class Report(NamedTuple):
    """What a probe found: the engine's state, what it lists (None: it does not tell), what is wrong."""

    state: State
    cards: tuple[Card, ...] | None = None
    problem: str = ""


class _Known(NamedTuple):
    """What is known of one engine; a problem is that of the last probe, none when a request found the engine gone."""

    health: Health = Health()
    cards: tuple[Card, ...] | None = None
    problem: str = "not looked at yet"

    def lists(self, model: str | None) -> bool:
        return self.cards is not None and model in ids_of(self.cards)

    def may_serve(self, model: str | None) -> bool:
        return model is None or self.cards is None or self.lists(model)


class _Members(dict[str, _Known]):
    """The engines of a fleet in their order, with what is known of each; of an engine that has left, nothing is."""

    def __missing__(self, _: str) -> _Known:
        return _Known()


class Fleet:
    """Engines by base URL with what is known of each; they may come and go. Safe to use from many threads."""

    def __init__(  # noqa: PLR0913 - clock and chance are here to be replaced in tests
        self,
        engines: tuple[str, ...],
        configured_ids: tuple[str, ...],
        *,
        has_aliases: bool,
        breaker: Breaker,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._configured_ids = configured_ids
        self._has_aliases = has_aliases
        self._breaker = breaker
        self._clock = clock
        self._chance = chance
        self._lock = threading.Lock()
        self._known = _Members((engine, _Known()) for engine in engines)
        self._remembered: tuple[dict[str, _Known], dict[str | None, tuple[str, ...]]] = self._known, {}
        """The candidates for each model, found in the state of knowledge that stands beside them."""
        self._configured = ServedIds(configured_ids)
        self._listed: tuple[dict[str, _Known], ServedIds] = self._known, _listed(self._known)
        """What the engines list, in the state of knowledge that stands beside it."""
        self._ask_for_a_look: Callable[[str], None] = lambda _: None

    # --- which engines there are ---

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines, in their order."""
        return tuple(self._known)

    def set_engines(self, engines: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Let these be the engines, and return those that joined and those that left.

        One that stays keeps what is known of it. One that joins gets no request before its probe succeeds. One that
        left gets no new request, and is forgotten; the requests that it has go on.
        """
        with self._lock:
            before = self._known
            self._known = _Members((engine, before[engine]) for engine in engines)
            joined = tuple(engine for engine in self._known if engine not in before)
            left = tuple(engine for engine in before if engine not in self._known)
        for engine in joined:
            _LOG.info("engine %s joined", engine)
        for engine in left:
            _LOG.info("engine %s left", engine)
        return joined, left

    # --- what is learnt ---

    def call_when_in_doubt(self, look: Callable[[str], None]) -> None:
        """Name what is to be called with an engine that should be looked at now; it must not block."""
        self._ask_for_a_look = look

    def learn(self, engine: str, report: Report) -> None:
        """Note what a probe found. An engine that lists nothing now keeps the cards that it listed before."""
        with self._lock:
            if engine not in self._known:
                return
            known = self._known[engine]
            cards = report.cards if report.cards is not None else known.cards
            self._put(engine, _Known(health.seen(known.health, report.state), cards, report.problem))
        if _is_news(report, known):
            _say_state(engine, report.state, report.problem)

    def note(self, engine: str, outcome: Outcome) -> None:
        """Note how a request to an engine ended, and ask for a look at the engine where that leaves a doubt."""
        if outcome is Outcome.SUCCEEDED and self._known[engine].health.is_beyond_doubt:
            return
        now = self._clock()
        before, after = self._move(
            engine, _cause(outcome), lambda it: health.noted(it, outcome, self._breaker, now, self._chance())
        )
        # A circuit that opens has its trial before the next look that was planned.
        opened = after.is_open and not before.is_open
        if opened or outcome in _ASK_FOR_A_LOOK or health.trial_at(after, self._breaker) <= now:
            self._ask_for_a_look(engine)

    def begin_trial(self, engine: str) -> bool:
        """Tell whether an engine is to be tried now, by the caller, who has to end the trial."""
        with self._lock:
            known = self._known[engine]
            due = health.trial_at(known.health, self._breaker) <= self._clock()
            if due:
                self._put(engine, known._replace(health=health.trial_begun(known.health)))
        return due

    def end_trial(self, engine: str, verdict: Verdict, cause: str) -> None:
        """Note what the trial of an engine showed, and why, for the log."""
        now = self._clock()
        self._move(engine, cause, lambda it: health.trial_ended(it, verdict, self._breaker, now, self._chance()))

    def seconds_until_look(self, engine: str, healthy_seconds: float, other_seconds: float) -> float:
        """Return how long to wait before the next look at an engine: jittered, and no longer than to its trial."""
        known = self._known[engine].health
        wait = health.jittered(healthy_seconds if known.state is State.HEALTHY else other_seconds, self._chance())
        return min(wait, max(0.0, health.trial_at(known, self._breaker) - self._clock()))

    def is_doubtful(self, engine: str) -> bool:
        """Tell whether a look at an engine may take long: it gets no requests, or its trial is due."""
        known = self._known[engine].health
        return not known.takes_requests or health.trial_at(known, self._breaker) <= self._clock()

    def _move(self, engine: str, cause: str, step: Callable[[Health], Health]) -> tuple[Health, Health]:
        with self._lock:
            known = self._known[engine]
            if engine not in self._known:
                return known.health, known.health
            before, after = known.health, step(known.health)
            if after is not before:
                lost = after.state is not before.state
                self._put(engine, known._replace(health=after, problem="" if lost else known.problem))
        if after.state is not before.state:
            _say_state(engine, after.state, "a request could not reach it")
        if after.is_open and not before.is_open:
            _LOG.warning("engine %s gets no more requests until a trial succeeds: %s", engine, cause)
        if before.is_open and not after.is_open:
            _LOG.info("engine %s gets requests again: %s", engine, cause)
        return before, after

    def _put(self, engine: str, known: _Known) -> None:
        # Readers take no lock: they see the old whole or the new one.
        self._known = _Members(self._known | {engine: known})

    # --- which engines may be chosen ---

    def healthy(self) -> tuple[str, ...]:
        """Return the engines whose last probe succeeded, in their order."""
        return tuple(engine for engine, known in self._known.items() if known.health.state is State.HEALTHY)

    def counts(self) -> dict[str, int]:
        """Return how many engines there are, configured or found, in each state, and behind an open circuit."""
        known = self._known.values()
        states = Counter(each.health.state for each in known)
        of_each = {state.value: states[state] for state in State}
        return {"configured": len(known), **of_each, "open": sum(each.health.is_open for each in known)}

    def available(self) -> int:
        """Return how many engines get requests at the moment."""
        return sum(each.health.takes_requests for each in self._known.values())

    def has_other(self, model: str | None, excluding: Collection[str]) -> bool:
        """Tell whether there are candidates."""
        return bool(self.candidates(model, excluding))

    def candidates(self, model: str | None, excluding: Collection[str] = ()) -> tuple[str, ...]:
        """Return the engines that take requests and, where that is known, serve the model, in the configured order."""
        known = self._known
        if excluding:
            return _serving(known, model, excluding)
        remembered = self._remembered
        if remembered[0] is not known:
            remembered = self._remembered = known, {}
        of_models = remembered[1]
        if model not in of_models:
            of_models[model] = _serving(known, model, ())
        return of_models[model]

    # --- what is served ---

    def trial_model(self, engine: str) -> str | None:
        """Return the model that an engine is tried with: the first that it lists, else the first configured."""
        listed = ids_of(self._known[engine].cards or ())
        return next(iter((*listed, *self._configured_ids)), None)

    def served_ids(self) -> ServedIds:
        """Return the configured model ids, else the union of what the engines list."""
        if self._configured_ids:
            return self._configured
        known, listed = self._listed
        if known is not self._known:
            known = self._known
            listed = _listed(known)
            self._listed = known, listed
        return listed

    def cards(self) -> list[Card]:
        """Return the cards of all engines, as they list them."""
        return [card for known in self._known.values() for card in known.cards or ()]

    def obstacle(self) -> str | None:
        """Say why this router is not ready to serve, None when it is."""
        served = self.served_ids()
        if not self._known:
            return "no engine is known yet"
        if not self.healthy():
            return "no engine is healthy"
        if not any(each.health.takes_requests for each in self._known.values()):
            return "every healthy engine failed too often and waits for its trial"
        if not served.ids:
            return "no engine has listed a model yet"
        if self._has_aliases and not served.routes_aliases:
            return "several models are served: set ROUTER_MODEL_ID to the one that the aliases mean, first in the list"
        return None


def _listed(known: dict[str, _Known]) -> ServedIds:
    ids = dict.fromkeys(model for each in known.values() for model in ids_of(each.cards or ()))
    return ServedIds(tuple(ids), routes_aliases=len(ids) == 1)


def _serving(known: dict[str, _Known], model: str | None, excluding: Collection[str]) -> tuple[str, ...]:
    ready = [each for each in known if known[each].health.takes_requests and each not in excluding]
    serving = [engine for engine in ready if known[engine].may_serve(model)]
    if serving or any(each.lists(model) for each in known.values()):
        return tuple(serving)
    # A model that nobody lists is anybody's: its answer is then the engine's.
    return tuple(ready)


def ids_of(cards: Iterable[Card]) -> list[str]:
    """Return the model ids of cards."""
    return [card["id"] for card in cards]


def _is_news(report: Report, known: _Known) -> bool:
    """Tell whether a report is worth a line in the log: not when it only explains what a request had found."""
    if report.state is not known.health.state:
        return True
    return report.problem != known.problem and (bool(known.problem) or report.state is State.HEALTHY)


def _say_state(engine: str, state: State, problem: str) -> None:
    saying = _SPOKEN.get(state, state.value)
    level = logging.WARNING if problem else logging.INFO
    _LOG.log(level, "engine %s is %s", engine, f"{saying}: {problem}" if problem else saying)


def _cause(outcome: Outcome) -> str:
    return "a request succeeded" if outcome is Outcome.SUCCEEDED else f"too many failures in a row, now {outcome.value}"
