"""Engines looked at in the background: are they healthy, which models do they list, do they work when in doubt."""

import logging
import threading
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import orjson
import requests

from router.contract.errors import OVERLOADED, ApiError
from router.request.outcome import TrialResult, trial_result_of
from router.request.routes import CHAT, EMBEDDINGS
from router.runtime.pid import cached_pid
from router.settings import Settings
from router.upstream import shared_cache
from router.upstream.circuit_breaker import HealthState
from router.upstream.client import HttpClient
from router.upstream.engine_state import HealthCheckResult, ModelCard
from router.upstream.errors import reason_of
from router.upstream.registry import EngineRegistry
from router.upstream.scheduler import CheckScheduler

CHECK_TIMEOUT_SECONDS: Final = 5.0
"""Longest that one question of a probe may take in all."""
TRIAL_TIMEOUT_SECONDS: Final = 30.0
"""Longest that the request of a trial may take in all; an engine under load may let it wait."""
UNHEALTHY_INTERVAL_SECONDS: Final = 1.0
"""Time between two looks while an engine is not healthy."""
FIRST_CHECKS_TIMEOUT_SECONDS: Final = 2.0
"""How long a new process waits for its first look at all engines before it serves."""
MAX_RESPONSE_BYTES: Final = 1024 * 1024

_AUTH_HINTS: Final = dict.fromkeys((401, 403), ", is ROUTER_ENGINE_API_KEY right?")
_LOG = logging.getLogger("router")


