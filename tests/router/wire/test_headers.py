"""Which headers travel, in both directions, and which the router makes itself."""

import re

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Models, plain_aliases
from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.response import RawResponse
from router.request.headers import TO_ENGINE
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient, post_head
from tests.router.serving import RunningRouter
from tests.router.wire.chat import CHAT, assert_error, chat

pytestmark = pytest.mark.any_server

ALWAYS = {"host", "content-length", "x-request-id"}
KEY = {"ROUTER_ENGINE_API_KEY": "engines-own"}


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router that enforces nothing."""
    return router_of()


@pytest.mark.any_server
def test_the_headers_of_the_whitelist_travel(router: RunningRouter, engine: MockEngine) -> None:
    """Every header of the whitelist reaches the engine once, with the value that the client gave it."""
    sent = {name: f"value of {name}" for name in TO_ENGINE}
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(), sent).status == 200
    (received,) = engine.received
    assert {name: received.values(name) for name in sent} == {name: [value] for name, value in sent.items()}


def test_no_other_header_travels(router: RunningRouter, engine: MockEngine) -> None:
    """Headers by which an engine might take orders, or learn who else is there, stay behind."""
    sent = {
        "Cookie": "session=1",
        "Forwarded": "for=1.2.3.4",
        "X-Forwarded-For": "1.2.3.4",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil.example",
        "X-Real-Ip": "1.2.3.4",
        "X-Override-Temperature": "2",
        "X-Data-Parallel-Rank": "3",
        "X-Vllm-Priority": "9",
        "X-Body-Compressed": "zstd",
        "Te": "trailers",
        "Trailer": "X-After",
        "Upgrade": "h2c",
        "Keep-Alive": "timeout=5",
        "Proxy-Authorization": "Basic eA==",
        "Proxy-Connection": "keep-alive",
        "Range": "bytes=0-1",
        "If-None-Match": "*",
    }
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(), sent).status == 200
    (received,) = engine.received
    names = [name.lower() for name, _ in received.headers]
    assert sorted(names) == sorted(ALWAYS | {"accept-encoding", "content-type"})


@pytest.mark.parametrize("name", ["Content_Type", "X_Api_Key", "Script_Name", "Path_Info", "X-Under_Score"])
def test_headers_with_an_underscore_are_refused(router: RunningRouter, engine: MockEngine, name: str) -> None:
    """A header that could pass for another one once it stands in the environ ends the request."""
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(), {name: "/x"}).status == 400
    assert engine.received == []


def test_headers_that_the_connection_header_names_end_here(router: RunningRouter, engine: MockEngine) -> None:
    """What `Connection` names is for this connection alone (RFC 9110, section 7.6.1)."""
    sent = {"Connection": "keep-alive, OpenAI-Beta , x-api-key", "OpenAI-Beta": "b", "X-Api-Key": "k", "Accept": "a"}
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(), sent).status == 200
    (received,) = engine.received
    assert (received.values("OpenAI-Beta"), received.values("X-Api-Key"), received.values("Accept")) == ([], [], ["a"])


@pytest.mark.any_server
def test_a_second_authorization_is_refused(router: RunningRouter, engine: MockEngine) -> None:
    """Two Authorization headers are a 400: which of them an engine would believe is anybody's guess."""
    with RawClient(router.port) as client:
        sent = {"Authorization": "Bearer one", "authorization": "Bearer two"}
        assert_error(client.post(CHAT, chat(), sent), 400, "bad_request")
        assert_error(client.post("/v1/embeddings", chat(), sent), 400, "bad_request")
    assert engine.received == []


def test_one_authorization_travels_as_it_is(router: RunningRouter, engine: MockEngine) -> None:
    """The client's only Authorization reaches the engine unchanged, commas and all."""
    value = 'Digest username="a b", realm="c, d", nonce="e"'
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(), {"Authorization": value}).status == 200
    assert engine.received[0].values("Authorization") == [value]


