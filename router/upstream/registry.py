"""The engines of one router: which of them take requests, and which models each lists."""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from router.contract.decide import ServedIds
from router.request.outcome import Outcome, TrialResult
from router.upstream import circuit_breaker
from router.upstream.circuit_breaker import Breaker, Health, State

Card = dict[str, Any]
"""An engine's description of one model, as `GET /v1/models` lists it."""

GivenIds = Mapping[str, tuple[str, ...]]
"""The model ids that the settings give to engines, in place of what those list."""

_NO_IDS: Final[GivenIds] = MappingProxyType({})
_ASK_FOR_A_LOOK: Final = frozenset({Outcome.UNREACHABLE, Outcome.BROKEN, Outcome.TIMED_OUT})
_SPOKEN: Final = {State.UNHEALTHY: "not healthy"}
_UNREACHED: Final = "a request could not reach it"
_FAILS: Final = "it failed too often and waits for its trial"
_LEFT_OUT: Final = ", so it gets no requests"
_HOW_TO_GIVE_IDS: Final = "what it serves can be given in ROUTER_ENGINES: {} models=ID"
_MOST_NAMED: Final = 10
_LOG = logging.getLogger("router")


class Report(NamedTuple):
    """What a probe found: the engine's state, what it lists (None: it does not tell), what is wrong."""

    state: State
    cards: tuple[Card, ...] | None = None
    problem: str = ""


