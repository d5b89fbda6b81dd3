"""Engines looked at in the background: are they healthy, which models do they list, do they work when in doubt."""

import logging
import threading
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import orjson

from router.contract.errors import OVERLOADED, ApiError
from router.discovery import cache
from router.request.outcome import TrialResult, trial_result_of
from router.request.routes import CHAT, EMBEDDINGS
from router.runtime.pid import cached_pid
from router.settings import Settings
from router.upstream.circuit_breaker import State
from router.upstream.client import Connections
from router.upstream.errors import reason_of
from router.upstream.registry import Card, Fleet, Report
from router.upstream.response import Answer
from router.upstream.scheduler import Schedule

PROBE_TIMEOUT_SECONDS: Final = 5.0
"""Longest that one question of a probe may take in all."""
TRIAL_TIMEOUT_SECONDS: Final = 30.0
"""Longest that the request of a trial may take in all; an engine under load may let it wait."""
UNHEALTHY_PROBE_SECONDS: Final = 1.0
"""Time between two looks while an engine is not healthy."""
FIRST_LOOK_SECONDS: Final = 2.0
"""How long a new process waits for its first look at all engines before it serves."""
MAX_CARDS_BYTES: Final = 1024 * 1024

_KEY_HINTS: Final = dict.fromkeys((401, 403), ", is ROUTER_ENGINE_API_KEY right?")
_LOG = logging.getLogger("router")


