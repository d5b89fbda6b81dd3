"""Which targets and methods exist, and which hosts are answered."""

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Models, plain_aliases
from router.mock_engine import MockEngine, MockResponse
from router.request.routes import INFERENCE, PASS_THROUGH
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient, head_of, post_head
from tests.router.serving import RunningRouter
from tests.router.wire.chat import CHAT, assert_error, chat

ALIASED = Contract(models=Models(aliases=plain_aliases("latest", "vendor/model")))


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router whose contract has aliases."""
    return router_of(ALIASED)


@pytest.mark.parametrize("route", PASS_THROUGH)
def test_a_route_outside_the_contract_passes_through(router_of: RouterOf, engine: MockEngine, route: str) -> None:
    """A route that is only under the body limit forwards the bytes as they are, and the engine's own error back."""
    router = router_of(Contract(errors=Errors(bad_request_type="vendor_error")))
    body = b' {"model" :"served", "max_tokens":-1,"x":[1.0e0,"\xff"], "x":7}\r\n'
    engine.answer_next(MockResponse.json({"error": {"type": "BadRequestError"}}, 400))
    with RawClient(router.port) as client:
        answer = client.post(route, body)
    assert (answer.status, answer.json()["error"]["type"]) == (400, "BadRequestError")
    assert [(received.target, received.body) for received in engine.received] == [(route, body)]


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat/completions/",
        "/v1/chat/completions//",
        "/v1/chat%2Fcompletions",
        "/v1%2fchat/completions",
        "/v1/%63hat/completions",
        "/v1/./chat/completions",
        "/v1/x/../chat/completions",
        "/../v1/chat/completions",
        "/v1/chat/completions;v=1",
        "/v1;v=1/chat/completions",
        "/v1/chat/completions#part",
        "/v1/chat/completions%20",
        "/v1/chat/completions%00",
        "/V1/chat/completions",
        "http://127.0.0.1/v1/chat/completions",
        "http://evil.example/v1/chat/completions",
        "/invocations",
        "/v1/audio/transcriptions",
        "/inference/v1/generate",
        "/metrics",
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_a_target_that_only_resembles_a_route_does_not_exist(
    router: RunningRouter, engine: MockEngine, method: str, target: str
) -> None:
    """A target is matched as it was sent: nothing is decoded, tidied or redirected."""
    with RawClient(router.port) as client:
        client.send(head_of(method, target, {"Content-Length": str(len(chat()))}) + chat())
        assert_error(client.answer(), 404, "not_found")
    assert engine.received == []


def test_options_of_the_whole_server_is_no_route(router: RunningRouter) -> None:
    """`OPTIONS *` asks about no route, so there is none."""
    with RawClient(router.port) as client:
        assert_error(client.send(head_of("OPTIONS", "*", {})).answer(), 404, "not_found")


@pytest.mark.parametrize("target", ["/healthz/", "//healthz", "/%68ealthz", "/readyz/", "/v1/models/", "/v1/%6dodels"])
def test_other_spellings_of_what_is_read_do_not_exist_either(router: RunningRouter, target: str) -> None:
    """Probes and the model list are matched as exactly as inference routes."""
    with RawClient(router.port) as client:
        assert_error(client.get(target), 404, "not_found")


@pytest.mark.parametrize("query", ["?", "?api-version=1", "?a=/../b&a=c%2Fd", "?x#y"])
def test_query_strings_are_dropped(router: RunningRouter, engine: MockEngine, query: str) -> None:
    """A query string changes nothing and reaches no engine."""
    with RawClient(router.port) as client:
        assert client.post(CHAT + query, chat()).status == 200
    assert engine.received[0].target == CHAT


