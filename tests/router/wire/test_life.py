"""The life of the service: what stops its start, what it says once, how it reloads and how it stops."""

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import requests

from router.contract.schema.model import Contract
from router.contract.schema.sections import Limits, Sampling
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse
from tests.checkout import CHECKOUT
from tests.exhaustive import exhaustive_but
from tests.router.process import children_of, worker_of
from tests.router.rawclient import RawClient, post_head
from tests.router.serving import RunningRouter, artifact_file, free_port, launch, running_router, status_of, wait_until
from tests.router.wire.chat import CHAT, chat

CONF = ("-c", "python:router.gunicorn_conf")
THREE = ("--workers", "3")
PINNED = Contract(sampling=Sampling(params={"temperature": 1}))
OTHERWISE_PINNED = Contract(sampling=Sampling(params={"temperature": 0.5}))


def _run_to_its_end(
    environment: dict[str, str], arguments: Sequence[str], folder: Path | None = None
) -> tuple[int, str]:
    """Start a router that is expected to give up; return its exit code and its log."""
    process = launch(environment, arguments, folder=folder)
    try:
        _, log = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    return process.returncode, log


def _broken(folder: Path) -> Path:
    path = artifact_file(folder, PINNED, "broken")
    path.write_text(path.read_text().replace('"temperature": 1', '"temperature": 2'))
    return path


BROKEN_STARTS = {
    "artifact edited by hand": (
        lambda folder: {"ROUTER_PROFILE": str(_broken(folder))},
        "edited by hand.*profilec build",
    ),
    "artifact missing": (
        lambda folder: {"ROUTER_PROFILE": str(folder / "none.json")},
        "none.json: no such file; ROUTER_PROFILE names an artifact",
    ),
    "no contract where one is required": (
        lambda _: {"ROUTER_REQUIRE_PROFILE": "on"},
        "there is no artifact to enforce, and ROUTER_REQUIRE_PROFILE is on",
    ),
    "no engines": (lambda folder: {"ROUTER_ENGINES": ""}, "ROUTER_ENGINES is not set"),
    "a password in a URL": (
        lambda folder: {"ROUTER_ENGINES": "http://user:secret@127.0.0.1:1"},
        r'ROUTER_ENGINES cannot be used: found "…@127\.0\.0\.1:1", expected URLs without credentials',
    ),
    "all that is wrong at once": (
        lambda _: {
            "ROUTER_ENGINES": "",
            "ROUTER_ENGINE": "x",
            "ROUTER_ROUTES": "/v1/chat/completion",
            "ROUTER_POLICY": "Round-Robin",
            "ROUTER_API_KEYS": "team=secret",
            "ROUTER_API_KEYS_FILE": "team=secret",
            "ROUTER_METRICS_PORT": "0",
        },
        "ROUTER_ENGINES is not set",
        r'ROUTER_ROUTES .* found "/v1/chat/completion", .*; did you mean /v1/chat/completions\?$',
        r'ROUTER_POLICY .* found "Round-Robin", expected one of round_robin, .*; did you mean round_robin\?$',
        "ROUTER_API_KEYS .* found a value that may be a secret and is not shown, expected a key of at least",
        "ROUTER_API_KEYS_FILE .* is not shown, expected a readable file",
        'ROUTER_METRICS_PORT .* found "0", expected a TCP port from 1',
        "ROUTER_API_KEYS .* found ROUTER_API_KEYS_FILE beside it, expected either",
        "ROUTER_METRICS_PORT needs ROUTER_METRICS=on",
        r"ROUTER_ENGINE is not a setting and has no effect; did you mean ROUTER_ENGINES\?$",
    ),
}


WAYS = [(*CONF, *THREE), (*CONF, "--preload"), (), ("--preload",)]
EACH_WAY_AND_CAUSE = [(cause, way) for cause in BROKEN_STARTS for way in WAYS]


