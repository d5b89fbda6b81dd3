"""How the router is run for real: the unit and the documents beside it say nothing that does not work."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from router.contract.schema.model import Contract
from router.contract.schema.sections import Limits
from router.mock_engine import MockEngine
from router.request import routes
from router.settings.declarations import Settings, load, unknown_names
from tests.checkout import CHECKOUT
from tests.router.serving import RunningRouter, artifact_file, free_port, launch

FOLDER = CHECKOUT / "router" / "deploy"
README = (FOLDER / "README.md").read_text()
UNIT = FOLDER / "profilec-router.service"
INSTALLED = "/opt/profilec/bin/"
DEFAULTS = Settings(engines=("http://127.0.0.1:30000",))
STOPPING = DEFAULTS.drain_seconds + DEFAULTS.graceful_timeout_seconds
BLOCKS = dict(zip(("install", "reload"), re.findall(r"```sh\n(.*?)```", README, re.DOTALL), strict=True))


def _values(name: str) -> list[str]:
    """Return what the unit says under a name, which may stand there more than once."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def _run(command: list[str], folder: Path = CHECKOUT, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROUTER_", "SGLANG_"))}
    kept["PYTHONPATH"] = str(CHECKOUT)
    return subprocess.run(
        command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


def _artifact(folder: Path) -> Path:
    return artifact_file(folder, Contract(limits=Limits(max_images=3)), "profile")


def test_a_reload_checks_the_artifact_before_the_router_hears_of_it(tmp_path: Path) -> None:
    """The unit's reload begins with a check that a good artifact passes and one that was edited or is gone does not."""
    check, hang_up = _values("ExecReload")
    assert hang_up == "/bin/kill -HUP $MAINPID"
    artifact = _artifact(tmp_path)
    program, *arguments = shlex.split(check.replace("${ROUTER_PROFILE}", str(artifact)))
    assert program == f"{INSTALLED}profilec"
    command = [sys.executable, "-m", "compiler", *arguments]
    good = _run(command)
    assert (good.returncode, good.stdout) == (0, "")
    assert "is a valid artifact: profile (sha256:" in good.stderr
    artifact.write_text(artifact.read_text().replace('"max_images": 3', '"max_images": 4'))
    assert _run(command).returncode == 1
    artifact.unlink()
    assert _run(command).returncode == 1


def test_the_unit_starts_a_router(tmp_path: Path) -> None:
    """The unit's start line, with the settings of the document's environment file, serves."""
    (line,) = _values("ExecStart")
    program, *arguments = shlex.split(line)
    assert program == f"{INSTALLED}gunicorn"
    settings = dict(re.findall(r"echo '(\w+)=(.*)' >> /etc/sgl-router/router.env", BLOCKS["install"]))
    assert unknown_names(settings) == []
    with MockEngine() as engine:
        settings |= {"ROUTER_ENGINES": engine.url, "ROUTER_PROFILE": str(_artifact(tmp_path)), "PORT": str(free_port())}
        with RunningRouter(launch(settings, arguments, bind=None)) as router:
            router.wait_until_ready()


def test_the_unit_waits_for_the_last_request() -> None:
    """The unit gives the router the time that it may take to stop, and tells the master alone."""
    (seconds,) = _values("TimeoutStopSec")
    assert int(seconds) > STOPPING
    assert _values("KillMode") == ["mixed"]
    assert _values("Type") == ["notify"]


def test_the_unit_is_one(tmp_path: Path) -> None:
    """Systemd finds nothing wrong with the unit."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(INSTALLED, f"{_programs(tmp_path)}/"))
    done = _run(["systemd-analyze", "verify", "--man=no", str(unit)])
    assert UNIT.name not in done.stderr, done.stderr


def _programs(folder: Path) -> Path:
    programs = folder / "bin"
    programs.mkdir()
    for name in ("gunicorn", "profilec"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    return programs


def test_the_commands_install_what_the_unit_names(tmp_path: Path) -> None:
    """The document's commands, run under another root, put every file in place that the unit needs."""
    root, log, programs = tmp_path / "root", tmp_path / "systemctl.log", _programs(tmp_path)
    (root / "etc" / "systemd" / "system").mkdir(parents=True)
    (programs / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    (programs / "systemctl").chmod(0o755)
    (tmp_path / "router").symlink_to(CHECKOUT / "router")
    (tmp_path / "api_keys").write_text("team=a-key-of-16-characters\n")
    _artifact(tmp_path)
    for block in BLOCKS.values():
        # How to make the environment is what the README's first command does, from nothing.
        commands = "".join(line for line in block.splitlines(keepends=True) if "-m venv" not in line)
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        done = _run(["bash", "-ec", commands.replace(" /etc/", f" {root}/etc/")], tmp_path, PATH=path)
        assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == [
        "daemon-reload",
        "enable --now profilec-router",
        "reload profilec-router",
    ]
    named = set(re.findall(r"/etc/sgl-router/[\w.]+", UNIT.read_text()))
    placed = {f"/{path.relative_to(root)}" for path in root.rglob("*") if path.is_file()}
    assert placed == named | {f"/etc/systemd/system/{UNIT.name}"}
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in (root / "etc" / "sgl-router").iterdir()} == {
        "profile.json": "0o644",
        "api_keys": "0o600",
        "router.env": "0o600",
    }


def _kubernetes(kind: str) -> dict[str, Any]:
    """Return the one object of a kind among those in the README."""
    texts = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    (found,) = [each for text in texts for each in yaml.safe_load_all(text) if each["kind"] == kind]
    return dict(found)


def test_the_engines_are_the_pods_of_a_headless_service() -> None:
    """The name that the router follows is that of the service, which has no address of its own, and its port."""
    service = _kubernetes("Service")
    (container,) = _kubernetes("Deployment")["spec"]["template"]["spec"]["containers"]
    (engines,) = [each["value"] for each in container["env"] if each["name"] == "ROUTER_ENGINES"]
    (port,) = service["spec"]["ports"]
    assert engines == f"dns://{service['metadata']['name']}:{port['port']}"
    assert service["spec"]["clusterIP"] == "None"


def test_the_pod_is_given_what_the_router_needs(tmp_path: Path) -> None:
    """The Kubernetes example probes routes that exist, waits for the last request, and names settings that exist."""
    pod: dict[str, Any] = _kubernetes("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    settings = {each["name"]: each["value"] for each in container["env"]}
    assert unknown_names(settings) == []
    mounts = tuple(mount["mountPath"] for mount in container["volumeMounts"])
    for name in ("ROUTER_PROFILE", "ROUTER_API_KEYS_FILE"):
        assert settings[name].startswith(mounts)
    own = load({name: value for name, value in settings.items() if name != "ROUTER_API_KEYS_FILE"})
    assert pod["terminationGracePeriodSeconds"] > own.drain_seconds + own.graceful_timeout_seconds
    readiness, liveness = container["readinessProbe"], container["livenessProbe"]
    assert (readiness["httpGet"]["path"], liveness["httpGet"]["path"]) == (routes.READYZ, routes.HEALTHZ)
    assert own.drain_seconds > readiness["periodSeconds"] * readiness["failureThreshold"]
    ports = {
        readiness["httpGet"]["port"],
        liveness["httpGet"]["port"],
        *(p["containerPort"] for p in container["ports"]),
    }
    assert ports == {int(settings["PORT"])}
    assert container["command"] == ["gunicorn", *_values("ExecStart")[0].split()[1:]]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
