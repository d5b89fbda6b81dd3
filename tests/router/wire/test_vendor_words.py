"""Refusals on the wire in a vendor's words and envelope: the router's own of every kind, and the engine's 400s."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.sections import Errors, Field, Limits, Models, plain_aliases
from router.contract.schema.types import ErrorText
from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.response import JSON
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.serving import RunningRouter, artifact_file, free_port, running_router
from tests.router.wire.chat import CHAT, chat

pytestmark = pytest.mark.any_server

KEY = "sk-a-clients-key"
BEARER = {"Authorization": f"Bearer {KEY}"}
ENVELOPE = {"ok": False, "err": {"msg": "{message}", "no": "{code}", "at": "{param}", "id": "{request_id}"}}
TEXT = (("Content-Type", "text/plain"),)
ANSWERS = {
    "bad_request": ErrorText(type="t", code="1210"),
    "invalid_api_key": ErrorText(status=403, code=1000, message="who are you"),
    "model_not_found": ErrorText(status=400, code="1211", message="no {model}, but {models}"),
    "not_found": ErrorText(message="nothing here"),
    "method_not_allowed": ErrorText(message="not so"),
    "request_too_large": ErrorText(status=400, message="at most {max}"),
    "overloaded": ErrorText(status=529, code="1302", message="slowly"),
    "no_healthy_engines": ErrorText(code="1234", message="soon"),
}
ERRORS = Errors(body=ENVELOPE, omit_null=True, codes=ANSWERS, engine_400=ErrorText(message="engine: {message}"))
INSIDE = Errors(body={"inside": "{message}", "for": "{model}"}, engine_400=ErrorText())
CONTRACT = Contract(
    errors=ERRORS,
    limits=Limits(max_body_bytes=2000),
    models=Models(aliases=plain_aliases("chat")),
    fields={"a": Field(max=1)},
    cases=(
        Case("special", When(fields={"special": (True,)}), Sections(errors=INSIDE, fields={"a": Field(reject=True)})),
        Case("plain", When(fields={"plain": (True,)}), Sections()),
    ),
)


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router that speaks in a vendor's words and asks for a key; of two cases one has other words, one has none."""
    return router_of(CONTRACT, ROUTER_API_KEYS=f"team={KEY}", WEB_CONCURRENCY="1")


def _told(answer: RawAnswer, status: int, code: str, **members: Any) -> None:
    """Hold an error against what the envelope has to say."""
    assert answer.status == status, answer
    assert answer.header("x-router-error-code") == code
    assert answer.header("Content-Type") == "application/json"
    assert answer.header("x-request-id")
    assert answer.json() == {"ok": False, "err": {"id": answer.header("x-request-id"), **members}}


@pytest.mark.parametrize(
    ("sent", "status", "code", "members"),
    [
        pytest.param(("POST", CHAT, chat(), {}), 403, "invalid_api_key", {"msg": "who are you", "no": 1000}, id="key"),
        pytest.param(
            ("POST", CHAT, chat(model="x"), BEARER),
            400,
            "model_not_found",
            {"msg": "no x, but served, chat", "no": "1211", "at": "model"},
            id="model",
        ),
        pytest.param(
            ("POST", "/v1/x", b"", BEARER), 404, "not_found", {"msg": "nothing here", "no": "not_found"}, id="route"
        ),
        pytest.param(
            ("GET", CHAT, b"", BEARER),
            405,
            "method_not_allowed",
            {"msg": "not so", "no": "method_not_allowed"},
            id="get",
        ),
        pytest.param(
            ("POST", CHAT, chat(a="x" * 2000), BEARER),
            400,
            "request_too_large",
            {"msg": "at most 2000", "no": "request_too_large"},
            id="size",
        ),
        pytest.param(
            ("POST", CHAT, chat(a=2), BEARER),
            400,
            "contract_violation",
            {"msg": "a is 2: expected a number of at most 1, or omit the field", "no": "1210", "at": "a"},
            id="field",
        ),
        pytest.param(
            ("POST", CHAT, b"[]", BEARER),
            400,
            "bad_request",
            {"msg": "The request body must be a JSON object", "no": "1210"},
            id="JSON",
        ),
    ],
)
def test_every_refusal_is_in_the_vendors_words(
    router: RunningRouter, sent: tuple[Any, ...], status: int, code: str, members: dict[str, Any]
) -> None:
    """Status, words and envelope are the vendor's, the id of the request stands in the body, the code in a header."""
    method, path, body, headers = sent
    with RawClient(router.port) as client:
        answer = client.get(path, headers) if method == "GET" else client.post(path, body, headers)
    _told(answer, status, code, **members)
    assert (answer.header("WWW-Authenticate") is not None) == (code == "invalid_api_key")
    assert (answer.header("Allow") is not None) == (code == "method_not_allowed")


def test_the_id_that_a_client_gives_stands_in_the_body(router: RunningRouter) -> None:
    """A request that brings its own id finds that one in the body."""
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(a=2), {**BEARER, "X-Request-Id": "my-own-id"})
    assert answer.json()["err"]["id"] == answer.header("x-request-id") == "my-own-id"


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"special": True}, {"inside": "a is not supported: omit the field", "for": "served"}),
        ({"special": True, "model": "chat"}, {"inside": "a is not supported: omit the field", "for": "chat"}),
    ],
)
def test_the_case_of_a_request_decides_the_words(
    router: RunningRouter, fields: dict[str, Any], body: dict[str, Any]
) -> None:
    """A request of a case is refused in that case's words, one of no case in those of the contract at large."""
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(a=1, **fields), BEARER).json() == body