class Prober:
    """Keeps fresh, in the background, what a fleet knows: so many looks at a time that silent engines delay no other.

    One thread waits for the next turn, and each look has a thread of its own, as long as it takes.
    """

    def __init__(self, settings: Settings, fleet: Fleet, connections: Connections) -> None:
        self._settings = settings
        self._fleet = fleet
        self._connections = connections
        self._process = 0
        self._lock = threading.Lock()
        self._schedule = Schedule()
        fleet.call_when_in_doubt(self.look_now)

    def start(self) -> None:
        """Begin to probe in this process, unless that is done already. Threads do not survive a fork."""
        if self._process == cached_pid():
            return
        with self._lock:
            if self._process == cached_pid():
                return
            self._schedule = Schedule()
            self._schedule.join(self._fleet.engines)
            threading.Thread(target=self._run, name="engine-prober", daemon=True).start()
            self._process = cached_pid()

    def start_and_look(self) -> None:
        """Begin to probe, and return once each engine was looked at, or after FIRST_LOOK_SECONDS.

        A process that took requests before would refuse them, although its siblings serve.
        """
        self.start()
        self.wait_for_first_looks()

    def wait_for_first_looks(self) -> None:
        """Return once each engine was looked at, or after FIRST_LOOK_SECONDS."""
        self._schedule.wait_until_all_were_looked_at(FIRST_LOOK_SECONDS)

    def follow(self, joined: Iterable[str], left: Iterable[str]) -> None:
        """Look at engines that joined the fleet from now on, and at those that left it no more."""
        self._schedule.leave(left)
        self._schedule.join(joined)

    def look_now(self, engine: str) -> None:
        """Look at an engine now rather than at its next turn."""
        self._schedule.hasten(engine, is_doubtful=self._fleet.is_doubtful(engine))

    def probe(self, engine: str) -> Report:
        """Ask an engine for its health (`/health`, or `/v1/models` where that does not exist) and its models.

        Raises ApiError when it does not answer.
        """
        status, _ = self._get(engine, "/health")
        healthy = _is_success(status)
        if not healthy and status != HTTPStatus.NOT_FOUND:
            return Report(_state_of(status), problem=f"/health answers {status}")
        status, body = self._get(engine, "/v1/models")
        if not _is_success(status):
            state = State.HEALTHY if healthy else _state_of(status)
            return Report(state, problem=f"/v1/models answers {status}{_KEY_HINTS.get(status, '')}")
        cards = _read_cards(body)
        return Report(State.HEALTHY, cards, "" if cards is not None else "/v1/models is no list of models")

    def try_out(self, engine: str) -> tuple[TrialResult, str]:
        """Send an engine the smallest real request and return what that shows, and why.

        An engine whose health is good is taken at its word where no model is known to ask it for.
        """
        model = self._fleet.trial_model(engine)
        if model is None:
            return TrialResult.WORKS, "its health is good"
        chat = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "stream": False}
        try:
            status = self._ask(engine + CHAT, chat)
            if status == HTTPStatus.INTERNAL_SERVER_ERROR and self._embeds(engine, model):
                return TrialResult.WORKS, "it does not chat, and embeds"
        except ApiError as error:
            unclear = error.code == OVERLOADED
            return TrialResult.UNCLEAR if unclear else TrialResult.BROKEN, f"a trial request failed: {reason_of(error)}"
        return trial_result_of(status), f"a trial request got {status}"

    def _embeds(self, engine: str, model: str) -> bool:
        """Tell whether an engine embeds: some that do not chat answer 500 to it."""
        return _is_success(self._ask(engine + EMBEDDINGS, {"model": model, "input": "hi"}))

    def _ask(self, url: str, body: dict[str, Any]) -> int:
        headers = {**self._key(), "Content-Type": "application/json"}
        status, _ = _read(self._connections.post_within(url, headers, orjson.dumps(body), TRIAL_TIMEOUT_SECONDS))
        return status

    def _run(self) -> None:
        while True:
            engine = self._schedule.begin()
            try:
                threading.Thread(target=self._take_turn, args=(engine,), name="engine-look", daemon=True).start()
            except RuntimeError:  # the system gives no thread at the moment
                self._take_turn(engine)

    def _take_turn(self, engine: str) -> None:
        seldom = self._settings.health_check_interval_seconds
        often = min(seldom, UNHEALTHY_PROBE_SECONDS)
        self._look(engine)
        self._connections.close_idle()
        wait = self._fleet.seconds_until_look(engine, seldom, often)
        self._schedule.end(engine, wait, is_doubtful=self._fleet.is_doubtful(engine))

    def _look(self, engine: str) -> None:
        report = Report(State.UNHEALTHY, problem="the probe failed")
        try:
            report = self.probe(engine)
        except ApiError as error:
            if error.code == OVERLOADED:  # this machine has no room for a connection: nothing was learnt
                return
            report = Report(State.UNHEALTHY, problem=reason_of(error))
        except Exception:  # noqa: BLE001 - a probe that fails in an unknown way must not end all probing
            _LOG.exception("probing %s failed", engine)
        if self._fleet.learn(engine, report) and report.cards is not None:
            cache.remember_list(engine, report.cards)
        if self._fleet.begin_trial(engine):
            self._try(engine)

    def _try(self, engine: str) -> None:
        verdict, cause = TrialResult.UNCLEAR, "a trial failed"
        try:
            verdict, cause = self.try_out(engine)
        except Exception:  # noqa: BLE001 - nor must a trial
            _LOG.exception("trying %s failed", engine)
        self._fleet.end_trial(engine, verdict, cause)

    def _get(self, engine: str, path: str) -> tuple[int, bytes]:
        return _read(self._connections.get(engine + path, self._key(), PROBE_TIMEOUT_SECONDS))

    def _key(self) -> dict[str, str]:
        key = self._settings.engine_api_key
        return {"Authorization": f"Bearer {key}"} if key is not None else {}


def _read(answer: Answer) -> tuple[int, bytes]:
    """Return status and body of an answer, which is cut where it gets too long. Raises ApiError."""
    try:
        return answer.status, answer.read(MAX_CARDS_BYTES)
    finally:
        answer.close()


def _state_of(status: int) -> State:
    return State.DRAINING if status == HTTPStatus.SERVICE_UNAVAILABLE else State.UNHEALTHY


def _is_success(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _read_cards(body: bytes) -> tuple[Card, ...] | None:
    """Return the cards of an OpenAI model list, None when it is not one."""
    try:
        listing: Any = orjson.loads(body)
        return tuple(card for card in listing["data"] if _is_card(card))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _is_card(card: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether a value describes a model, and can be passed on."""
    if not (isinstance(card, dict) and isinstance(card.get("id"), str)):
        return False
    try:
        orjson.dumps(card)
    except orjson.JSONEncodeError:  # nested too deep
        return False
    return True
