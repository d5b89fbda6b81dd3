"""What is measured: proxies, the peers, each as its package has it, and our router under several contracts."""

import json
import subprocess
import sys
from functools import partial
from typing import Final

import gunicorn

from router.artifact import format as artifact_format
from router.artifact.release import shipped_folder
from tests.bench.peers.bodies import MODEL
from tests.bench.peers.cache import Cache, SetupError, node_version, output_of, python_version
from tests.bench.peers.proxies import envoy, haproxy, nginx
from tests.bench.peers.tasks import Command, Installed, Subject, Task, Words
from tests.checkout import CHECKOUT

OURS: Final = "ours, "
"""How the names of our own subjects begin; the rest is the preset."""
CONTRACT_OFF, CONTRACT_ON = "openai-compatible", "moonshot-kimi"
EDITED: Final = f"{OURS}{CONTRACT_ON} with edits"
"""Our router under a contract that edits each event of a stream, and takes bodies of 100 MiB."""
BARE: Final = "a bare loop"
"""No peer: what connecting and TLS cost by themselves."""

_ALIAS: Final = "kimi-bench"
_EDITED_PROFILE: Final = f"""\
extends: {CONTRACT_ON}
models: {{aliases: [{_ALIAS}]}}
limits: {{max_body_bytes: 100MiB}}
response: {{stream: {{usage: end_frame}}}}
"""


def subjects() -> list[Subject]:
    """Return all subjects, in the order of the table."""
    presets = dict.fromkeys((CONTRACT_OFF, CONTRACT_ON, largest_preset()))
    return [
        Subject("nginx", nginx),
        Subject("Envoy", envoy),
        Subject("HAProxy", haproxy),
        Subject("sglang-router", partial(_router, "sglang-router==0.3.2", "sglang_router.launch_router")),
        Subject("vllm-router", partial(_router, "vllm-router==0.1.17", "vllm_router.launch_router")),
        Subject("smg", partial(_router, "smg==1.13.0", "smg.launch_router")),
        Subject("Portkey", _portkey),
        Subject("LiteLLM", _litellm),
        *(Subject(OURS + preset, partial(_ours, preset)) for preset in presets),
        Subject(EDITED, _ours_with_edits),
        Subject(BARE, _bare_loop),
    ]


def largest_preset() -> str:
    """Return the preset whose artifact holds one request to the most rules."""
    folder = shipped_folder("build")
    found = {path.stem: artifact_format.read(path) for path in folder.glob("*.json") if ".schema" not in path.name}
    return max(sorted(found), key=lambda name: most_rules(found[name]))


def most_rules(of: artifact_format.Artifact) -> int:
    """Return how many rules an artifact holds a request to at most."""
    return max(map(len, (of.contract.rules, *of.contract.case_rules.values())))


def _ours(preset: str, _cache: Cache) -> Installed:
    return _ours_under(str(shipped_folder("build") / f"{preset}.json"))


def _ours_with_edits(cache: Cache) -> Installed:
    profile, artifact = cache.folder / "edited.yaml", cache.folder / "edited.json"
    profile.write_text(_EDITED_PROFILE)
    words = [sys.executable, "-m", "compiler", "build", str(profile), "-o", str(artifact), "--force"]
    built = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if built.returncode:
        raise SetupError(built.stderr.strip().replace("\n", "; "))
    return _ours_under(str(artifact), _ALIAS)


def _bare_loop(_cache: Cache) -> Installed:
    def command(task: Task) -> Command:
        words: Words = [sys.executable, "-m", "tests.bench.peers.bare", str(task.port)]
        return Command([*words, *(task.certificate or ())], {"PYTHONPATH": str(CHECKOUT)})

    return Installed(f"Python {'.'.join(map(str, sys.version_info[:3]))}", command, speaks_tls=True)


def _ours_under(artifact: str, model: str = MODEL) -> Installed:
    def command(task: Task) -> Command:
        words: Words = [sys.executable, "-m", "gunicorn", "-c", "python:router.gunicorn_conf"]
        words += ["--bind", f"127.0.0.1:{task.port}", "--workers", str(task.workers)]
        if task.certificate:
            words += ["--certfile", task.certificate.chain, "--keyfile", task.certificate.key]
        words.append("router.wsgi")
        environment = {
            "PYTHONPATH": str(CHECKOUT),
            "ROUTER_ENGINES": task.engine,
            "ROUTER_PROFILE": artifact,
            "ROUTER_ACCESS_LOG": "json",
            "ROUTER_METRICS": "on",
            "ROUTER_DRAIN_SECONDS": "0",
        }
        if task.most_streams:
            environment["ROUTER_MAX_IN_FLIGHT"] = str(task.most_streams + 100)
        return Command(words, environment, model=model)

    revision = output_of("git", "-C", CHECKOUT, "describe", "--always", "--dirty").strip().splitlines()[-1:]
    python = ".".join(map(str, sys.version_info[:3]))
    return Installed(
        f"{' '.join(revision)}, gunicorn {gunicorn.__version__}, Python {python}", command, speaks_tls=True
    )


def _router(requirement: str, module: str, cache: Cache) -> Installed:
    """Install one of the routers in Rust, which share their command line."""
    place = cache.python_package(requirement)

    def command(task: Task) -> Command:
        words: Words = [place / "bin" / "python", "-m", module, "--worker-urls", task.engine]
        words += ["--host", "127.0.0.1", "--port", str(task.port), "--prometheus-port", str(task.spare_port)]
        words += ["--policy", "round_robin", "--log-level", "error"]
        if task.most_streams:
            words += ["--max-concurrent-requests", str(task.most_streams + 100)]
        return Command(words)

    return Installed(python_version(place, requirement.partition("=")[0]), command)


def _portkey(cache: Cache) -> Installed:
    package = cache.node_package("@portkey-ai/gateway", "1.15.2")

    def command(task: Task) -> Command:
        words: Words = ["node", package / "build" / "start-server.js", f"--port={task.port}", "--headless"]
        headers = {
            "x-portkey-provider": "openai",
            "x-portkey-custom-host": f"{task.engine}/v1",
            "Authorization": "Bearer bench",
        }
        return Command(words, {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}, headers)

    return Installed(f"{node_version(package)}, Node {output_of('node', '--version').strip()}", command)


def _litellm(cache: Cache) -> Installed:
    requirement = "litellm[proxy]==1.108.7"
    place = cache.python_package(requirement)

    def command(task: Task) -> Command:
        parameters = {"model": f"openai/{MODEL}", "api_base": f"{task.engine}/v1", "api_key": "bench"}
        config = {
            "model_list": [{"model_name": MODEL, "litellm_params": parameters}],
            "litellm_settings": {"telemetry": False, "num_retries": 0},
            # Nobody here shows a key, to any of the subjects.
            "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
        }
        file = task.folder / "litellm.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML, too
        words: Words = [place / "bin" / "litellm", "--config", file, "--host", "127.0.0.1", "--port", str(task.port)]
        words += ["--num_workers", str(task.workers)]
        environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"}
        return Command([*words, "--telemetry", "False"], environment, {"Authorization": "Bearer bench"})

    return Installed(python_version(place, "litellm"), command)
