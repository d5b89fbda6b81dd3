"""How the router reaches its engines: where they are, what is sent, and which of several is asked."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Sampling
from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import ScriptedResponse
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient
from tests.router.serving import artifact_file, running_router, status_of, wait_until
from tests.router.wire.chat import CHAT, assert_error, chat
from tests.router.wire.tls import make_certificate, tls_in_front_of

SELDOM = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "600"}
OFTEN = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.05"}


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_an_engine_is_named_with_or_without_v1(engine: MockEngine, suffix: str) -> None:
    """A base URL may end in /v1 or not: routes below and beside /v1 are both found."""
    with running_router(None, [engine.url + suffix]) as router, RawClient(router.port) as client:
        assert client.post(CHAT, chat()).status == 200
        assert client.post("/tokenize", chat()).status == 200
    assert [received.target for received in engine.received] == [CHAT, "/tokenize"]


def test_an_engine_may_live_below_a_path(engine: MockEngine) -> None:
    """A path in the base URL stands before every path that is asked for, probes included."""

    def below_a_path(received: ReceivedRequest) -> ScriptedResponse | None:
        cards = {"/team/a/v1/models": {"data": [{"id": "served"}]}, "/team/a/health": {}, f"/team/a{CHAT}": {"ok": 1}}
        return MockResponse.json(cards[received.path]) if received.path in cards else MockResponse(404)

    engine.script(below_a_path)
    with running_router(None, [f"{engine.url}/team/a/v1"]) as router, RawClient(router.port) as client:
        assert client.post(CHAT, chat()).json() == {"ok": 1}


def test_nothing_in_the_environment_changes_what_is_sent(engine: MockEngine, tmp_path: Path) -> None:
    """Proxy variables, ~/.netrc and CA bundles of the environment are not obeyed."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login evil password evil\ndefault login evil password evil\n")
    netrc.chmod(0o600)
    proxy = "http://127.0.0.1:9"  # discards: nothing is there
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    environment = {
        **dict.fromkeys(names, proxy),
        "no_proxy": "",
        "NO_PROXY": "",
        "HOME": str(tmp_path),
        "NETRC": str(netrc),
        "REQUESTS_CA_BUNDLE": "/nonexistent.pem",
        "CURL_CA_BUNDLE": "/nonexistent.pem",
    }
    with running_router(None, [engine.url], environment) as router, RawClient(router.port) as client:
        assert client.post(CHAT, chat(), {"Authorization": "Bearer clients"}).status == 200
        assert client.post(CHAT, chat()).status == 200
    assert [received.values("Authorization") for received in engine.received] == [["Bearer clients"], []]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificate, is not installed")
def test_an_engine_behind_tls_is_checked_against_the_given_authority(engine: MockEngine, tmp_path: Path) -> None:
    """ROUTER_ENGINE_CA is what an engine's certificate is checked against; without it an unknown one is refused."""
    certificate, key = make_certificate(tmp_path)
    with tls_in_front_of(engine.port, certificate, key) as port:
        url = f"https://127.0.0.1:{port}/v1"
        trusting = {"REQUESTS_CA_BUNDLE": "/nonexistent.pem", "ROUTER_ENGINE_CA": str(certificate)}
        with running_router(None, [url], trusting) as router, RawClient(router.port) as client:
            assert client.post(CHAT, chat()).status == 200
            assert client.post(CHAT, chat(stream=True)).body.endswith(b"data: [DONE]\n\n")
        distrusting = {"ROUTER_MODEL_ID": "served", "REQUESTS_CA_BUNDLE": str(certificate)}
        with running_router(None, [url], distrusting, until_ready=False) as router:
            router.wait_for_line("engine https://127.0.0.1:.* is not healthy")
            with RawClient(router.port) as client:
                assert_error(client.post(CHAT, chat()), 503, "no_healthy_engines")


def test_an_engine_that_is_gone_is_taken_out_at_once(engine: MockEngine, tmp_path: Path) -> None:
    """The first request finds a refused connection (502), the next ones know (503), until a probe finds it back."""
    with MockEngine() as mortal, running_router(None, [mortal.url], SELDOM) as router, RawClient(router.port) as client:
        assert client.post(CHAT, chat()).status == 200
        mortal.stop()
        refused = client.post(CHAT, chat())
        assert_error(refused, 502, "upstream_unreachable")
        assert refused.header("x-should-retry") is None
        later = client.post(CHAT, chat())
        assert_error(later, 503, "no_healthy_engines")
        assert later.header("Retry-After")
        assert status_of(f"{router.url}/readyz") == 503
        mortal.start()
        router.wait_until_ready()
        assert client.post(CHAT, chat()).status == 200


