"""The doors on the wire: who gets in, what engines and clients see of keys, and that no client chooses an engine."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Models, plain_aliases
from router.mock_engine import MockEngine, MockResponse
from tests.router.conftest import RouterOf
from tests.router.process import children_of
from tests.router.rawclient import RawAnswer, RawClient, head_of, post_head
from tests.router.serving import RunningRouter, artifact_file, launch, running_router, status_of, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat

pytestmark = pytest.mark.any_server

KEY = "sk-clients-own-key-1"
NEW_KEY = "sk-clients-new-key-2"
ENGINES_KEY = "engines-own-key"
BEARER = {"Authorization": f"Bearer {KEY}"}
X_API_KEY = {"X-API-Key": KEY}
TWENTY_MB = 20 * 1024 * 1024
UNKNOWN = [
    {},
    {"Authorization": "Bearer wrong"},
    {"X-API-Key": KEY[:-1]},
    {"Authorization": f"Basic {KEY}"},
    {**BEARER, "X-API-Key": NEW_KEY},
    {"Authorization": f"Bearer {KEY}", "authorization": f"Bearer {NEW_KEY}"},
]


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router that asks for a key and has one of its own for the engines."""
    return router_of(
        ROUTER_API_KEYS=f"team={KEY}",
        ROUTER_ENGINE_API_KEY=ENGINES_KEY,
        ROUTER_RESPONSE_HEADERS="www-authenticate, x-*",
    )


@pytest.fixture(scope="module")
def keyless(router_of: RouterOf) -> RunningRouter:
    """A router that asks for a key and has none for the engines."""
    return router_of(ROUTER_API_KEYS=f"team={KEY}")


def _assert_refused(answer: RawAnswer) -> None:
    message = assert_error(answer, 401, "invalid_api_key")["message"]
    assert "Authorization: Bearer KEY or as X-API-Key: KEY" in message
    assert answer.header("WWW-Authenticate") == "Bearer"
    assert "sk-" not in message


@pytest.mark.parametrize("shown", UNKNOWN, ids=str)
def test_strangers_are_refused_everywhere(router: RunningRouter, engine: MockEngine, shown: dict[str, str]) -> None:
    """Without one known key every route, method and host is a 401, those that do not exist too."""
    with RawClient(router.port) as client:
        for path in (CHAT, "/v1/embeddings", "/nowhere", "//healthz", "/healthz/"):
            _assert_refused(client.post(path, chat(), shown))
        for path in ("/v1/models", "/v1/models/served", CHAT, "/v1/chat%2Fcompletions"):
            _assert_refused(client.get(path, shown))
        _assert_refused(client.get("/v1/models", {**shown, "Host": "a b"}))
    assert engine.received == []
    assert "sk-" not in router.log()


@pytest.mark.parametrize("shown", [BEARER, X_API_KEY, {**BEARER, **X_API_KEY}, {"Authorization": f"bearer {KEY}"}])
def test_who_shows_a_key_is_served(router: RunningRouter, engine: MockEngine, shown: dict[str, str]) -> None:
    """With a key all is as it is without doors."""
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(), shown).status == 200
        assert client.post("/v1/embeddings", chat(), shown).status == 200
        assert client.get("/v1/models", shown).status == 200
        assert_error(client.get("/nowhere", shown), 404, "not_found")
        assert_error(client.get(CHAT, shown), 405, "method_not_allowed")
    assert len(engine.received) == 2


def test_probes_need_no_key(router: RunningRouter) -> None:
    """Orchestrators ask /healthz and /readyz without a key."""
    assert status_of(f"{router.url}/healthz") == 200
    assert status_of(f"{router.url}/readyz") == 200