@pytest.mark.parametrize(
    ("engines", "told"),
    [
        (
            {"error": {"message": "no good", "param": "x", "code": 400}},
            {"msg": "engine: no good", "no": "1210", "at": "x"},
        ),
        ({"error": "no good"}, {"msg": "engine: no good", "no": "1210"}),
        ({"object": "error", "message": "no good", "type": "B"}, {"msg": "engine: no good", "no": "1210"}),
        ({"detail": [{"loc": ["body"], "msg": "no good"}, {"msg": "worse"}]}, {"msg": "engine: no good", "no": "1210"}),
        ({"detail": "no good"}, {"msg": "engine: no good", "no": "1210"}),
        ({"message": "x" * 5000}, {"msg": "engine: " + "x" * 4096, "no": "1210"}),
        ({"message": "\ud800{code}"}, {"msg": "engine: ?{code}", "no": "1210"}),
    ],
    ids=["nested", "text", "flat", "list of FastAPI", "FastAPI", "long", "surrogate"],
)
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_an_engines_400_is_told_anew(
    router: RunningRouter, engine: MockEngine, engines: dict[str, Any], told: dict[str, Any], encoding: str
) -> None:
    """The engine's own text comes in the vendor's words, whatever form it had and however it was compressed."""
    body = json.dumps(engines).encode()
    body, headers = (gzip.compress(body), (("Content-Encoding", "gzip"),)) if encoding == "gzip" else (body, ())
    engine.answer_next(MockResponse(400, (*JSON, *headers), body))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(), BEARER)
        again = client.post(CHAT, chat(), BEARER)
    assert (answer.status, again.status) == (400, 200)
    assert answer.header("Content-Encoding") is None
    assert answer.header("Content-Length") == str(len(answer.body))
    assert answer.header("x-router-error-code") is None
    assert answer.json() == {"ok": False, "err": {"id": answer.header("x-request-id"), **told}}


@pytest.mark.parametrize(
    "answered",
    [
        MockResponse(400, TEXT, b"no good"),
        MockResponse(400, JSON, b'["no good"]'),
        MockResponse(400, JSON, b'{"error":{"message":7}}'),
        MockResponse(400, JSON, b'{"message":"cut'),
        MockResponse(422, JSON, b'{"error":{"message":"no good"}}'),
        MockResponse(400, (*JSON, ("Content-Encoding", "gzip")), b"not gzip"),
    ],
    ids=["text", "list", "number", "cut", "422", "broken gzip"],
)
def test_what_cannot_be_told_anew_passes(router: RunningRouter, engine: MockEngine, answered: MockResponse) -> None:
    """An engine's 400 without a text, and every other status, passes byte for byte."""
    engine.answer_next(answered)
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(), BEARER)
    assert (answer.status, answer.body) == (answered.status, answered.body)
    assert answer.header("Content-Type") == dict(answered.headers)["Content-Type"]


def test_the_case_of_a_request_decides_how_an_engines_400_is_told(router: RunningRouter, engine: MockEngine) -> None:
    """One case has an envelope of its own, one has no words at all."""
    refused = MockResponse(400, JSON, b'{"error": {"message": "no good"}}')
    engine.answer_next(refused, refused)
    with RawClient(router.port) as client:
        special = client.post(CHAT, chat(special=True, model="chat"), BEARER)
        plain = client.post(CHAT, chat(plain=True), BEARER)
    assert special.json() == {"inside": "no good", "for": "chat"}
    assert plain.body == refused.body


def test_a_router_that_is_full_says_so_in_the_vendors_words(engine: MockEngine, tmp_path: Any) -> None:
    """Beyond the bound of requests in flight the vendor's own status and words are read, and when to come again."""
    artifact = artifact_file(tmp_path, CONTRACT)
    settings = {"ROUTER_MAX_IN_FLIGHT": "1", "WEB_CONCURRENCY": "1"}
    gate = Event()
    with running_router(artifact, [engine.url], settings) as full:
        engine.clear()
        engine.answer_next(MockResponse(body=b"{}", hold=gate))
        with RawClient(full.port) as first, RawClient(full.port) as second:
            try:
                first.send(_request())
                engine.wait_for(1)
                refused = second.send(_request()).answer()
            finally:
                gate.set()
            assert first.answer().status == 200
    _told(refused, 529, "overloaded", msg="slowly", no="1302")
    assert refused.header("Retry-After") == "1"


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """A router whose engine does not exist."""
    artifact = artifact_file(tmp_path_factory.mktemp("artifact"), CONTRACT)
    with running_router(
        artifact, [f"http://127.0.0.1:{free_port()}"], {"WEB_CONCURRENCY": "1"}, until_ready=False
    ) as it:
        yield it


def test_a_router_without_engines_says_so_in_the_vendors_words(lonely: RunningRouter) -> None:
    """A 503 has the vendor's words too."""
    with RawClient(lonely.port) as client:
        refused = client.post(CHAT, chat())
    _told(refused, 503, "no_healthy_engines", msg="soon", no="1234")
    assert refused.header("Retry-After") == "1"


def _request() -> bytes:
    body = chat()
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body)


def test_a_stream_that_breaks_off_says_so_in_the_vendors_envelope(router: RunningRouter, engine: MockEngine) -> None:
    """The last event of a broken stream has the envelope of every other error, and the id of the request."""
    event = b'data: {"id":"1","choices":[]}\n\n'
    engine.answer_next(replace(MockResponse.sse(event, event), cut_after=len(event) + 20))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(stream=True), BEARER)
    assert answer.status == 200
    told = json.loads(answer.body.rstrip().rpartition(b"data: ")[2])
    assert set(told) == {"ok", "err"}
    assert told["err"]["no"] == "upstream_incomplete"
    assert told["err"]["id"] == answer.header("x-request-id")
