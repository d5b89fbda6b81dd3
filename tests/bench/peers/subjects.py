"""What is measured: the peers, each as its package has it, and our router under three contracts."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import gunicorn

from router.artifact import format as artifact_format
from router.artifact.release import shipped_folder
from tests.bench.peers.bodies import MODEL
from tests.bench.peers.cache import Cache, libraries_of, node_version, output_of, python_version
from tests.checkout import CHECKOUT

NGINX_PACKAGES: Final = ("nginx",)
OURS: Final = "ours, "
"""How the names of our own subjects begin; the rest is the preset."""
CONTRACT_OFF, CONTRACT_ON = "openai-compatible", "moonshot-kimi"

Words = list[str | Path]


class Task(NamedTuple):
    """How a subject is to be run: where it listens, in front of which engine, how wide, and where it may write."""

    port: int
    spare_port: int
    engine: str
    workers: int
    folder: Path
    most_streams: int


class Command(NamedTuple):
    """How it is started, and the headers that it wants to see in each request."""

    words: Words
    environment: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}


class Installed(NamedTuple):
    """A subject that can be run."""

    version: str
    command: Callable[[Task], Command]


class Subject(NamedTuple):
    """Something that is measured; `install` raises SetupError where it cannot be had."""

    name: str
    install: Callable[[Cache], Installed]


def subjects() -> list[Subject]:
    """Return all subjects, in the order of the table."""
    presets = dict.fromkeys((CONTRACT_OFF, CONTRACT_ON, largest_preset()))
    return [
        Subject("nginx", _nginx),
        Subject("sglang-router", partial(_router, "sglang-router==0.3.2", "sglang_router.launch_router")),
        Subject("vllm-router", partial(_router, "vllm-router==0.1.17", "vllm_router.launch_router")),
        Subject("smg", partial(_router, "smg==1.13.0", "smg.launch_router")),
        Subject("Portkey", _portkey),
        Subject("LiteLLM", _litellm),
        *(Subject(OURS + preset, partial(_ours, preset)) for preset in presets),
    ]


def largest_preset() -> str:
    """Return the preset whose artifact holds one request to the most rules."""
    folder = shipped_folder("build")
    found = {path.stem: artifact_format.read(path) for path in folder.glob("*.json") if ".schema" not in path.name}
    return max(sorted(found), key=lambda name: most_rules(found[name]))


def most_rules(of: artifact_format.Artifact) -> int:
    """Return how many rules an artifact holds a request to at most."""
    return max(map(len, (of.rules, *of.case_rules.values())))


def _ours(preset: str, _cache: Cache) -> Installed:
    def command(task: Task) -> Command:
        words: Words = [sys.executable, "-m", "gunicorn", "-c", "python:router.gunicorn_conf"]
        words += ["--bind", f"127.0.0.1:{task.port}", "--workers", str(task.workers), "router.wsgi"]
        environment = {
            "PYTHONPATH": str(CHECKOUT),
            "ROUTER_ENGINES": task.engine,
            "ROUTER_PROFILE": str(shipped_folder("build") / f"{preset}.json"),
            "ROUTER_ACCESS_LOG": "json",
            "ROUTER_METRICS": "on",
            "ROUTER_DRAIN_SECONDS": "0",
        }
        if task.most_streams:
            environment["ROUTER_MAX_IN_FLIGHT"] = str(task.most_streams + 100)
        return Command(words, environment)

    revision = output_of("git", "-C", CHECKOUT, "describe", "--always", "--dirty").strip().splitlines()[-1:]
    python = ".".join(map(str, sys.version_info[:3]))
    return Installed(f"{' '.join(revision)}, gunicorn {gunicorn.__version__}, Python {python}", command)


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


NGINX_CONF = """\
daemon off;
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/nginx.error.log error;
events {{ worker_connections 8192; }}
http {{
    access_log {folder}/nginx.access.log;
    client_body_temp_path {folder}/client;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 64m;
    client_body_buffer_size 2m;
    keepalive_requests 1000000000;
    upstream engine {{
        server {address};
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://engine;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600s;
        }}
    }}
}}
"""


def _nginx(cache: Cache) -> Installed:
    program = cache.debian_program("nginx", NGINX_PACKAGES)
    environment = libraries_of(program)
    version = re.search(r"nginx/(\S+)", output_of(program, "-v", environment=environment))

    def command(task: Task) -> Command:
        conf = task.folder / "nginx.conf"
        address = task.engine.removeprefix("http://")
        conf.write_text(NGINX_CONF.format(workers=task.workers, folder=task.folder, address=address, port=task.port))
        words: Words = [program, "-c", conf, "-p", task.folder, "-e", task.folder / "nginx.error.log"]
        return Command(words, environment)

    return Installed(version[1] if version else "unknown", command)