@pytest.mark.parametrize(
    ("method", "target", "allowed"),
    [
        ("OPTIONS", CHAT, "POST"),
        ("GET", CHAT, "POST"),
        ("HEAD", CHAT, "POST"),
        ("PUT", CHAT, "POST"),
        ("TRACE", "/v1/embeddings", "POST"),
        ("BREW", "/generate", "POST"),
        ("OPTIONS", "/v1/models", "GET, HEAD"),
        ("DELETE", "/v1/models/served", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
    ],
)
def test_a_method_that_a_route_does_not_answer_is_405(
    router: RunningRouter, engine: MockEngine, method: str, target: str, allowed: str
) -> None:
    """Another method is a 405 that names those that are answered; OPTIONS is no exception."""
    with RawClient(router.port) as client:
        client.send(head_of(method, target, {}))
        status, headers = client.head()
    fields = {name.lower(): value for name, value in headers}
    assert (status, fields["allow"], fields["x-router-error-code"]) == (405, allowed, "method_not_allowed")
    assert engine.received == []


@pytest.mark.parametrize("target", ["/healthz", "/readyz", "/v1/models", "/v1/models/served"])
def test_head_is_get_without_the_body(router: RunningRouter, target: str) -> None:
    """HEAD answers with the headers of GET, and the next answer follows at once."""
    with RawClient(router.port) as client:
        whole = client.get(target)
        client.send(head_of("HEAD", target, {}))
        status, headers = client.head()
        assert (status, dict(headers)["Content-Length"]) == (whole.status, str(len(whole.body)))
        assert client.get("/healthz").status == 200


@pytest.mark.parametrize("host", ["a b", "http://a/", "a:b", "a:1:2", "[::1", "a/b", "\u00fcmlaut", "a@b"])
def test_an_invalid_host_is_refused(router: RunningRouter, engine: MockEngine, host: str) -> None:
    """A Host that is no host and port is a 400 (RFC 9112, section 3.2)."""
    with RawClient(router.port) as client:
        assert_error(client.post(CHAT, chat(), {"Host": host}), 400, "bad_request")
    assert engine.received == []


@pytest.mark.parametrize("host", ["", "localhost", "router.internal:8000", "[::1]:80", "127.0.0.1"])
def test_any_valid_host_is_answered(router: RunningRouter, host: str) -> None:
    """The router answers to whatever name it is reached by."""
    with RawClient(router.port) as client:
        assert client.get("/healthz", {"Host": host}).status == 200


def test_a_missing_host_is_refused(router: RunningRouter, engine: MockEngine) -> None:
    """HTTP/1.1 without a Host is a 400 (RFC 9112, section 3.2)."""
    request = post_head(CHAT, {"Content-Length": str(len(chat()))}).replace(b"Host: 127.0.0.1\r\n", b"")
    with RawClient(router.port) as client:
        assert_error(client.send(request + chat()).answer(), 400, "bad_request")
    assert engine.received == []


def test_two_hosts_are_refused(router: RunningRouter, engine: MockEngine) -> None:
    """A second Host is a 400 (RFC 9112, section 3.2)."""
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(), {"host": "other"}).status == 400
    assert engine.received == []


def test_the_bad_request_type_is_in_every_400_of_the_chat_route(router_of: RouterOf) -> None:
    """The contract's error type is in the 400s about the host as well, and in no other status."""
    router = router_of(Contract(errors=Errors(bad_request_type="vendor_error")))
    with RawClient(router.port) as client:
        bad_host = client.post(CHAT, chat(), {"Host": "a b"})
        assert assert_error(bad_host, 400, "bad_request")["type"] == "vendor_error"
        unknown = client.post(CHAT, chat(model="nope"))
        assert assert_error(unknown, 404, "model_not_found", "model")["type"] == "invalid_request_error"
        elsewhere = client.post("/v1/embeddings", b"", {"Host": "a b"})
        assert assert_error(elsewhere, 400, "bad_request")["type"] == "invalid_request_error"


@pytest.mark.parametrize("left_out", [route for route in INFERENCE if route != CHAT])
def test_routes_that_are_narrowed_away_do_not_exist(router_of: RouterOf, engine: MockEngine, left_out: str) -> None:
    """With ROUTER_ROUTES only the routes named exist, and the probes."""
    router = router_of(ROUTER_ROUTES=CHAT)
    with RawClient(router.port) as client:
        closed = client.post(left_out, chat())
        assert (closed.status, closed.header("x-router-error-code")) == (404, "not_found")
        assert_error(client.get("/v1/models"), 404, "not_found")
        assert client.get("/healthz").status == 200
        assert client.post(CHAT, chat()).status == 200
    assert len(engine.received) == 1