def test_the_engines_own_key_replaces_the_clients(router_of: RouterOf, engine: MockEngine) -> None:
    """With ROUTER_ENGINE_API_KEY the engine sees that key and no other, from requests and probes alike."""
    router = router_of(**KEY)
    with RawClient(router.port) as client:
        sent = {"Authorization": "Bearer clients", "X-Api-Key": "clients"}
        assert client.post(CHAT, chat(), sent).status == 200
        assert client.post("/v1/messages", chat()).status == 200
    for received in engine.received:
        assert received.values("Authorization") == ["Bearer engines-own"]
        assert received.values("X-Api-Key") == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_of_the_router_is_its_own_trouble(router_of: RouterOf, engine: MockEngine, status: int) -> None:
    """An engine that refuses the router's own key is a 502 to the client, and a line in the log."""
    router = router_of(**KEY)
    engine.answer_next(MockResponse.json({"error": "Unauthorized"}, status))
    with RawClient(router.port) as client:
        assert_error(client.post(CHAT, chat()), 502, "upstream_unreachable")
    router.wait_for_line(rf"rejected the key in ROUTER_ENGINE_API_KEY with {status}")
    assert "engines-own" not in router.log()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_of_the_client_is_the_clients(router: RunningRouter, engine: MockEngine, status: int) -> None:
    """An engine that refuses the client's key is passed on."""
    engine.answer_next(MockResponse.json({"error": "Unauthorized"}, status))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(), {"Authorization": "Bearer clients"})
    assert (answer.status, answer.json(), answer.header("x-router-error-code")) == (
        status,
        {"error": "Unauthorized"},
        None,
    )


@pytest.mark.any_server
def test_a_request_id_goes_both_ways(router: RunningRouter, engine: MockEngine) -> None:
    """A plain id that the client gave is the one that the engine gets and the answer carries."""
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(), {"X-Request-Id": "abc-123"})
    assert answer.header("x-request-id") == "abc-123"
    assert engine.received[0].values("X-Request-Id") == ["abc-123"]


@pytest.mark.parametrize("given", [None, "a b", "x" * 129, "<script>", ""])
def test_a_request_id_is_made_where_none_serves(router: RunningRouter, engine: MockEngine, given: str | None) -> None:
    """Without a plain id of the client's own every request gets a fresh one."""
    with RawClient(router.port) as client:
        headers = {} if given is None else {"X-Request-Id": given}
        ids = [client.post(CHAT, chat(), headers).header("x-request-id") or "" for _ in range(2)]
    assert [received.values("X-Request-Id") for received in engine.received] == [[ids[0]], [ids[1]]]
    assert ids[0] != ids[1]
    assert all(re.fullmatch("[0-9a-f]{24}", each) for each in ids)