def _words(client: RawClient, count: int) -> list[str]:
    answers = [client.post(CHAT, chat()) for _ in range(count)]
    return [answer.json()["choices"][0]["message"]["content"] for answer in answers]


def test_two_engines_take_turns(tmp_path: Path) -> None:
    """Requests go to the healthy engines in turn; a dying one drops out, and comes back when it answers again."""
    with MockEngine(text="first") as first, MockEngine(text="second") as second:
        engines = [first.url, second.url]
        with running_router(None, engines, OFTEN) as router, RawClient(router.port) as client:
            wait_until(lambda: client.get("/readyz").json()["engines"]["healthy"] == 2)
            words = _words(client, 6)
            assert sorted(words) == ["first"] * 3 + ["second"] * 3
            assert words[:2] * 3 == words
            first.stop()
            wait_until(lambda: client.get("/readyz").json()["engines"]["healthy"] == 1)
            assert _words(client, 4) == ["second"] * 4
            first.start()
            wait_until(lambda: client.get("/readyz").json()["engines"]["healthy"] == 2)
            assert set(_words(client, 4)) == {"first", "second"}


def test_a_request_goes_to_an_engine_that_lists_its_model() -> None:
    """Where engines serve different models, each request reaches one that lists the model it asks for."""
    with MockEngine(models=("a", "shared")) as first, MockEngine(models=("b", "shared")) as second:
        with running_router(None, [first.url, second.url], OFTEN) as router, RawClient(router.port) as client:
            wait_until(lambda: client.get("/readyz").json()["models"] == ["a", "shared", "b"])
            wait_until(lambda: client.get("/readyz").json()["engines"]["healthy"] == 2)
            for model in ("a", "b", "b", "a", "shared", "shared"):
                assert client.post(CHAT, chat(model=model)).status == 200
        asked = [[received.json()["model"] for received in each.received] for each in (first, second)]
    assert asked == [["a", "a", "shared"], ["b", "b", "shared"]]


def test_the_union_of_what_engines_list_survives_their_silence() -> None:
    """What a stopped engine listed stays known: its model is answered with 503, not 404."""
    with MockEngine(models=("a",)) as engine, running_router(None, [engine.url], OFTEN) as router:
        engine.healthy = False
        wait_until(lambda: status_of(f"{router.url}/readyz") == 503)
        with RawClient(router.port) as client:
            assert_error(client.post(CHAT, chat(model="a")), 503, "no_healthy_engines")
            assert_error(client.post(CHAT, chat(model="b")), 404, "model_not_found", "model")


@pytest.mark.parametrize("preload", [False, True], ids=["forked", "preloaded"])
def test_no_answer_is_mixed_up_between_workers(engine: MockEngine, tmp_path: Path, *, preload: bool) -> None:
    """1,000 requests, 25 at once, through two workers, loaded before the fork or after, each get their own answer."""

    def echo(received: ReceivedRequest) -> ScriptedResponse | None:
        if received.method != "POST":
            return None
        fields = received.json()
        return MockResponse.json({"nonce": fields["nonce"], "temperature": fields["temperature"]})

    engine.script(echo)
    artifact = artifact_file(tmp_path, Contract(sampling=Sampling(params={"temperature": 1})))
    arguments = ["-c", "python:router.gunicorn_conf", "--workers", "2", *(["--preload"] if preload else [])]
    with running_router(artifact, [engine.url], arguments=arguments) as router:

        def ask(first: int) -> list[dict[str, int]]:
            with RawClient(router.port) as client:
                return [client.post(CHAT, chat(nonce=nonce)).json() for nonce in range(first, first + 40)]

        with ThreadPoolExecutor(25) as pool:
            answers = list(chain(*pool.map(ask, range(0, 1000, 40))))
    assert answers == [{"nonce": nonce, "temperature": 1} for nonce in range(1000)]


def test_the_default_router_changes_nothing(router_of: RouterOf, engine: MockEngine) -> None:
    """Without any artifact the built-in contract is in force, which passes every byte of a request."""
    body = b' {"model" :"served", "messages":[], "messages_":[], "max_tokens":-1, "n":"x", "temperature":[9e9]}\r\n'
    with running_router(None, [engine.url]) as router, RawClient(router.port) as client:
        assert client.get("/readyz").json()["profile"] == "openai-compatible"
        client.post(CHAT, body)
    assert [received.body for received in engine.received] == [body]