def test_the_clients_key_never_reaches_an_engine(
    router: RunningRouter, keyless: RunningRouter, engine: MockEngine
) -> None:
    """The engine gets the key that is its own, or none: a client's key is for the router."""
    for shown in (BEARER, X_API_KEY, {**BEARER, **X_API_KEY}):
        for running, keys in ((router, [f"Bearer {ENGINES_KEY}"]), (keyless, [])):
            engine.clear()
            with RawClient(running.port) as client:
                assert client.post(CHAT, chat(), shown).status == 200
                assert client.post("/v1/messages", chat(), shown).status == 200
            for received in engine.received:
                assert received.values("Authorization") == keys
                assert KEY not in str(received.headers)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_engine_that_echoes_does_not_give_its_key_away(
    router: RunningRouter, engine: MockEngine, stream: bool
) -> None:
    """Headers of an answer that hold the engine's key stay behind, whatever they are called; the others come."""
    echoed = [
        ("Authorization", f"Bearer {ENGINES_KEY}"),
        ("X-Api-Key", "whatever"),
        ("WWW-Authenticate", f'Bearer error="invalid", token="{ENGINES_KEY}"'),
        ("X-Echo-Authorization", f"Bearer {ENGINES_KEY}"),
        ("X-Kept", f"not-{ENGINES_KEY}"),
    ]
    engine.answer_next(
        MockResponse.sse(b"data: [DONE]\n\n", headers=echoed) if stream else MockResponse.json({}, headers=echoed)
    )
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(), BEARER)
    assert answer.status == 200
    assert [answer.header(name) for name, _ in echoed] == [None, None, None, None, f"not-{ENGINES_KEY}"]


@pytest.mark.parametrize("framing", ["chunked", "counted"])
def test_a_stranger_reads_the_refusal_of_a_large_upload(router: RunningRouter, framing: str) -> None:
    """A stranger who sends all of its 20 MB before it reads anything gets the 401, not a reset."""
    if framing == "counted":
        request = post_head(CHAT, {"Content-Length": str(TWENTY_MB)}) + bytes(TWENTY_MB)
    else:
        chunk = b"%x\r\n%s\r\n" % (TWENTY_MB, bytes(TWENTY_MB))
        request = post_head(CHAT, {"Transfer-Encoding": "chunked"}) + chunk + b"0\r\n\r\n"
    with RawClient(router.port) as client:
        _assert_refused(client.send(request).answer())


def test_the_refusal_comes_before_the_body(router: RunningRouter) -> None:
    """A stranger reads its 401 without having sent a byte of the body."""
    with RawClient(router.port) as client:
        _assert_refused(client.send(post_head(CHAT, {"Content-Length": str(TWENTY_MB)})).answer())


def test_keys_change_without_a_restart(engine: MockEngine, tmp_path: Path) -> None:
    """A new file counts in every worker by itself; a broken one is told in /readyz and changes nothing."""
    file = tmp_path / "keys"
    file.write_text(f"team={KEY}\n")
    settings = {"ROUTER_API_KEYS_FILE": str(file), "WEB_CONCURRENCY": "2"}

    def status(key: str) -> int:
        with RawClient(router.port) as client:
            return client.get("/v1/models", {"X-API-Key": key}).status

    def readyz() -> RawAnswer:
        with RawClient(router.port) as client:
            return client.get("/readyz")

    def all_say(key: str, expected: int) -> bool:
        return all(status(key) == expected for _ in range(10))

    with running_router(artifact_file(tmp_path, Contract()), [engine.url], settings) as router:
        assert (status(KEY), status(NEW_KEY)) == (200, 401)
        _replace(file, f"team={KEY}\nteam={NEW_KEY}\n")
        wait_until(lambda: all_say(NEW_KEY, 200), router.log)
        assert all_say(KEY, 200)
        _replace(file, f"team={NEW_KEY}\n")
        wait_until(lambda: all_say(KEY, 401), router.log)
        file.write_text("team=short\n")
        wait_until(lambda: "api_keys_error" in readyz().json(), router.log)
        told = readyz()
        assert told.status == 200
        assert str(tmp_path).encode() not in told.body
        assert all_say(NEW_KEY, 200)
        router.wait_for_line(
            "ROUTER_API_KEYS_FILE is invalid, the former API keys stay active: expected a key of .* line 1"
        )
        _replace(file, f"team={NEW_KEY}\n")
        wait_until(lambda: all("api_keys_error" not in readyz().json() for _ in range(10)), router.log)
        assert "sk-" not in router.log()