PASSING = [
    ("Cache-Control", "max-age=1"),
    ("Vary", "a"),
    ("Vary", "b"),
    ("Retry-After", "7"),
    ("Retry-After-Ms", "7000"),
    ("X-Should-Retry", "false"),
    ("X-RateLimit-Limit-Requests", "9"),
    ("anthropic-ratelimit-tokens-remaining", "9"),
    ("OpenAI-Processing-Ms", "5"),
]
BY_SETTING = [("X-Kept", "1"), ("X-Kept", "2"), ("X-Trace-Id", "3")]
ENDING = [
    ("Connection", "keep-alive, X-Hop"),
    ("X-Hop", "1"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Authenticate", "Basic"),
    ("Trailer", "X-After"),
    ("Upgrade", "h2c"),
    ("Alt-Svc", 'h3=":443"'),
    ("Set-Cookie", "session=1"),
    ("Access-Control-Allow-Origin", ""),
    ("X-Router-Error-Code", "made_up"),
    ("X-Request-Id", "the engine's"),
    ("Request-Id", "the engine's"),
    ("Server", "engine/1"),
    ("Date", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("X-Worker-Id", "node-7/gpu3"),
    ("X-RateLimit", "no kind of it"),
    ("Content-Disposition", "attachment"),
    ("Link", "</x>; rel=preload"),
    ("ETag", '"1"'),
]
OF_THE_ROUTER = ["connection", "content-length", "content-type", "date", "server", "x-request-id"]
ALSO = {"ROUTER_RESPONSE_HEADERS": "X-Kept, x-hop, x-tra*, x-r*"}


@pytest.mark.parametrize("status", [200, 400, 404, 429, 500])
@pytest.mark.parametrize("settings", [{}, ALSO], ids=["usual", "with more"])
def test_response_headers_pass_by_a_list(
    router_of: RouterOf, engine: MockEngine, status: int, settings: dict[str, str]
) -> None:
    """Clients get the headers that their APIs have, and what a setting adds; nothing of an interim answer."""
    router = router_of(**settings, ROUTER_RETRIES="0")
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nX-Worker-Id: node-7\r\nVary: c\r\n\r\n"
    whole = MockResponse.json({"error": {}}, status, headers=[*ENDING, *PASSING, *BY_SETTING])
    engine.answer_next(RawResponse([interim, *whole.wire()], then="keep"))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat())
    ratelimit = [("X-RateLimit", "no kind of it")]
    kept = [*PASSING, *BY_SETTING, *ratelimit] if settings else PASSING
    own = {name.lower(): value for name, value in answer.headers if name.lower() in OF_THE_ROUTER}
    assert sorted(answer.headers) == sorted(
        [*kept, *((name, value) for name, value in answer.headers if name.lower() in own)]
    )
    assert sorted(own) == OF_THE_ROUTER
    assert (answer.status, own["server"], own["connection"]) == (status, "gunicorn", "keep-alive")
    assert not own["date"].endswith("1970 00:00:00 GMT")


@pytest.mark.parametrize("given", [[], [("X-Accel-Buffering", "yes"), ("X-Accel-Buffering", "no")]])
@pytest.mark.parametrize("model", ["served", "latest"])
def test_a_stream_says_once_that_it_is_not_buffered(
    router_of: RouterOf, engine: MockEngine, given: list[tuple[str, str]], model: str
) -> None:
    """Whatever the engine says of buffering, the client of a stream gets the router's word alone."""
    router = router_of(Contract(models=Models(aliases=plain_aliases("latest"))))
    engine.answer_next(MockResponse.sse(b"data: [DONE]\n\n", headers=given))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(model=model, stream=True))
    assert answer.header("X-Accel-Buffering") == "no"


def test_cookies_are_never_kept(router: RunningRouter, engine: MockEngine) -> None:
    """A cookie that an engine sets is not sent with the next request."""
    engine.answer_next(MockResponse.json({}, headers=[("Set-Cookie", "session=1; Path=/")]))
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat()).header("Set-Cookie") is None
        assert client.post(CHAT, chat()).status == 200
    assert [received.values("Cookie") for received in engine.received] == [[], []]


def test_headers_that_are_no_http_stay_behind(router_of: RouterOf, engine: MockEngine) -> None:
    """A header with control characters is left out and takes nothing else with it; a folded one is unfolded."""
    odd = [("X-Folded", "a\r\n b"), ("X-Control", "a\x01b"), ("X-Latin", "caf\u00e9"), ("X-Kept", "1")]
    router = router_of(ROUTER_RESPONSE_HEADERS="x-folded,x-control,x-latin,x-kept")
    engine.answer_next(MockResponse.json({"ok": True}, headers=odd))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat())
    assert (answer.status, answer.json()) == (200, {"ok": True})
    assert [answer.header(name) for name, _ in odd] == ["a b", None, "caf\u00e9", "1"]


@pytest.mark.any_server
def test_a_request_cannot_smuggle_a_second_one(router: RunningRouter, engine: MockEngine) -> None:
    """A header line that hides another ends the request."""
    with RawClient(router.port) as client:
        client.send(post_head(CHAT, {"X-Api-Key": "a\nX-Evil: 1", "Content-Length": str(len(chat()))}) + chat())
        assert client.answer().status == 400
    assert engine.received == []
