"""Active health checks in the background: health, model lists, and half-open trials of suspect engines."""

import logging
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import orjson

from router.contract.errors import OVERLOADED, ApiError
from router.request.outcome import TrialResult, trial_result_of
from router.request.routes import CHAT, EMBEDDINGS
from router.runtime.pid import cached_pid
from router.settings.declarations import Settings
from router.upstream import shared_cache
from router.upstream.circuit_breaker import HealthState
from router.upstream.client import HttpClient
from router.upstream.engine_state import HealthCheckResult, ModelCard
from router.upstream.errors import reason_of
from router.upstream.registry import EngineRegistry
from router.upstream.scheduler import CheckScheduler

CHECK_TIMEOUT_SECONDS: Final = 5.0
"""Timeout of each request of a health check, in all."""
TRIAL_TIMEOUT_SECONDS: Final = 30.0
"""Timeout of a trial request, in all; a busy engine may queue it."""
FIRST_CHECK_TIMEOUT_SECONDS: Final = 1.0
"""Timeout of the first check of an engine. A silent one is checked again at once, for longer and behind the others."""
UNHEALTHY_INTERVAL_SECONDS: Final = 1.0
"""Shortest interval of the checks of an engine that is not healthy."""
MAX_UNHEALTHY_PER_SECOND: Final = 100
"""With more engines that are not healthy their interval is longer: each check takes 0.2 to 0.4 ms of CPU time."""
STORE_SECONDS: Final = 0.5
"""How long model lists wait to be stored together: each time all of them are written."""
FIRST_CHECKS_TIMEOUT_SECONDS: Final = 2.0
"""How long a new process waits for the first checks of all engines before it serves."""
MAX_RESPONSE_BYTES: Final = 1024 * 1024

_TIMED_OUT: Final = "upstream_timeout"
_AUTH_HINTS: Final = dict.fromkeys((401, 403), ", is ROUTER_ENGINE_API_KEY right?")
_LOG = logging.getLogger("router")