@pytest.mark.parametrize(
    ("cause", "arguments"),
    exhaustive_but(
        [pair for pair in EACH_WAY_AND_CAUSE if pair[1] == WAYS[0] or pair[0] == "artifact edited by hand"],
        EACH_WAY_AND_CAUSE,
    ),
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_broken_start_says_all_that_is_wrong(cause: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    """What cannot work stops the start with a line for each cause, and no worker is forked again and again."""
    settings, *lines = BROKEN_STARTS[cause]
    code, log = _run_to_its_end({"ROUTER_ENGINES": "http://127.0.0.1:1", **settings(tmp_path)}, arguments)
    said = [each for each in log.splitlines() if each.startswith("router: ")]
    assert len(said) == len(lines), log
    for line, pattern in zip(said, lines, strict=True):
        assert re.search(pattern, line)
    assert "Traceback" not in log
    assert not re.search(r"secret(?! and is not shown)", log)
    forks_first = not arguments
    assert code == (4 if forks_first else 1)
    assert log.count("Booting worker") == (1 if forks_first else 0)
    assert ("Listening at" in log) is forks_first


@pytest.mark.parametrize(("settings", "arguments"), [({"WEB_CONCURRENCY": "0"}, ()), ({}, ("--workers", "0"))])
def test_no_worker_at_all_is_an_error(settings: dict[str, str], arguments: tuple[str, ...]) -> None:
    """A router that would listen without a worker process does not start, and says what to set."""
    code, log = _run_to_its_end({"ROUTER_ENGINES": "http://127.0.0.1:1", **settings}, (*CONF, *arguments))
    assert code == 1
    name = "WEB_CONCURRENCY" if settings else "--workers"
    assert re.search(rf'^router: {name} cannot be used: found "?0"?, expected', log, re.MULTILINE)
    assert "Listening at" not in log


@pytest.mark.parametrize("name", ["router.py", "router/__init__.py"])
def test_another_module_of_our_name_is_reported(tmp_path: Path, name: str) -> None:
    """Where the folder that gunicorn starts in has a `router` of its own, our conf there says that it hides ours."""
    (tmp_path / "gunicorn.conf.py").write_text((CHECKOUT / "gunicorn.conf.py").read_text())
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    code, log = _run_to_its_end({"ROUTER_ENGINES": "http://127.0.0.1:1"}, (), tmp_path)
    assert (code, log) == (1, _HIDDEN.format(tmp_path / name))


_HIDDEN = "router: {} hides the installed package `router`: rename it, or start gunicorn in another folder\n"


@pytest.mark.parametrize("keys", ["", "a=0123456789abcdef"], ids=["no keys", "keys"])
def test_all_addresses_without_keys_are_a_warning(keys: str) -> None:
    """With PORT, which means all addresses, a router that asks for no API key says how to shut the door."""
    settings = {"ROUTER_ENGINES": "http://127.0.0.1:1", "PORT": str(free_port()), "ROUTER_API_KEYS": keys}
    with RunningRouter(launch(settings, CONF, bind=None)) as router:
        log = router.log()
    where = f"0.0.0.0:{settings['PORT']}"
    assert f"open on {where} (all addresses of this machine), {'for clients with an' if keys else 'without an'}" in log
    assert log.count(f"[WARNING] router: clients need no API key, and {where} listens on all addresses") == (not keys)


_READ_ONLY = """
set -e
for each in / /tmp /var/tmp; do ! mountpoint -q $each || mount -o remount,bind,ro $each; done
exec "$@"
"""
_IN_READ_ONLY_ROOT = ("unshare", "-m", "sh", "-c", _READ_ONLY, "sh")


def test_a_read_only_root_with_shared_memory_is_enough(tmp_path: Path) -> None:
    """With nothing writable but /dev/shm workers live and are replaced, and metrics are served."""
    try:
        subprocess.run([*_IN_READ_ONLY_ROOT, "sh", "-c", f"! touch {tmp_path}/x"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no read-only root can be made here: {error}")
    with MockEngine() as engine:
        settings = {"ROUTER_ENGINES": engine.url, "ROUTER_METRICS": "on"}
        with RunningRouter(launch(settings, CONF, before=_IN_READ_ONLY_ROOT)) as router:
            router.wait_until_ready()
            os.kill(worker_of(router), signal.SIGKILL)
            wait_until(lambda: router.log().count("Booting worker") == 2, router.log)
            router.wait_until_ready()
            assert status_of(f"{router.url}/metrics") == 200
            router.signal(signal.SIGQUIT)
            router.process.wait(20)
    assert not list(Path("/dev/shm").glob("router-metrics-*"))


@pytest.mark.parametrize("arguments", [CONF, ()], ids=["our conf", "no conf"])
def test_the_artifact_of_the_working_folder_is_enforced_and_said(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Without ROUTER_PROFILE `./profile.json` is enforced; with it, the log says that the other one exists, too."""
    other = artifact_file(tmp_path, OTHERWISE_PINNED, "other")
    artifact_file(tmp_path, PINNED, "profile")
    with MockEngine() as engine:
        for settings, temperature in (({}, 1), ({"ROUTER_PROFILE": str(other)}, 0.5)):
            process = launch({"ROUTER_ENGINES": engine.url, **settings}, arguments, folder=tmp_path)
            with RunningRouter(process) as router:
                router.wait_until_ready()
                assert _temperatures(router, engine, 1) == {temperature}
                log = router.log()
            assert f"from {other if settings else 'profile.json'}, in front of" in log
            assert log.count(f"profile.json exists, too, and is not enforced: {other}") == bool(settings)


def test_unknown_settings_are_named_with_the_nearest() -> None:
    """A ROUTER_* name that is no setting is a warning, once for all workers, that names the nearest one."""
    unknown = {"ROUTER_ENGINE": "x", "ROUTER_MODEL_IDS": "y", "ROUTER_": "z"}
    with running_router(None, ["http://127.0.0.1:1"], unknown, (*CONF, *THREE), until_ready=False) as router:
        _wait_for_workers(router, 3)
        log = router.log()
    for name, nearest in (("ROUTER_ENGINE", "ROUTER_ENGINES"), ("ROUTER_MODEL_IDS", "ROUTER_MODEL_ID")):
        assert log.count(f"{name} is not a setting and has no effect; did you mean {nearest}?") == 1
    assert log.count("ROUTER_ is not a setting and has no effect") == 1


def _wait_for_workers(router: RunningRouter, count: int) -> None:
    """Wait until so many workers have looked at their engine, which they do last before they serve."""
    wait_until(lambda: router.log().count("router: engine ") >= count, router.log)


@pytest.mark.parametrize("arguments", [CONF, (*CONF, "--preload"), ("--threads", "2"), ()], ids=" ".join)
def test_open_routes_beside_a_contract_are_said_once(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Three workers say once, all together, which open routes the contract does not govern."""
    artifact = artifact_file(tmp_path, PINNED)
    with MockEngine() as engine, running_router(artifact, [engine.url], arguments=(*arguments, *THREE)) as router:
        _wait_for_workers(router, 3)
        log = router.log()
    assert log.count("these routes are open beside it: /v1/completions, ") == 1
    assert log.count("router: enforcing under-test (sha256:") == 1
    assert log.count("sync worker: streams longer than 30 s will be CUT") == (1 if arguments == () else 0)


def test_narrowed_routes_need_no_warning(tmp_path: Path) -> None:
    """With ROUTER_ROUTES narrowed to what is governed nothing is said."""
    artifact = artifact_file(tmp_path, PINNED)
    routes = {"ROUTER_ROUTES": f"{CHAT},/v1/models"}
    with MockEngine() as engine, running_router(artifact, [engine.url], routes) as router:
        assert "WARNING" not in router.log()


def test_the_conf_in_the_checkout_is_found() -> None:
    """`gunicorn router.wsgi` in the checkout's folder reads its gunicorn.conf.py, PORT and WEB_CONCURRENCY."""
    port = free_port()
    with MockEngine() as engine:
        environment = {"ROUTER_ENGINES": engine.url, "PORT": str(port), "WEB_CONCURRENCY": "2"}
        process = launch(environment, [], folder=CHECKOUT, bind=None)
        with RunningRouter(process) as router:
            router.wait_until_ready()
            _wait_for_workers(router, 2)
            assert router.port == port
            assert "Using worker: router.server.worker.Worker" in router.log()
            assert router.log().count("Booting worker") == 2


@pytest.mark.parametrize("arguments", [(), ("--threads", "4"), ("--preload",)], ids=["sync", "gthread", "preloaded"])
def test_the_router_serves_without_its_conf(arguments: tuple[str, ...]) -> None:
    """Under a gunicorn that knows nothing of our conf requests are answered and streams are relayed."""
    with MockEngine() as engine, running_router(None, [engine.url], arguments=arguments) as router:
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat()).status == 200
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat(stream=True)).body.endswith(b"data: [DONE]\n\n")
        with RawClient(router.port) as client:
            assert client.post(CHAT, b"[" * 5_000_000).status == 400


def _readyz(router: RunningRouter) -> dict[str, Any]:
    with RawClient(router.port) as client:
        return client.get("/readyz").json()


def _temperatures(router: RunningRouter, engine: MockEngine, count: int) -> set[Any]:
    """Return what several requests on connections of their own were injected with."""
    engine.clear()
    for _ in range(count):
        with RawClient(router.port) as client:
            assert client.post(CHAT, chat()).status == 200
    return {received.json().get("temperature") for received in engine.received}


@pytest.mark.parametrize("arguments", [(*CONF, *THREE), (*CONF, *THREE, "--preload")], ids=["forked", "preloaded"])
def test_a_reload_switches_every_worker(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """HUP with a good artifact: all workers enforce the new contract, no request is refused meanwhile."""
    artifact = artifact_file(tmp_path, PINNED)
    with MockEngine() as engine, running_router(artifact, [engine.url], arguments=arguments) as router:
        assert _temperatures(router, engine, 12) == {1}
        artifact_file(tmp_path, OTHERWISE_PINNED)
        router.signal(signal.SIGHUP)
        wait_until(lambda: router.log().count("router: enforcing") == 2, router.log)
        wait_until(lambda: _temperatures(router, engine, 12) == {0.5}, router.log)
        assert "reload_error" not in _readyz(router)


@pytest.mark.parametrize("arguments", [(*CONF, *THREE), (*CONF, *THREE, "--preload")], ids=["forked", "preloaded"])
def test_a_reload_of_a_broken_artifact_changes_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """HUP with a broken artifact: the old contract stays in force, /readyz shows the error, and a good one ends it."""
    artifact = artifact_file(tmp_path, PINNED)
    with MockEngine() as engine, running_router(artifact, [engine.url], arguments=arguments) as router:
        artifact.write_text("{}")
        router.signal(signal.SIGHUP)
        router.wait_for_line("the active artifact is kept: .*profilec build")
        wait_until(lambda: all("reload_error" in _readyz(router) for _ in range(9)), router.log)
        assert _readyz(router)["status"] == "ready"
        assert str(tmp_path) not in str(_readyz(router))
        assert _temperatures(router, engine, 12) == {1}
        artifact_file(tmp_path, OTHERWISE_PINNED)
        router.signal(signal.SIGHUP)
        wait_until(lambda: not any("reload_error" in _readyz(router) for _ in range(9)), router.log)
        # The old workers serve until all of the new ones do.
        wait_until(lambda: _temperatures(router, engine, 12) == {0.5}, router.log)


def test_a_reload_waits_for_no_pipe(tmp_path: Path) -> None:
    """HUP while a pipe stands in the artifact's place is a broken reload, and the master goes on."""
    artifact = artifact_file(tmp_path, PINNED)
    with MockEngine() as engine, running_router(artifact, [engine.url]) as router:
        artifact.unlink()
        os.mkfifo(artifact)
        router.signal(signal.SIGHUP)
        router.wait_for_line("the active artifact is kept: .*not a regular file")
        wait_until(lambda: _temperatures(router, engine, 3) == {1}, router.log)


def test_a_respawned_worker_enforces_what_its_siblings_do(tmp_path: Path) -> None:
    """A worker that takes the place of a dead one has the master's contract, whatever the file says by now."""
    artifact = artifact_file(tmp_path, PINNED)
    with MockEngine() as engine, running_router(artifact, [engine.url]) as router:
        artifact.write_text("broken meanwhile")
        worker = int(router.wait_for_line(r"Booting worker with pid: (\d+)")[1])
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: router.log().count("Booting worker") == 2, router.log)
        wait_until(lambda: status_of(f"{router.url}/readyz") == 200, router.log)
        assert _temperatures(router, engine, 3) == {1}


def _is_refused(router: RunningRouter) -> bool:
    try:
        with RawClient(router.port) as client:
            client.get("/healthz")
    except (ConnectionError, EOFError):
        return True
    return False


def test_a_stop_says_so_first_and_finishes_streams() -> None:
    """TERM: /readyz turns 503 while requests are served; then connections are refused, and running streams finish."""
    drained = {"ROUTER_DRAIN_SECONDS": "600"}
    gate = Event()
    with MockEngine() as engine, running_router(None, [engine.url], drained, (*CONF, *THREE)) as router:
        engine.answer_next(
            MockResponse(headers=EVENT_STREAM, body=[b"data: 1\n\n", gate, b"data: [DONE]\n\n"], framing="chunked")
        )
        with RawClient(router.port) as client:
            client.send(post_head(CHAT, {"Content-Length": str(len(chat()))}) + chat())
            assert client.head()[0] == 200
            assert client.chunk() == b"data: 1\n\n"
            router.signal(signal.SIGTERM)
            wait_until(lambda: status_of(f"{router.url}/readyz") == 503, router.log)
            assert _readyz(router)["reason"] == "draining"
            with RawClient(router.port) as other:
                assert other.post(CHAT, chat()).status == 200
            router.signal(signal.SIGTERM)  # a second one ends the drain
            wait_until(lambda: _is_refused(router), router.log)
            gate.set()
            assert b"".join(iter(client.chunk, b"")) == b"data: [DONE]\n\n"
        assert router.process.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_streams_outlive_the_worker_that_is_told_to_stop(number: signal.Signals) -> None:
    """TERM and HUP under 50 streams: every one of them comes to its end with every byte."""
    gate = Event()
    pieces = [b"data: %d\n\n" % turn for turn in range(100)]
    settings = {"ROUTER_DRAIN_SECONDS": "0"}
    workers = (*CONF, "--workers", "2")
    with (
        MockEngine() as engine,
        running_router(None, [engine.url], settings, workers) as router,
        ExitStack() as stack,
    ):
        engine.answer_next(*[MockResponse.sse(b"data: first\n\n", gate, *pieces) for _ in range(50)])
        clients = [stack.enter_context(RawClient(router.port)) for _ in range(50)]
        for client in clients:
            client.send(post_head(CHAT, {"Content-Length": str(len(chat()))}) + chat())
        for client in clients:
            assert client.head()[0] == 200
            assert client.chunk() == b"data: first\n\n"
        router.signal(number)
        if number == signal.SIGTERM:
            wait_until(lambda: _is_refused(router), router.log)
        else:
            wait_until(lambda: router.log().count("Booting worker") == 4, router.log)
        gate.set()
        assert [b"".join(iter(client.chunk, b"")) for client in clients] == [b"".join(pieces)] * 50


@pytest.mark.parametrize("seconds", ["0", "0.2"])
def test_a_stop_ends_by_itself(seconds: str) -> None:
    """One TERM is enough: after ROUTER_DRAIN_SECONDS the router stops, at once when they are 0."""
    with MockEngine() as engine, running_router(None, [engine.url], {"ROUTER_DRAIN_SECONDS": seconds}) as router:
        router.signal(signal.SIGTERM)
        assert router.process.wait(20) == 0


def test_a_stop_waits_for_no_further_reload() -> None:
    """TERM behind many HUPs ends the router without working them off."""
    with MockEngine() as engine, running_router(None, [engine.url], {"ROUTER_DRAIN_SECONDS": "0"}) as router:
        for _ in range(20):
            router.signal(signal.SIGHUP)
            wait_until(lambda: not _has_pending_signals(router.process.pid))
        router.signal(signal.SIGTERM)
        assert router.process.wait(20) == 0
        assert router.log().count("router: enforcing") < 10


def _has_pending_signals(process: int) -> bool:
    return bool(re.search(r"^ShdPnd:\s+0*[1-9a-f]", Path(f"/proc/{process}/status").read_text(), re.MULTILINE))


def test_streams_that_outlast_the_grace_are_cut() -> None:
    """A stream that does not end within ROUTER_GRACEFUL_TIMEOUT_SECONDS does not hold up the stop for ever."""
    settings = {"ROUTER_DRAIN_SECONDS": "0", "ROUTER_GRACEFUL_TIMEOUT_SECONDS": "0.5"}
    with MockEngine() as engine, running_router(None, [engine.url], settings) as router:
        engine.answer_next(MockResponse(headers=EVENT_STREAM, body=[b"data: 1\n\n", Event()], framing="chunked"))
        with RawClient(router.port) as client:
            client.send(post_head(CHAT, {"Content-Length": str(len(chat()))}) + chat())
            assert client.head()[0] == 200
            router.signal(signal.SIGTERM)
            assert router.process.wait(20) == 0


def test_every_reload_says_what_is_in_force(tmp_path: Path) -> None:
    """HUP to another contract and back: each time the log says which one is enforced now."""
    artifact = artifact_file(tmp_path, PINNED)
    first = artifact.read_bytes()
    with MockEngine() as engine, running_router(artifact, [engine.url]) as router:
        for count, contract in ((2, OTHERWISE_PINNED), (3, PINNED), (4, OTHERWISE_PINNED)):
            artifact_file(tmp_path, contract)
            router.signal(signal.SIGHUP)
            wait_until(lambda count=count: router.log().count("router: enforcing under-test") == count, router.log)
        said = re.findall(r"enforcing under-test \((\S+)\)", router.log())
        assert said[0] == said[2] != said[1] == said[3]
        assert said[0].encode() in first
        assert router.log().count("these routes are open beside it") == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "no contract is enforced: ROUTER_PROFILE names no artifact"),
        ({"SGLANG_ROUTER_API_PROFILE": "moonshot-kimi"}, "SGLANG_ROUTER_API_PROFILE is read by profilec alone"),
    ],
    ids=["nothing set", "the compiler's variable set"],
)
def test_enforcing_nothing_is_said(settings: dict[str, str], said: str) -> None:
    """A router that was given no artifact warns that no contract is in force, and of what it does not read."""
    with MockEngine() as engine, running_router(None, [engine.url], settings) as router:
        assert f"[WARNING] router: {said}" in router.log()


