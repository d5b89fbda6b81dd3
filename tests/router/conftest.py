"""Fixtures of the router's tests: a mock engine and routers in front of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from router.contract.schema.model import Contract
from router.mock_engine import MockEngine
from tests.router.serving import RunningRouter, artifact_file, running_router

RouterOf = Callable[..., RunningRouter]
PATIENT = {"ROUTER_BREAKER_FAILURES": "10000"}

SERVERS = {"worker": (), "gthread": ("--worker-class", "gthread", "--threads", "16")}
"""The servers that reach the application: the router's own worker, and gunicorn's threads through WSGI."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests marked `any_server` with each server; those of a marked file by default with the worker alone."""
    marks = [node for node, _ in metafunc.definition.iter_markers_with_node("any_server")]
    if not marks or "server" not in metafunc.fixturenames:
        return
    others = () if metafunc.definition in marks else pytest.mark.exhaustive
    values = [pytest.param(name, marks=others if name == "gthread" else ()) for name in SERVERS]
    metafunc.parametrize("server", values, indirect=True, scope="module")


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> str:
    """The name of the server under test (SERVERS)."""
    return str(getattr(request, "param", "worker"))


@pytest.fixture(scope="module")
def engine() -> Iterator[MockEngine]:
    """A mock engine that serves the model `served`, shared by the tests of one file."""
    with MockEngine(models=("served",)) as mock_engine:
        yield mock_engine


@pytest.fixture(autouse=True)
def _forget_earlier_requests(request: pytest.FixtureRequest) -> None:
    if "engine" in request.fixturenames:
        mock_engine: MockEngine = request.getfixturevalue("engine")
        mock_engine.restore_behaviour()
        mock_engine.clear()


@pytest.fixture(scope="module")
def router_of(engine: MockEngine, server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterOf]:
    """Return the running router of a contract in front of the shared engine; equal ones are started once a file.

    However often the engine fails, tests get at it: which engine is taken out is tested by itself.
    """
    running: dict[str, RunningRouter] = {}
    with ExitStack() as stack:

        def start(contract: Contract | None = None, **settings: str) -> RunningRouter:
            key = f"{contract} {settings}"
            if key not in running:
                folder: Path = tmp_path_factory.mktemp("artifact")
                artifact = artifact_file(folder, contract or Contract())
                arguments = ("-c", "python:router.gunicorn_conf", *SERVERS[server])
                running[key] = stack.enter_context(
                    running_router(artifact, [engine.url], PATIENT | settings, arguments)
                )
            return running[key]

        yield start
