"""The test bed of the demo: an engine and routers as real processes on free ports."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import requests

from compiler.diagnostics import CommandError
from router.artifact.format import Artifact, serialise
from router.mock_engine import MockEngine, ReceivedRequest
from router.settings.declarations import SettingError, load

MODEL: Final = "demo-model"
"""The model that the mock engine serves."""

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
_RESPONSE_SECONDS: Final = 120.0
_ENGINE_SETTINGS: Final = ("ROUTER_ENGINE_API_KEY", "ROUTER_ENGINE_CA")
_POLL_SECONDS: Final = 0.02
_LISTENING: Final = re.compile(r"Listening at: (http://127\.0\.0\.1:\d+)")


class HarnessError(CommandError):
    """The engine or a router did not start; the message is for people."""


class Engine(NamedTuple):
    """The engine of the demo: its URL, the model it serves, and the mock engine where it is one."""

    url: str
    model: str
    mock_engine: MockEngine | None

    def last_received(self) -> ReceivedRequest | None:
        """Return the last request of the mock engine and forget it; None if there was none or the engine is real."""
        if self.mock_engine is None or not self.mock_engine.received:
            return None
        received = self.mock_engine.received[-1]
        self.mock_engine.clear()
        return received


class Router:
    """One router under gunicorn, on a port that the system chose, with settings of its own besides the usual ones."""

    def __init__(
        self, artifact: Artifact, engine_url: str, folder: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self.artifact = artifact
        profile = folder / f"{artifact.name}.json"
        profile.write_bytes(serialise(artifact))
        self._log = profile.with_suffix(".log")
        self.url = ""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "-c", "python:router.gunicorn_conf", "-b", "127.0.0.1:0"],
                env={**_environment(profile, engine_url), **(settings or {})},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C must reach only the demo, which stops its routers.
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Wait until the router is ready. Raises HarnessError with its log when it does not."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._is_ready():
                return
            time.sleep(_POLL_SECONDS)
        raise HarnessError(f"the router did not become ready; its log:\n{self._log.read_text(errors='replace')}")

    def post(self, body: bytes) -> requests.Response:
        """Send a chat completion request."""
        with requests.Session() as session:
            session.trust_env = False
            headers = {"Content-Type": "application/json"}
            return session.post(f"{self.url}/v1/chat/completions", body, headers=headers, timeout=_RESPONSE_SECONDS)

    def stop(self) -> None:
        """Stop at once, as gunicorn does at SIGQUIT; kill what does not."""
        self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def state(self) -> dict[str, Any]:
        """Return what `/readyz` says."""
        with requests.Session() as session:
            session.trust_env = False
            answer: dict[str, Any] = session.get(f"{self.url}/readyz", timeout=_RESPONSE_SECONDS).json()
            return answer

    def _is_ready(self) -> bool:
        if not self.url:
            listening = _LISTENING.search(self._log.read_text(errors="replace"))
            self.url = listening[1] if listening else ""
        try:
            return bool(self.url) and self.state()["status"] == "ready"
        except requests.RequestException:
            return False


class Harness:
    """Opens an engine and routers, and closes what is open at the end."""

    def __init__(self, engine_url: str | None) -> None:
        self._engine_url = engine_url
        self._open = ExitStack()
        self.engine = Engine("", "", None)

    def open_engine(self) -> None:
        """Start the mock engine, or ask the given one for its model. Raises HarnessError."""
        if self._engine_url is not None:
            self.engine = Engine(self._engine_url, _model_of(self._engine_url), None)
            return
        mock_engine = self._open.enter_context(MockEngine(models=(MODEL,)))
        self.engine = Engine(mock_engine.url, MODEL, mock_engine)

    def open_routers(self, artifacts: Sequence[Artifact], folder: Path) -> list[Router]:
        """Start one router for each artifact, side by side, and wait until all are ready. Raises HarnessError."""
        routers = []
        for number, artifact in enumerate(artifacts):
            own_folder = folder / str(number)
            own_folder.mkdir()
            routers.append(Router(artifact, self.engine.url, own_folder))
            self._open.callback(routers[-1].stop)
        for router in routers:
            router.wait_until_ready()
        return routers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not interrupt the cleanup.
        interrupts = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._open.close()
        signal.signal(signal.SIGINT, interrupts)


def _environment(profile: Path, engine_url: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name in _ENGINE_SETTINGS or not _is_setting(name)}
    # The packages may be importable only because of where profilec was started.
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    own = {"ROUTER_PROFILE": str(profile), "ROUTER_ENGINES": engine_url, "ROUTER_ACCESS_LOG": "off"}
    return {**inherited, "PYTHONPATH": path, **own}


def _model_of(engine_url: str) -> str:
    environment = {name: os.environ[name] for name in _ENGINE_SETTINGS if name in os.environ}
    try:
        settings = load({**environment, "ROUTER_ENGINES": engine_url})
    except SettingError as error:
        raise HarnessError(f"--engine {engine_url}: {error}") from error
    url = f"{settings.engines[0]}/v1/models"
    key = settings.engine_api_key
    try:
        with requests.Session() as session:
            session.trust_env = False
            session.verify = str(settings.engine_ca) if settings.engine_ca else True
            answer = session.get(
                url, headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=_RESPONSE_SECONDS
            )
            answer.raise_for_status()
        return str(answer.json()["data"][0]["id"])
    except requests.HTTPError as error:
        needs_key = answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        hint = "; put its key into ROUTER_ENGINE_API_KEY" if needs_key else ""
        raise HarnessError(f"{url} responded with {answer.status_code}{hint}") from error
    except requests.RequestException as error:
        raise HarnessError(f"no models could be read from {url}: is the engine up? ({type(error).__name__})") from error
    except (ValueError, LookupError, TypeError) as error:
        raise HarnessError(f"{url} did not respond with a list of models") from error


def _is_setting(name: str) -> bool:
    return name.startswith(("ROUTER_", "GUNICORN_")) or name in {"PORT", "WEB_CONCURRENCY"}