@pytest.mark.parametrize("name", ["profile.yaml", "moonshot-kimi"])
def test_a_profile_in_place_of_an_artifact_is_told_apart(tmp_path: Path, name: str) -> None:
    """ROUTER_PROFILE naming a profile or a preset ends the start with a line that says to build it."""
    (tmp_path / "profile.yaml").write_text("extends: moonshot-kimi\n")
    settings = {"ROUTER_ENGINES": "http://127.0.0.1:9", "ROUTER_PROFILE": str(tmp_path / name)}
    code, log = _run_to_its_end(settings, CONF)
    assert code != 0
    assert "rebuild it: profilec build SOURCE -o FILE" in log


def test_ctrl_c_in_a_terminal_ends_master_and_workers(tmp_path: Path) -> None:
    """SIGINT to the whole process group, as a terminal sends it, ends the router at once, with requests behind it."""
    for _ in range(3):
        with MockEngine() as engine, running_router(None, [engine.url], arguments=(*CONF, *THREE)) as router:
            with RawClient(router.port) as client:
                assert client.post(CHAT, chat()).status == 200
            os.killpg(router.process.pid, signal.SIGINT)
            router.process.wait(20)


@pytest.mark.parametrize("arguments", [CONF, (*CONF, "--preload")], ids=["forked", "preloaded"])
def test_settings_outlive_what_they_were_read_from(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """When the file of authorities is gone, a reload and a killed worker leave the service up."""
    authorities = tmp_path / "authorities.pem"
    authorities.write_text(Path(requests.certs.where()).read_text())
    settings = {"ROUTER_ENGINE_CA": str(authorities)}
    with MockEngine() as engine, running_router(None, [engine.url], settings, arguments) as router:
        authorities.unlink()
        router.signal(signal.SIGHUP)
        wait_until(lambda: router.log().count("router: enforcing") == 2, router.log)
        wait_until(lambda: router.log().count("Worker exiting") == 1, router.log)
        wait_until(lambda: len(children_of(router.process.pid)) == 1, router.log)
        (worker,) = children_of(router.process.pid)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: children_of(router.process.pid) not in ([], [worker]), router.log)
        wait_until(lambda: status_of(f"{router.url}/readyz") == 200, router.log)
        assert router.process.poll() is None