class HealthChecker:
    """Keeps fresh, in the background, what a fleet knows: so many looks at a time that silent engines delay no other.

    One thread waits for the next turn, and each look has a thread of its own, as long as it takes.
    """

    def __init__(self, settings: Settings, registry: EngineRegistry, http_client: HttpClient) -> None:
        self._settings = settings
        self._registry = registry
        self._http_client = http_client
        self._process = 0
        self._lock = threading.Lock()
        self._scheduler = CheckScheduler()
        registry.on_suspect(self.check_now)

    def start(self) -> None:
        """Begin to probe in this process, unless that is done already. Threads do not survive a fork."""
        if self._process == cached_pid():
            return
        with self._lock:
            if self._process == cached_pid():
                return
            self._scheduler = CheckScheduler()
            self._scheduler.add(self._registry.engines)
            threading.Thread(target=self._run, name="engine-prober", daemon=True).start()
            self._process = cached_pid()

    def start_and_wait(self) -> None:
        """Begin to probe, and return once each engine was looked at, or after FIRST_LOOK_SECONDS.

        A process that took requests before would refuse them, although its siblings serve.
        """
        self.start()
        self.wait_for_first_checks()

    def wait_for_first_checks(self) -> None:
        """Return once each engine was looked at, or after FIRST_LOOK_SECONDS."""
        self._scheduler.wait_until_all_checked(FIRST_CHECKS_TIMEOUT_SECONDS)

    def update_engines(self, joined: Iterable[str], left: Iterable[str]) -> None:
        """Look at engines that joined the fleet from now on, and at those that left it no more."""
        self._scheduler.remove(left)
        self._scheduler.add(joined)

    def check_now(self, engine: str) -> None:
        """Look at an engine now rather than at its next turn."""
        self._scheduler.schedule_now(engine, is_suspect=self._registry.is_suspect(engine))

    def check(self, engine: str) -> HealthCheckResult:
        """Ask an engine for its health (`/health`, or `/v1/models` where that does not exist) and its models.

        Raises ApiError when it does not answer.
        """
        status, _ = self._get(engine, "/health")
        healthy = _is_success(status)
        if not healthy and status != HTTPStatus.NOT_FOUND:
            return HealthCheckResult(_state_of(status), problem=f"/health answers {status}")
        status, body = self._get(engine, "/v1/models")
        if not _is_success(status):
            state = HealthState.HEALTHY if healthy else _state_of(status)
            return HealthCheckResult(state, problem=f"/v1/models answers {status}{_AUTH_HINTS.get(status, '')}")
        cards = _parse_model_list(body)
        return HealthCheckResult(
            HealthState.HEALTHY, cards, "" if cards is not None else "/v1/models is no list of models"
        )

    def run_trial(self, engine: str) -> tuple[TrialResult, str]:
        """Send an engine the smallest real request and return what that shows, and why.

        An engine whose health is good is taken at its word where no model is known to ask it for.
        """
        model = self._registry.trial_model(engine)
        if model is None:
            return TrialResult.WORKS, "its health is good"
        chat = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "stream": False}
        try:
            status = self._post(engine + CHAT, chat)
            if status == HTTPStatus.INTERNAL_SERVER_ERROR and self._embeds(engine, model):
                return TrialResult.WORKS, "it does not chat, and embeds"
        except ApiError as error:
            unclear = error.code == OVERLOADED
            return TrialResult.UNCLEAR if unclear else TrialResult.BROKEN, f"a trial request failed: {reason_of(error)}"
        return trial_result_of(status), f"a trial request got {status}"

    def _embeds(self, engine: str, model: str) -> bool:
        """Tell whether an engine embeds: some that do not chat answer 500 to it."""
        return _is_success(self._post(engine + EMBEDDINGS, {"model": model, "input": "hi"}))

    def _post(self, url: str, body: dict[str, Any]) -> int:
        headers = {**self._auth_headers(), "Content-Type": "application/json"}
        status, _ = _read(self._http_client.request("POST", url, headers, TRIAL_TIMEOUT_SECONDS, orjson.dumps(body)))
        return status

    def _run(self) -> None:
        while True:
            engine = self._scheduler.wait_for_next()
            try:
                threading.Thread(target=self._run_scheduled, args=(engine,), name="engine-look", daemon=True).start()
            except RuntimeError:  # the system gives no thread at the moment
                self._run_scheduled(engine)

    def _run_scheduled(self, engine: str) -> None:
        seldom = self._settings.health_check_interval_seconds
        often = min(seldom, UNHEALTHY_INTERVAL_SECONDS)
        self._check_and_record(engine)
        self._http_client.close_idle()
        wait = self._registry.seconds_until_check(engine, seldom, often)
        self._scheduler.finish(engine, wait, is_suspect=self._registry.is_suspect(engine))

    def _check_and_record(self, engine: str) -> None:
        report = HealthCheckResult(HealthState.UNHEALTHY, problem="the probe failed")
        try:
            report = self.check(engine)
        except ApiError as error:
            if error.code == OVERLOADED:  # this machine has no room for a connection: nothing was learnt
                return
            report = HealthCheckResult(HealthState.UNHEALTHY, problem=reason_of(error))
        except Exception:  # noqa: BLE001 - a probe that fails in an unknown way must not end all probing
            _LOG.exception("probing %s failed", engine)
        if self._registry.record_health_check(engine, report) and report.model_cards is not None:
            shared_cache.store_model_list(engine, report.model_cards)
        if self._registry.begin_trial(engine):
            self._run_trial_and_record(engine)

    def _run_trial_and_record(self, engine: str) -> None:
        trial_result, cause = TrialResult.UNCLEAR, "a trial failed"
        try:
            trial_result, cause = self.run_trial(engine)
        except Exception:  # noqa: BLE001 - nor must a trial
            _LOG.exception("trying %s failed", engine)
        self._registry.end_trial(engine, trial_result, cause)

    def _get(self, engine: str, path: str) -> tuple[int, bytes]:
        return _read(self._http_client.request("GET", engine + path, self._auth_headers(), CHECK_TIMEOUT_SECONDS))

    def _auth_headers(self) -> dict[str, str]:
        key = self._settings.engine_api_key
        return {"Authorization": f"Bearer {key}"} if key is not None else {}


def _read(response: requests.Response) -> tuple[int, bytes]:
    """Return status and body of a response, of which at most MAX_RESPONSE_BYTES are read. Raises ApiError."""
    with response:
        return response.status_code, response.raw.read(MAX_RESPONSE_BYTES)


def _state_of(status: int) -> HealthState:
    return HealthState.DRAINING if status == HTTPStatus.SERVICE_UNAVAILABLE else HealthState.UNHEALTHY


def _is_success(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _parse_model_list(body: bytes) -> tuple[ModelCard, ...] | None:
    """Return the cards of an OpenAI model list, None when it is not one."""
    try:
        listing: Any = orjson.loads(body)
        return tuple(card for card in listing["data"] if _is_model_card(card))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _is_model_card(card: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether a value describes a model, and can be passed on."""
    if not (isinstance(card, dict) and isinstance(card.get("id"), str)):
        return False
    try:
        orjson.dumps(card)
    except orjson.JSONEncodeError:  # nested too deep
        return False
    return True
