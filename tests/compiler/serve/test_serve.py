"""`profilec serve` as people run it: a real gunicorn, an engine behind it or the mock engine, sources that change."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import router
from compiler.cli import main
from compiler.serve.launch import reject_hidden_router
from router.contract.schema.model import Contract
from router.contract.schema.sections import Sampling
from router.mock_engine import MockEngine
from tests.checkout import CHECKOUT
from tests.router.process import children_of
from tests.router.rawclient import RawClient
from tests.router.serving import RunningRouter, artifact_file, launch, status_of, wait_until
from tests.router.wire.chat import CHAT, chat

PIN = "sampling: {params: {temperature: %s}}\n"


def _serve(folder: Path, *arguments: str, settings: Mapping[str, str] | None = None) -> RunningRouter:
    """Start `profilec serve` on a free port in a folder, with the folder `temporary` in it for temporary files."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROUTER_", "SGLANG_", "PORT"))}
    (folder / "temporary").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "compiler", "serve", *arguments, "--port", "0"],
        cwd=folder,
        env={
            **kept,
            "PYTHONPATH": str(CHECKOUT),
            "TMPDIR": str(folder / "temporary"),
            "ROUTER_DRAIN_SECONDS": "0",
            **(settings or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return RunningRouter(process)


def _injected(router: RunningRouter, engine: MockEngine) -> object:
    engine.clear()
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat()).status == 200
    return engine.received[-1].json().get("temperature")


def test_a_change_of_a_source_is_compiled_and_reloaded(tmp_path: Path) -> None:
    """With --reload a changed parent is enforced; while it is broken its diagnostics say so, and the last one stays."""
    base, profile = tmp_path / "base.yaml", tmp_path / "profile.yaml"
    base.write_text(PIN % 1)
    profile.write_text("extends: ./base.yaml\nname: mine\n")
    with MockEngine() as engine, _serve(tmp_path, "./profile.yaml", "--engine", engine.url, "--reload") as router:
        router.wait_until_ready()
        assert router.wait_for_line(r"Listening at: \S+ \((\d+)\)")[1] == str(router.process.pid)
        assert "in production, serve a built artifact: profilec build ./profile.yaml -o profile.json" in router.log()
        assert _injected(router, engine) == 1
        base.write_text("sampling: {params: {temperatur: 1}}\n")
        router.wait_for_line("the last valid contract stays active")
        assert 'base.yaml:1:21: error: "temperatur" is not a key' in router.log()
        assert _injected(router, engine) == 1
        base.write_text(PIN % 0.5)
        wait_until(lambda: _injected(router, engine) == 0.5, router.log)
        profile.write_text("extends: ./other.yaml\n")
        router.wait_for_line("other.yaml.*No such file")
        (tmp_path / "other.yaml").write_text(PIN % 0.25)
        wait_until(lambda: _injected(router, engine) == 0.25, router.log)
        base.unlink()  # no longer a source
        router.signal(signal.SIGTERM)
        assert router.process.wait(20) == 0
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_without_an_engine_the_stand_in_serves_and_ends_with_the_router(tmp_path: Path, number: signal.Signals) -> None:
    """Where no engine is named a mock engine is started, as is said, and however the router ends, nothing is left."""
    with _serve(tmp_path, "moonshot-kimi", "--workers", "2") as router:
        router.wait_until_ready()
        engine = router.wait_for_line("the mock engine at (http://127.0.0.1:[0-9]+) serves")[1]
        assert "the preset moonshot-kimi was compiled for this run" in router.log()
        wait_until(lambda: router.log().count("Booting worker") == 2, router.log)
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat(model="moonshot-kimi")).status == 200
            rejected = client.post(CHAT, chat(model="moonshot-kimi", top_p=0.8))
            assert (rejected.status, rejected.json()["error"]["param"]) == (400, "top_p")
        assert status_of(f"{engine}/health") == 200
        router.signal(number)
        router.process.wait(20)
        wait_until(lambda: status_of(f"{engine}/health") == 0 and not list((tmp_path / "temporary").iterdir()))