class _Known(NamedTuple):
    """What is known of one engine.

    cards: what it listed last, in whatever process; None: it has never given a list.
    given: the ids that the settings give it in place of that.
    is_confirmed: it has given its list in this process, and no check has failed since.
    problem: that of the last probe, empty when a request found the engine gone.
    """

    health: Health = Health()
    cards: tuple[Card, ...] | None = None
    given: tuple[str, ...] = ()
    is_confirmed: bool = False
    problem: str = "not looked at yet"

    @property
    def ids(self) -> list[str] | None:
        """The model ids of the engine, None while its list is not known."""
        if self.given:
            return list(self.given)
        return None if self.cards is None else ids_of(self.cards)

    @property
    def has_list(self) -> bool:
        """Whether its list may be relied upon: it is given, or was confirmed."""
        return self.is_confirmed or bool(self.given)

    def lists(self, model: str) -> bool:
        return model in (self.ids or ())

    def may_get(self, model: str) -> bool:
        """Tell whether a request for a model may go to the engine now."""
        return self.health.takes_requests and self.has_list and self.lists(model)


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
        self._remembered: tuple[dict[str, _Known], dict[str, tuple[str, ...]]] = self._known, {}
        """The candidates for each model, found in the state of knowledge that stands beside them."""
        self._served: tuple[dict[str, _Known], ServedIds] = self._known, _served(self._known, configured_ids)
        """What is served, in the state of knowledge that stands beside it."""
        self._ask_for_a_look: Callable[[str], None] = lambda _: None

    # --- which engines there are ---

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines, in their order."""
        return tuple(self._known)

    def set_engines(self, engines: Iterable[str], given: GivenIds = _NO_IDS) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Let these be the engines, with the ids given to them, and return those that joined and those that left.

        One that stays keeps what is known of it. One that joins gets no request before its probe succeeds. One that
        left gets no new request, and is forgotten; the requests that it has go on.
        """
        with self._lock:
            before = self._known
            self._known = _Members(
                (each, before[each]._replace(given=given.get(each, before[each].given))) for each in engines
            )
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

    def recall(self, lists: Mapping[str, tuple[Card, ...]]) -> None:
        """Note what other processes saw engines list; no engine gets requests for it before it is asked again."""
        with self._lock:
            for engine, cards in lists.items():
                if engine in self._known and self._known[engine].cards is None:
                    self._put(engine, self._known[engine]._replace(cards=cards))

    def learn(self, engine: str, report: Report) -> bool:
        """Note what a probe found, and tell whether the engine lists something else than was known.

        An engine that gives no list keeps the one that it gave before, unless a check has failed since.
        """
        with self._lock:
            if engine not in self._known:
                return False
            before = self._known[engine]
            cards = report.cards if report.cards is not None else before.cards
            is_confirmed = report.state is State.HEALTHY and (report.cards is not None or before.is_confirmed)
            known = before._replace(
                health=circuit_breaker.seen(before.health, report.state), cards=cards, is_confirmed=is_confirmed
            )
            problem = report.problem
            if report.state is State.HEALTHY:
                problem = self._problem_of_list(engine, known, report.problem)
            self._put(engine, known._replace(problem=problem))
        if _is_news(report.state, problem, before):
            _say_state(engine, report.state, problem)
        return cards != before.cards

    def _problem_of_list(self, engine: str, known: _Known, problem: str) -> str:
        """Return what is wrong with the list of a healthy engine, nothing where all is well."""
        if not known.has_list:
            return f"{problem or '/v1/models gives no list'}{_LEFT_OUT}; {_HOW_TO_GIVE_IDS.format(engine)}"
        if not known.ids:
            return f"/v1/models lists no model{_LEFT_OUT}; {_HOW_TO_GIVE_IDS.format(engine)}"
        if self._configured_ids and set(known.ids).isdisjoint(self._configured_ids):
            return f"it lists {_named(known.ids)}, none of ROUTER_MODEL_ID ({_named(self._configured_ids)}){_LEFT_OUT}"
        return "" if known.given else problem

    def note(self, engine: str, outcome: Outcome) -> None:
        """Note how a request to an engine ended, and ask for a look at the engine where that leaves a doubt."""
        if outcome is Outcome.SUCCEEDED and self._known[engine].health.is_beyond_doubt:
            return
        now = self._clock()
        before, after = self._move(
            engine, _cause(outcome), lambda it: circuit_breaker.noted(it, outcome, self._breaker, now, self._chance())
        )
        # A circuit that opens has its trial before the next look that was planned.
        opened = after.is_open and not before.is_open
        if opened or outcome in _ASK_FOR_A_LOOK or circuit_breaker.trial_at(after, self._breaker) <= now:
            self._ask_for_a_look(engine)

    def begin_trial(self, engine: str) -> bool:
        """Tell whether an engine is to be tried now, by the caller, who has to end the trial."""
        with self._lock:
            known = self._known[engine]
            due = circuit_breaker.trial_at(known.health, self._breaker) <= self._clock()
            if due:
                self._put(engine, known._replace(health=circuit_breaker.trial_begun(known.health)))
        return due

    def end_trial(self, engine: str, verdict: TrialResult, cause: str) -> None:
        """Note what the trial of an engine showed, and why, for the log."""
        now = self._clock()
        self._move(
            engine, cause, lambda it: circuit_breaker.trial_ended(it, verdict, self._breaker, now, self._chance())
        )

    def seconds_until_look(self, engine: str, healthy_seconds: float, other_seconds: float) -> float:
        """Return how long to wait before the next look at an engine: jittered, and no longer than to its trial.

        A healthy engine that gets no requests because its list is missing is looked at as one that is not healthy.
        """
        known = self._known[engine]
        is_well = known.health.state is State.HEALTHY and known.has_list
        wait = circuit_breaker.jittered(healthy_seconds if is_well else other_seconds, self._chance())
        return min(wait, max(0.0, circuit_breaker.trial_at(known.health, self._breaker) - self._clock()))

    def is_doubtful(self, engine: str) -> bool:
        """Tell whether a look at an engine may take long: it gets no requests, or its trial is due."""
        known = self._known[engine].health
        return not known.takes_requests or circuit_breaker.trial_at(known, self._breaker) <= self._clock()

    def _move(self, engine: str, cause: str, step: Callable[[Health], Health]) -> tuple[Health, Health]:
        with self._lock:
            known = self._known[engine]
            if engine not in self._known:
                return known.health, known.health
            before, after = known.health, step(known.health)
            if after is not before:
                known = known._replace(health=after)
                if after.state is not before.state:
                    known = known._replace(is_confirmed=False, problem="")
                self._put(engine, known)
        if after.state is not before.state:
            _say_state(engine, after.state, _UNREACHED)
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

    def problems(self) -> dict[str, str]:
        """Return what is wrong with each engine that is not well, or that lists no id that is served."""
        told = {engine: _problem_of(known) for engine, known in self._known.items()}
        return {engine: problem for engine, problem in told.items() if problem}

    def available(self) -> int:
        """Return how many engines get requests at the moment."""
        served = self.served_ids().ids
        return sum(any(map(known.may_get, served)) for known in self._known.values())

    def has_other(self, model: str, excluding: Collection[str]) -> bool:
        """Tell whether there are candidates."""
        return bool(self.candidates(model, excluding))

    def candidates(self, model: str, excluding: Collection[str] = ()) -> tuple[str, ...]:
        """Return the engines that take requests and are known to list the model, in the configured order."""
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
        listed = self._known[engine].ids or ()
        return next(iter((*listed, *self._configured_ids)), None)

    def served_ids(self) -> ServedIds:
        """Return the configured model ids, else the union of what the engines list."""
        known, served = self._served
        if known is not self._known:
            known = self._known
            served = _served(known, self._configured_ids)
            self._served = known, served
        return served

    def cards(self) -> list[Card]:
        """Return the cards of all engines, as they list them."""
        return [card for known in self._known.values() for card in known.cards or ()]

    def context_of(self, engine: str, model: str) -> int | None:
        """Return the `max_model_len` in tokens that an engine lists for a model; None where it lists none."""
        cards = self._known[engine].cards or ()
        longest = next((card.get("max_model_len") for card in cards if card["id"] == model), None)
        return longest if type(longest) is int and longest > 0 else None

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
        if not self.available():
            ids = f"ROUTER_MODEL_ID ({_named(served.ids)})" if self._configured_ids else _named(served.ids)
            return f"no healthy engine lists any of {ids}"
        if self._has_aliases and not served.routes_aliases:
            return "several models are served: set ROUTER_MODEL_ID to the one that the aliases mean, first in the list"
        return None


