"""The engines of one router: which of them are healthy, what they serve, and which is next."""

import itertools
import threading
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from router.contract.decision import ServedIds
from router.contract.errors import ApiError
from router.engines.outcome import Outcome

Card = dict[str, Any]
"""An engine's description of one model, as `GET /v1/models` lists it."""


class Report(NamedTuple):
    """What was last learnt of an engine: is it healthy, what does it list (None: never learnt), what is wrong."""

    healthy: bool = False
    cards: tuple[Card, ...] | None = None
    problem: str = ""

    def may_serve(self, model: str | None) -> bool:
        """Tell whether the engine is healthy and lists the model, or never said what it serves."""
        return self.healthy and (model is None or self.cards is None or model in ids_of(self.cards))


class Fleet:
    """Engines by base URL with what was last learnt of each. Safe to use from many threads."""

    def __init__(self, engines: tuple[str, ...], configured_ids: tuple[str, ...], *, has_aliases: bool) -> None:
        self.engines = engines
        self._configured_ids = configured_ids
        self._has_aliases = has_aliases
        self._lock = threading.Lock()
        self._turns = itertools.count()
        self._reports = {engine: Report() for engine in engines}

    def learn(self, engine: str, report: Report) -> None:
        """Note what a probe found. An engine that lists nothing now keeps the cards that it listed before."""
        with self._lock:
            cards = report.cards if report.cards is not None else self._reports[engine].cards
            self._reports = {**self._reports, engine: Report(report.healthy, cards)}

    def note_unreachable(self, engine: str) -> None:
        """Take an engine out of the rotation until a probe finds it healthy."""
        self.learn(engine, Report(healthy=False))

    def healthy(self) -> tuple[str, ...]:
        """Return the healthy engines, in the order in which they are configured."""
        reports = self._reports
        return tuple(engine for engine in self.engines if reports[engine].healthy)

    def note(self, engine: str, outcome: Outcome) -> None:
        """Note what an attempt showed of an engine."""
        if outcome is Outcome.UNREACHABLE:
            self.note_unreachable(engine)

    def has_other(self, model: str | None, excluding: Collection[str]) -> bool:
        """Tell whether there is a healthy engine besides."""
        del model
        return any(engine not in excluding for engine in self.healthy())

    def pick(self, model: str | None, excluding: Collection[str] = ()) -> str:
        """Return the next healthy engine in turn, of those that serve the model where that is known.

        Raises ApiError `no_healthy_engines`.
        """
        reports = self._reports
        healthy = tuple(engine for engine in self.healthy() if engine not in excluding)
        serving = [engine for engine in healthy if reports[engine].may_serve(model)] or healthy
        if not serving:
            raise ApiError("no_healthy_engines", "No engine is healthy at the moment")
        return serving[next(self._turns) % len(serving)]

    def served_ids(self) -> ServedIds:
        """Return the configured model ids, else the union of what the engines list."""
        if self._configured_ids:
            return ServedIds(self._configured_ids)
        listed = tuple(dict.fromkeys(ids_of(self._cards())))
        return ServedIds(listed, routes_aliases=len(listed) == 1)

    def card(self, model: str) -> Card:
        """Return the card of a served id: the first that an engine lists, else a plain one."""
        plain = {"id": model, "object": "model", "created": 0, "owned_by": "router"}
        return next((card for card in self._cards() if card["id"] == model), plain)

    def obstacle(self) -> str | None:
        """Say why this router is not ready to serve, None when it is."""
        served = self.served_ids()
        if not self.healthy():
            return "no engine is healthy"
        if not served.ids:
            return "no engine has listed a model yet"
        if self._has_aliases and not served.routes_aliases:
            return "several models are served: set ROUTER_MODEL_ID to the one that the aliases mean, first in the list"
        return None

    def _cards(self) -> Iterable[Card]:
        reports = self._reports
        return [card for engine in self.engines for card in reports[engine].cards or ()]


def ids_of(cards: Iterable[Card]) -> list[str]:
    """Return the model ids of cards."""
    return [card["id"] for card in cards]