def test_an_artifact_is_served_as_by_bare_gunicorn(tmp_path: Path) -> None:
    """Serving a built artifact is gunicorn with our conf and nothing beside it: the same process, log and state."""
    assert main.main(["init", str(tmp_path / "own"), "--preset", "moonshot-kimi"]) == 0
    folder = tmp_path / "own"
    with MockEngine() as engine:
        settings = {"ROUTER_ENGINES": engine.url}
        with _serve(folder, "profile.json", "--engine", engine.url) as router:
            router.wait_until_ready()
            assert len(children_of(router.process.pid)) == 1
            served = _what_it_says(router)
        bare = launch({**settings, "ROUTER_DRAIN_SECONDS": "0"}, (), folder=folder)
        with RunningRouter(bare) as router:
            router.wait_until_ready()
            assert _what_it_says(router) == served


def _what_it_says(router: RunningRouter) -> list[str]:
    """Return what the router says of itself at start, without what differs from run to run."""
    router.wait_for_line("is healthy")  # the last one; the log may come later than the readiness
    said = [line.partition("] router: ")[2].replace(str(router.port), "PORT") for line in router.lines]
    return [re.sub(r"[\w/.-]*profile\.json", "profile.json", line) for line in said if line]


def test_an_artifact_is_reloaded_when_it_changes(tmp_path: Path) -> None:
    """The artifact of ROUTER_PROFILE is served where none is named; --reload takes a new one, and no broken one."""
    artifact = artifact_file(tmp_path, Contract(sampling=Sampling(params={"temperature": 1})))
    with MockEngine() as engine:
        settings = {"ROUTER_PROFILE": artifact.name, "ROUTER_ENGINES": engine.url}
        with _serve(tmp_path, "--reload", settings=settings) as router:
            router.wait_until_ready()
            assert f"serving {artifact.name} (from ROUTER_PROFILE)" in router.log()
            assert _injected(router, engine) == 1
            artifact.write_text("{}")
            router.wait_for_line("the last valid contract stays active")
            assert "Handling signal: hup" not in router.log()
            artifact_file(tmp_path, Contract(sampling=Sampling(params={"temperature": 0.5})))
            wait_until(lambda: _injected(router, engine) == 0.5, router.log)


WRONG = (
    ("./wrong.yaml", 1, '"nam" is not a key'),
    ("broken.json", 1, "broken.json"),
    ("none.json", 1, "none.json"),
    ("moonshot-kimi --engine localhost:1", 1, "ROUTER_ENGINES"),
    ("moonshot-kimi --port 65536", 2, "--port"),
    ("moonshot-kimi --workers 0", 2, "--workers"),
    ("moonshot-kimi --api-profile x", 2, "name the profile once"),
)


@pytest.mark.parametrize(("arguments", "code", "said"), WRONG, ids=[arguments for arguments, *_ in WRONG])
def test_what_is_wrong_is_said_before_anything_starts(
    arguments: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A profile, an artifact, a setting or an option that is wrong ends with the usual exit code, and a reason."""
    Path("wrong.yaml").write_text("nam: x\n")
    Path("broken.json").write_text("{}")
    assert main.main(["serve", *arguments.split()]) == code
    assert said in capsys.readouterr().err


def test_a_checkout_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout of this project, whose `router` is not the installed one, the router is served."""
    shutil.copytree(Path(router.__file__).parent, tmp_path / "router", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    reject_hidden_router()


@pytest.mark.parametrize("name", ["router.py", "router/__init__.py"])
def test_a_folder_with_another_router_is_rejected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder whose own module `router` would hide ours from gunicorn, the error names that module."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert main.main(["serve", "moonshot-kimi"]) == 1
    assert f'"{name}" in this folder hides' in capsys.readouterr().err