def test_a_worker_that_starts_beside_a_broken_file_has_the_keys_of_its_master(
    engine: MockEngine, tmp_path: Path
) -> None:
    """A key that was taken out does not come back with new workers, although their file cannot be read."""
    file = tmp_path / "keys"
    file.write_text(f"team={KEY}\n")

    def reload() -> None:
        before = router.log().count("Booting worker")
        router.signal(signal.SIGHUP)
        wait_until(lambda: router.log().count("Booting worker") > before, router.log)
        wait_until(lambda: router.log().count("Worker exiting") == before, router.log)

    def statuses() -> tuple[int, ...]:
        answers = []
        for key in (KEY, NEW_KEY):
            with RawClient(router.port) as client:
                answers.append(client.get("/v1/models", {"X-API-Key": key}).status)
        return tuple(answers)

    settings = {"ROUTER_API_KEYS_FILE": str(file)}
    with running_router(artifact_file(tmp_path, Contract()), [engine.url], settings) as router:
        assert statuses() == (200, 401)
        _replace(file, f"team={NEW_KEY}\n")
        reload()
        file.unlink()
        reload()
        assert statuses() == (401, 200)
        router.wait_for_line("former API keys stay active: .*No such file")


@pytest.mark.parametrize("how", ["reload", "death"])
def test_a_key_that_was_taken_out_does_not_come_back_with_new_workers(
    engine: MockEngine, tmp_path: Path, how: str
) -> None:
    """Keys that a worker read anew stay, also when their file is broken by the time that another one is forked."""
    file = tmp_path / "keys"
    file.write_text(f"team={KEY}\n")

    def status(key: str) -> int:
        with RawClient(router.port) as client:
            return client.get("/v1/models", {"X-API-Key": key}).status

    settings = {"ROUTER_API_KEYS_FILE": str(file)}
    with running_router(artifact_file(tmp_path, Contract()), [engine.url], settings) as router:
        (first,) = children_of(router.process.pid)
        _replace(file, f"team={NEW_KEY}\n")
        wait_until(lambda: status(NEW_KEY) == 200, router.log)
        file.write_text("team=short\n")
        if how == "reload":
            router.signal(signal.SIGHUP)
        else:
            os.kill(first, signal.SIGKILL)
        wait_until(lambda: first not in children_of(router.process.pid), router.log)
        assert (status(KEY), status(NEW_KEY)) == (401, 200)


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.parametrize("arguments", [("-c", "python:router.gunicorn_conf"), ()], ids=["conf", "bare"])
@pytest.mark.parametrize(("text", "expected"), [("", "at least one entry"), ("team=hunter2\n", "a key of .* line 1")])
def test_a_file_without_good_keys_stops_the_start(
    text: str, expected: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """The start ends with one line that says what is expected, before anything is served, and never shows a key."""
    file = tmp_path / "keys"
    file.write_text(text)
    process = launch({"ROUTER_ENGINES": "http://127.0.0.1:1", "ROUTER_API_KEYS_FILE": str(file)}, arguments)
    try:
        _, log = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode != 0
    (line,) = [each for each in log.splitlines() if each.startswith("router: ")]
    assert re.match(f"router: ROUTER_API_KEYS_FILE cannot be used: found .*, expected {expected}", line)
    assert "hunter2" not in log


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[MockEngine]:
    """An engine that no setting names."""
    with MockEngine(models=("served",)) as mock_engine:
        yield mock_engine


ATTEMPTS = {
    "host": (CHAT, {"Host": "{other}"}),
    "x-forwarded-host": (CHAT, {"X-Forwarded-Host": "{other}", "X-Forwarded-Proto": "http"}),
    "x-forwarded-server": (CHAT, {"X-Forwarded-Server": "{other}"}),
    "x-forwarded-for": (CHAT, {"X-Forwarded-For": "{other}", "X-Real-IP": "127.0.0.1"}),
    "forwarded": (CHAT, {"Forwarded": "for=127.0.0.1;host={other};proto=http"}),
    "via": (CHAT, {"Via": "1.1 {other}"}),
    "x-original-url": (CHAT, {"X-Original-URL": "http://{other}/v1/chat/completions"}),
    "x-rewrite-url": (CHAT, {"X-Rewrite-URL": "http://{other}/v1/chat/completions"}),
    "x-upstream": (CHAT, {"X-Upstream": "http://{other}", "X-Engine-URL": "http://{other}"}),
    "x-target-worker": (CHAT, {"X-SMG-Target-Worker": "http://{other}", "X-SMG-Routing-Key": "{other}"}),
    "destination": (CHAT, {"Destination": "http://{other}", "Location": "http://{other}"}),
    "absolute form": ("http://{other}/v1/chat/completions", {}),
    "absolute form and host": ("http://{other}/v1/chat/completions", {"Host": "{other}"}),
    "no scheme": ("//{other}/v1/chat/completions", {}),
    "at sign": ("@{other}/v1/chat/completions", {}),
    "at sign behind a slash": ("/@{other}/v1/chat/completions", {}),
    "at sign in the absolute form": ("http://127.0.0.1@{other}/v1/chat/completions", {}),
    "at sign behind the route": ("/v1/chat/completions@{other}", {}),
    "url in the path": ("/http://{other}/v1/chat/completions", {}),
    "query": (CHAT + "?url=http://{other}&upstream=http://{other}&engine={other}", {}),
    "fragment": (CHAT + "#@{other}", {}),
    "backslash": ("/\\{other}/v1/chat/completions", {}),
    "model in the path": ("/v1/models/http://{other}", {}),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("method", ["POST", "GET", "CONNECT"])
def test_no_path_or_header_chooses_an_engine(
    router: RunningRouter, engine: MockEngine, elsewhere: MockEngine, attempt: str, method: str
) -> None:
    """Whatever a client says of where its request should go, the engine of the settings gets it, or none."""
    target, sent = ATTEMPTS[attempt]
    other = f"127.0.0.1:{elsewhere.port}"
    fields = {name: value.format(other=other) for name, value in sent.items()}
    head = {"Content-Type": "application/json", "Content-Length": str(len(chat())), **BEARER, **fields}
    with RawClient(router.port) as client:
        answer = client.send(head_of(method, target.format(other=other), head) + chat()).answer()
    assert answer.status in (200, 400, 404, 405)
    assert [received.path for received in engine.received] == ([CHAT] if answer.status == 200 else [])
    assert other not in str([received.headers for received in engine.received])
    assert elsewhere.received == []
    assert elsewhere.health_checks == []


@pytest.mark.parametrize("route", [CHAT, "/v1/completions", "/generate"])
def test_no_body_chooses_an_engine(router_of: RouterOf, engine: MockEngine, elsewhere: MockEngine, route: str) -> None:
    """A model that is named as a URL, or members that name one, send nothing anywhere else."""
    router = router_of(Contract(models=Models(aliases=plain_aliases("latest"))))
    with RawClient(router.port) as client:
        for fields in (
            {"model": elsewhere.url},
            {"model": f"latest@{elsewhere.url}"},
            {"api_base": elsewhere.url, "base_url": elsewhere.url, "url": elsewhere.url, "engine": elsewhere.url},
        ):
            client.post(route, chat(**fields))
    assert elsewhere.received == []
    assert elsewhere.health_checks == []
