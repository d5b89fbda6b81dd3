"""`--through-engine`: run the router in front of an engine that records requests and rejects on instruction."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from compiler.demo.harness import Router
from compiler.verify.generation.requests import ENGINE_ANSWERS, MARK
from router.artifact.format import Artifact
from router.mock_engine import MockEngine, MockResponse, ReceivedRequest, ScriptedResponse

_ID: Final = "X-Request-Id"
_MARK: Final = MARK.encode()


class RouterUnderTest(NamedTuple):
    """A running router: its address, and the engine behind it."""

    url: str
    engine: "CapturingEngine"


class CapturingEngine:
    """Stores the requests that the engine received until they are fetched."""

    def __init__(self) -> None:
        self._got: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def record_capture(self, received: ReceivedRequest) -> ScriptedResponse | None:
        """Store a request; return the rejection that its marker names, None for the engine's own response."""
        ids = received.values(_ID)
        if received.method != "POST" or not ids:
            return None
        with self._lock:
            self._got[ids[0]] = received.body
        if _MARK not in received.body:
            return None
        name = received.body.partition(_MARK)[2].partition(b'"')[0].decode()
        return MockResponse.json(ENGINE_ANSWERS[name], 400)

    def take_capture(self, request_id: str) -> bytes | None:
        """Return the request that the engine received and delete it; None if it received none."""
        with self._lock:
            return self._got.pop(request_id, None)


@contextmanager
def router_under_test(artifact: Artifact, models: tuple[str, ...]) -> Iterator[RouterUnderTest]:
    """Start a router of an artifact before an engine that serves these models; stop both at the end.

    Raises HarnessError when the router does not come up.
    """
    settings = {
        "ROUTER_MODEL_ID": ",".join(models),
        # The checks provoke rejections by the engine; these must not eject it.
        "ROUTER_BREAKER_FAILURES": "10000",
        "WEB_CONCURRENCY": "1",
    }
    capturing = CapturingEngine()
    with TemporaryDirectory(prefix="profilec-verify-") as folder, MockEngine(models=models) as standin:
        standin.recording = False
        standin.script(capturing.record_capture)
        router = Router(artifact, standin.url, Path(folder), settings)
        try:
            router.wait_until_ready()
            yield RouterUnderTest(router.url, capturing)
        finally:
            router.stop()