def test_stalled_uploads_that_are_refused_free_their_threads_in_time(tmp_path: Path) -> None:
    """Clients that promise a body over the limit and then stall hold their threads for the drain alone."""
    contract = Contract(limits=Limits(max_body_bytes=10))
    artifact = artifact_file(tmp_path, contract)
    with (
        MockEngine() as engine,
        running_router(artifact, [engine.url], {"ROUTER_MAX_IN_FLIGHT": "4"}) as router,
        ExitStack() as stack,
    ):
        stalled = [stack.enter_context(RawClient(router.port)) for _ in range(2)]
        for client in stalled:
            client.send(post_head(CHAT, {"Content-Length": "1000"}) + b"x")
        assert [client.answer().status for client in stalled] == [413, 413]
        assert all(client.at_end() for client in stalled)
        with RawClient(router.port) as client:
            assert client.get("/healthz").status == 200


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(CONF, id="forked"), pytest.param((*CONF, "--preload"), id="preloaded", marks=pytest.mark.exhaustive)],
)
def test_a_stream_of_an_old_worker_holds_up_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """While it runs a next reload is taken up, a worker that dies is replaced, and TERM still lets it finish."""
    artifact = artifact_file(tmp_path, PINNED)
    gate, stream = Event(), chat(stream=True)
    with MockEngine() as engine, running_router(artifact, [engine.url], arguments=arguments) as router:
        engine.answer_next(MockResponse.sse(b"data: {}\n\n", gate, b"data: [DONE]\n\n"))
        with RawClient(router.port) as client:
            client.send(post_head(CHAT, {"Content-Length": str(len(stream))}) + stream).head()
            assert client.chunk() == b"data: {}\n\n"
            (old,) = children_of(router.process.pid)
            for number, contract in enumerate((OTHERWISE_PINNED, PINNED), 2):
                artifact_file(tmp_path, contract)
                router.signal(signal.SIGHUP)
                wait_until(lambda count=number: router.log().count("router: enforcing") == count, router.log)  # type: ignore[misc]
            wait_until(lambda: _temperatures(router, engine, 3) == {1}, router.log)
            wait_until(lambda: len(children_of(router.process.pid)) == 2, router.log)
            (new,) = set(children_of(router.process.pid)) - {old}
            os.kill(new, signal.SIGKILL)
            wait_until(lambda: set(children_of(router.process.pid)) - {old, new}, router.log)
            wait_until(lambda: status_of(f"{router.url}/readyz") == 200, router.log)
            assert old in children_of(router.process.pid)
            router.signal(signal.SIGTERM)
            router.wait_for_line("Handling signal: term")
            gate.set()
            assert b"".join(iter(client.chunk, b"")).endswith(b"data: [DONE]\n\n")
        assert router.process.wait(30) == 0