def _served(known: Mapping[str, _Known], configured: tuple[str, ...]) -> ServedIds:
    each = [known_of.ids or [] for known_of in known.values()]
    listed_ids = dict.fromkeys(model for listed in each for model in listed)
    ids = configured or tuple(listed_ids)
    is_complete = _is_complete(known.values())
    only = ids[0] if len(ids) == 1 else None
    # An engine that lists others beside it may take another one for its default.
    is_alone = all(len(listed) == 1 for listed in each if only in listed)
    return ServedIds(
        ids,
        routes_aliases=bool(configured) or only is not None,
        is_complete=bool(configured) or is_complete,
        default=only if is_alone else None,
        absent=frozenset(configured) - listed_ids.keys() if is_complete else frozenset(),
    )


def _is_complete(known: Collection[_Known]) -> bool:
    """Tell whether every engine has given its list, be it in another process or before it failed."""
    return bool(known) and all(each.ids is not None for each in known)


def _serving(known: dict[str, _Known], model: str, excluding: Collection[str]) -> tuple[str, ...]:
    return tuple(engine for engine, each in known.items() if engine not in excluding and each.may_get(model))


def ids_of(cards: Iterable[Card]) -> list[str]:
    """Return the model ids of cards."""
    return [card["id"] for card in cards]


def _is_news(state: State, problem: str, before: _Known) -> bool:
    """Tell whether a report is worth a line in the log: not when it only explains what a request had found."""
    if state is not before.health.state:
        return True
    return problem != before.problem and (bool(before.problem) or state is State.HEALTHY)


def _problem_of(known: _Known) -> str:
    """Return why an engine gets no requests, or what else is wrong with it."""
    state = known.health.state
    if state is not State.HEALTHY:
        return f"{_SPOKEN.get(state, state.value)}: {known.problem or _UNREACHED}"
    return _FAILS if known.health.is_open else known.problem


def _named(ids: Collection[str]) -> str:
    """Return model ids for a text, of many only the first."""
    return ", ".join(list(ids)[:_MOST_NAMED]) + (", …" if len(ids) > _MOST_NAMED else "")


def _say_state(engine: str, state: State, problem: str) -> None:
    saying = _SPOKEN.get(state, state.value)
    level = logging.WARNING if problem else logging.INFO
    _LOG.log(level, "engine %s is %s", engine, f"{saying}: {problem}" if problem else saying)


def _cause(outcome: Outcome) -> str:
    return "a request succeeded" if outcome is Outcome.SUCCEEDED else f"too many failures in a row, now {outcome.value}"