class HealthChecker:
    """Checks all engines in the background; silent engines do not delay the checks of others.

    One thread waits for the next scheduled check, and starts a thread for it, which goes on with others that are due.
    """

    def __init__(self, settings: Settings, registry: EngineRegistry, http_client: HttpClient) -> None:
        self._settings = settings
        self._registry = registry
        self._http_client = http_client
        self._process = 0
        self._lock = threading.Lock()
        self._scheduler = CheckScheduler()
        self._unstored: dict[str, tuple[ModelCard, ...]] = {}
        self._stored_at = 0.0
        registry.on_suspect(self.check_now)

    def start(self) -> None:
        """Start the checks in this process, once. Threads do not survive a fork."""
        if self._process == cached_pid():
            return
        with self._lock:
            if self._process == cached_pid():
                return
            self._scheduler = CheckScheduler()
            self._scheduler.add(self._registry.engines)
            threading.Thread(target=self._run, name="health-checker", daemon=True).start()
            self._process = cached_pid()

    def start_and_wait(self) -> None:
        """Start the checks, and return once each engine was checked, or after FIRST_CHECKS_TIMEOUT_SECONDS.

        A process that accepted requests earlier would reject them, although its siblings serve.
        """
        self.start()
        self.wait_for_first_checks()

    def wait_for_first_checks(self) -> None:
        """Return once each engine was checked, or after FIRST_CHECKS_TIMEOUT_SECONDS."""
        self._scheduler.wait_until_all_checked(FIRST_CHECKS_TIMEOUT_SECONDS)

    def update_engines(self, joined: Iterable[str], left: Iterable[str]) -> None:
        """Start the checks of engines that joined, and stop those of engines that left."""
        self._scheduler.remove(left)
        self._scheduler.add(joined)

    def check_now(self, engine: str) -> None:
        """Check an engine now, before its next scheduled check."""
        self._scheduler.schedule_now(engine, is_suspect=self._registry.is_suspect(engine))

    def check(self, engine: str, timeout_seconds: float | None = None) -> HealthCheckResult:
        """Request an engine's health (`/health`, or `/v1/models` where that does not exist) and its model list.

        The timeout is that of each request. Raises ApiError when there is no response.
        """
        seconds = timeout_seconds or CHECK_TIMEOUT_SECONDS
        status, _ = self._get(engine, "/health", seconds)
        healthy = _is_success(status)
        if not healthy and status != HTTPStatus.NOT_FOUND:
            return HealthCheckResult(_state_of(status), problem=f"/health returns {status}")
        status, body = self._get(engine, "/v1/models", seconds)
        if not _is_success(status):
            state = HealthState.HEALTHY if healthy else _state_of(status)
            return HealthCheckResult(state, problem=f"/v1/models returns {status}{_AUTH_HINTS.get(status, '')}")
        cards = _parse_model_list(body)
        return HealthCheckResult(
            HealthState.HEALTHY, cards, "" if cards is not None else "/v1/models is no list of models"
        )

    def run_trial(self, engine: str) -> tuple[TrialResult, str]:
        """Send an engine the smallest real request and return the trial result, and its cause for the log.

        Without a known model there is nothing to request, and the health check decides.
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
        """Return whether an engine serves embeddings: some of those respond to a chat request with 500."""
        return _is_success(self._post(engine + EMBEDDINGS, {"model": model, "input": "hi"}))

    def _post(self, url: str, body: dict[str, Any]) -> int:
        headers = {**self._auth_headers(), "Content-Type": "application/json"}
        with self._http_client.request("POST", url, headers, TRIAL_TIMEOUT_SECONDS, orjson.dumps(body)) as response:
            response.raw.read(MAX_RESPONSE_BYTES)
            return response.status_code

    def _run(self) -> None:
        while True:
            engine = self._scheduler.wait_for_next()
            try:
                threading.Thread(target=self._run_due, args=(engine,), name="health-check", daemon=True).start()
            except RuntimeError:  # no thread is available at the moment
                self._run_scheduled(engine)

    def _run_due(self, first: str) -> None:
        """Run a check, and then those that are due: with many engines a thread for each takes longer than its check."""
        engine: str | None = first
        while engine is not None:
            self._run_scheduled(engine)
            engine = self._scheduler.next_due()

    def _run_scheduled(self, engine: str) -> None:
        is_checked = self._check_and_record(engine)
        self._http_client.close_idle()
        wait = 0.0
        if is_checked:
            seldom = self._settings.health_check_interval_seconds
            often = max(UNHEALTHY_INTERVAL_SECONDS, self._scheduler.failed_count() / MAX_UNHEALTHY_PER_SECOND)
            wait = self._registry.seconds_until_check(engine, seldom, min(seldom, often))
        self._scheduler.finish(
            engine, wait, is_suspect=not is_checked or self._registry.is_suspect(engine), is_checked=is_checked
        )
        self._store_lists()

    def _check_and_record(self, engine: str) -> bool:
        """Check an engine; return False if a first check was given up early and another one has to follow."""
        report = HealthCheckResult(HealthState.UNHEALTHY, problem="the health check failed")
        is_first = self._scheduler.is_first(engine)
        try:
            report = self.check(engine, FIRST_CHECK_TIMEOUT_SECONDS if is_first else CHECK_TIMEOUT_SECONDS)
        except ApiError as error:
            if error.code == OVERLOADED:  # this machine has no resources for a connection: no result
                return True
            if is_first and error.code == _TIMED_OUT:
                return False
            report = HealthCheckResult(HealthState.UNHEALTHY, problem=reason_of(error))
        except Exception:  # noqa: BLE001 - an unexpected error must not end all checks
            _LOG.exception("the health check of %s failed", engine)
        if self._registry.record_health_check(engine, report) and report.model_cards is not None:
            with self._lock:
                self._unstored[engine] = report.model_cards
        if self._registry.begin_trial(engine):
            self._run_trial_and_record(engine)
        return True

    def _store_lists(self) -> None:
        """Store the new model lists, unless others are about to follow."""
        now = time.monotonic()
        with self._lock:
            if not self._unstored or (now - self._stored_at < STORE_SECONDS and not self._scheduler.is_idle()):
                return
            known = self._registry.engines
            lists = {engine: cards for engine, cards in self._unstored.items() if engine in known}
            self._unstored, self._stored_at = {}, now
        shared_cache.store_model_lists(lists)

    def _run_trial_and_record(self, engine: str) -> None:
        trial_result, cause = TrialResult.UNCLEAR, "a trial failed"
        try:
            trial_result, cause = self.run_trial(engine)
        except Exception:  # noqa: BLE001 - an unexpected error must not end all trials
            _LOG.exception("the trial of %s failed", engine)
        self._registry.end_trial(engine, trial_result, cause)

    def _get(self, engine: str, path: str, seconds: float) -> tuple[int, bytes]:
        response = self._http_client.get(engine + path, self._auth_headers(), seconds)
        try:
            return response.status, response.read(MAX_RESPONSE_BYTES)
        finally:
            response.close()

    def _auth_headers(self) -> dict[str, str]:
        key = self._settings.engine_api_key
        return {"Authorization": f"Bearer {key}"} if key is not None else {}


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
    """Return whether a value is a model card that can be encoded."""
    if not (isinstance(card, dict) and isinstance(card.get("id"), str)):
        return False
    try:
        orjson.dumps(card)
    except orjson.JSONEncodeError:  # nested too deep
        return False
    return True
