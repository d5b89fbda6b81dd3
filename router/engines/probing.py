"""Engines looked at in the background: are they healthy, and which models do they list."""

import logging
import os
import threading
import time
from http import HTTPStatus
from typing import Any, Final

import orjson

from router.contract.errors import ApiError
from router.engines.connections import Connections
from router.engines.failure import reason_of
from router.engines.fleet import Card, Fleet, Report
from router.settings import Settings

PROBE_TIMEOUT_SECONDS: Final = 5.0
UNHEALTHY_PROBE_SECONDS: Final = 1.0
"""Time between two looks while an engine is not healthy."""
FIRST_LOOK_SECONDS: Final = 2.0
"""How long a new process waits for its first look at all engines before it serves."""
MAX_CARDS_BYTES: Final = 1024 * 1024

_KEY_HINTS: Final = dict.fromkeys((401, 403), ", is ROUTER_ENGINE_API_KEY right?")
_LOG = logging.getLogger("router")


class Prober:
    """Background threads that keep a fleet's reports fresh: one per engine, so that a silent one delays no other."""

    def __init__(self, settings: Settings, fleet: Fleet) -> None:
        self._settings = settings
        self._fleet = fleet
        self._connections = Connections(settings)
        self._process = 0
        self._lock = threading.Lock()
        self._wakes = {engine: threading.Event() for engine in fleet.engines}
        self._seen = {engine: threading.Event() for engine in fleet.engines}

    def start(self) -> None:
        """Begin to probe in this process, unless that is done already. Threads do not survive a fork."""
        if self._process == os.getpid():
            return
        with self._lock:
            if self._process == os.getpid():
                return
            self._process = os.getpid()
            for engine in self._fleet.engines:
                threading.Thread(target=self._run, args=(engine,), name="engine-prober", daemon=True).start()

    def start_and_look(self) -> None:
        """Begin to probe, and return once each engine was looked at, or after FIRST_LOOK_SECONDS.

        A process that took requests before would refuse them, although its siblings serve.
        """
        self.start()
        deadline = time.monotonic() + FIRST_LOOK_SECONDS
        for seen in self._seen.values():
            seen.wait(max(0.0, deadline - time.monotonic()))

    def look_now(self, engine: str) -> None:
        """Look at an engine now rather than at its next turn."""
        self._wakes[engine].set()

    def probe(self, engine: str) -> Report:
        """Ask an engine for its health (`/health`, or `/v1/models` where that does not exist) and its models.

        Raises ApiError when it does not answer.
        """
        status, _ = self._get(engine, "/health")
        healthy = _is_success(status)
        if not healthy and status != HTTPStatus.NOT_FOUND:
            return Report(healthy=False, problem=f"/health answers {status}")
        status, body = self._get(engine, "/v1/models")
        if not _is_success(status):
            return Report(healthy=healthy, problem=f"/v1/models answers {status}{_KEY_HINTS.get(status, '')}")
        cards = _read_cards(body)
        return Report(healthy=True, cards=cards, problem="" if cards else "/v1/models lists no model")

    def _run(self, engine: str) -> None:
        wake = self._wakes[engine]
        said = None
        while True:
            wake.clear()
            report = self._look(engine)
            state = "healthy" if report.healthy else "not healthy"
            saying = f"{state}: {report.problem}" if report.problem else state
            if saying != said:
                _LOG.log(logging.WARNING if report.problem else logging.INFO, "engine %s is %s", engine, saying)
            said = saying
            self._seen[engine].set()
            seconds = self._settings.probe_seconds
            wake.wait(seconds if report.healthy else min(seconds, UNHEALTHY_PROBE_SECONDS))

    def _look(self, engine: str) -> Report:
        report = Report(healthy=False)
        try:
            report = self.probe(engine)
        except ApiError as error:
            report = Report(healthy=False, problem=reason_of(error))
        except Exception:  # noqa: BLE001 - a probe that fails in an unknown way must not end all probing
            _LOG.exception("probing %s failed", engine)
        self._fleet.learn(engine, report)
        return report

    def _get(self, engine: str, path: str) -> tuple[int, bytes]:
        key = self._settings.engine_api_key
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        answer = self._connections.get(engine + path, headers, PROBE_TIMEOUT_SECONDS)
        try:
            return answer.status, answer.read(MAX_CARDS_BYTES)
        finally:
            answer.close()


def _is_success(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _read_cards(body: bytes) -> tuple[Card, ...] | None:
    """Return the cards of an OpenAI model list, None when it is not one."""
    try:
        listing: Any = orjson.loads(body)
        return tuple(card for card in listing["data"] if isinstance(card["id"], str))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
