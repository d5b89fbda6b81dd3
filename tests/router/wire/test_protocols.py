"""What differs by protocol on the wire: the envelope of errors, request ids, and how a stream that fails ends."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Limits, Models, plain_aliases
from router.contract.schema.types import ErrorText
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawAnswer, RawClient, head_of, post_head
from tests.router.serving import RunningRouter, running_router
from tests.router.wire.chat import CHAT, MESSAGES, chat

pytestmark = pytest.mark.any_server

ROUTES = ["/v1/messages", "/v1/messages/count_tokens"]
ASK = json.dumps({"model": "served", "max_tokens": 5, "messages": MESSAGES, "stream": True}).encode()
KEY = {"Authorization": "Bearer " + "k" * 20}
JSON_BODY = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router with keys whose contract has words, a type and an envelope of its own for errors."""
    words = {"bad_request": ErrorText(code=7, message="no"), "invalid_api_key": ErrorText(status=403, type="t")}
    contract = Contract(
        errors=Errors(bad_request_type="vendor_error", body={"e": "{message}"}, codes=words),
        limits=Limits(max_body_bytes=1000),
    )
    return router_of(contract, ROUTER_API_KEYS="me=" + "k" * 20, ROUTER_UPSTREAM_RESPONSE_TIMEOUT_SECONDS="0.5")


@pytest.fixture(scope="module")
def plain(router_of: RouterOf) -> RunningRouter:
    """A router that enforces nothing."""
    return router_of()


def _assert_anthropic(answer: RawAnswer, status: int, kind: str, code: str) -> None:
    assert (answer.status, answer.header("x-router-error-code")) == (status, code), answer
    body = answer.json()
    assert answer.header("Content-Type") == "application/json"
    assert answer.header("request-id") == answer.header("x-request-id") == body["request_id"]
    assert body == {
        "type": "error",
        "error": {"type": kind, "message": body["error"]["message"]},
        "request_id": body["request_id"],
    }
    assert body["error"]["message"] not in ("", "no")


@pytest.mark.any_server
@pytest.mark.parametrize("route", ROUTES)
def test_what_the_router_refuses_has_the_envelope_of_messages(router: RunningRouter, server: str, route: str) -> None:
    """Wherever it is refused, in the type of its status and never in the contract's words."""
    invalid, length = "invalid_request_error", {"Content-Length": str(len(ASK))}
    refused: list[tuple[bytes, int, str, str]] = [
        (post_head(route, length) + ASK, 401, "authentication_error", "invalid_api_key"),
        (head_of("GET", route, KEY), 405, invalid, "method_not_allowed"),
        (post_head(route, KEY | {"Content-Length": "1001"}), 413, "request_too_large", "request_too_large"),
        (
            post_head(route, KEY | {"Content-Encoding": "gzip", "Content-Length": "1"}) + b"x",
            415,
            invalid,
            "unsupported_media_type",
        ),
        (post_head(route, KEY | {"Transfer-Encoding": "chunked"}) + b"nonsense\r\n", 400, invalid, "bad_request"),
        (post_head(f"{route}/batches", KEY | {"Content-Length": "0"}), 404, "not_found_error", "not_found"),
        (post_head(f"{route}?beta=true", {"Content-Length": "0"}), 401, "authentication_error", "invalid_api_key"),
    ]
    if server == "worker":  # rejected before the application
        refused.append((post_head(route, KEY | {"Expect": "x"}), 417, invalid, "expectation_failed"))
        refused.append((post_head(route, KEY | {"Content-Length": "1, 2"}), 400, invalid, "bad_request"))
    for sent, status, kind, code in refused:
        with RawClient(router.port) as client:
            _assert_anthropic(client.send(sent).answer(), status, kind, code)


def test_other_routes_keep_the_contracts_words(router: RunningRouter) -> None:
    """The envelope of Messages is that of its own routes alone; others have no `request-id`."""
    for route in (CHAT, "/v1/responses", "/v1/messagesx"):
        with RawClient(router.port) as client:
            answer = client.post(route, b"{}")
        assert (answer.status, list(answer.json()), answer.header("request-id")) == (403, ["e"], None)
        assert answer.header("x-request-id")


def test_where_no_engine_can_answer_messages_are_overloaded() -> None:
    """Status 529 with Retry-After, where other routes say 503."""
    with MockEngine(models=("served",)) as engine:
        engine.healthy = False
        with running_router(None, [engine.url], {"ROUTER_MODEL_ID": "served"}, until_ready=False) as router:
            for route in ROUTES:
                with RawClient(router.port) as client:
                    answer = client.post(route, ASK)
                    _assert_anthropic(answer, 529, "overloaded_error", "no_healthy_engines")
                    assert int(answer.header("Retry-After") or 0) >= 1
                    assert client.post(CHAT, chat()).status == 503


def test_where_no_place_is_free_messages_are_overloaded(router_of: RouterOf, engine: MockEngine) -> None:
    """Beyond the bound of requests in flight, too, in the envelope of Messages."""
    router, gate = router_of(ROUTER_MAX_IN_FLIGHT="1", WEB_CONCURRENCY="1"), Event()
    engine.answer_next(replace(MockResponse.json({}), hold=gate))
    with RawClient(router.port) as held, RawClient(router.port) as client:
        held.send(post_head("/v1/messages", {"Content-Length": str(len(ASK))}) + ASK)
        engine.wait_for(1)
        _assert_anthropic(client.post("/v1/messages", ASK), 529, "overloaded_error", "overloaded")
        gate.set()
        assert held.answer().status == 200


def test_whole_answers_of_messages_carry_both_request_ids(plain: RunningRouter, engine: MockEngine) -> None:
    """The id that the anthropic SDK reads is the router's, whatever an engine says."""
    engine.answer_next(MockResponse.json({"type": "message"}, headers=[("request-id", "engine's")]))
    with RawClient(plain.port) as client:
        answer = client.post("/v1/messages", ASK, {"X-Request-Id": "abc"})
    assert [value for name, value in answer.headers if name.lower() == "request-id"] == ["abc"]
    assert answer.header("x-request-id") == "abc"


@pytest.mark.parametrize(("route", "holder"), [("/v1/messages", "message"), ("/v1/responses", "response")])
def test_a_stream_under_an_alias_names_the_alias(
    router_of: RouterOf, engine: MockEngine, route: str, holder: str
) -> None:
    """Where these protocols name the model the alias stands, also in the frames of a failure; texts stay."""
    router = router_of(Contract(models=Models(aliases=plain_aliases("latest"))))
    started = STARTED[route]
    text = _event("delta", text="served", model="served")
    engine.answer_next(MockResponse.sse(started, text))
    with RawClient(router.port) as client:
        stream = b"".join(_read(client, route, ASK.replace(b'"served"', b'"latest"')))
    assert stream.startswith(started.replace(b"served", b"latest") + text)
    events = [json.loads(line.removeprefix(b"data: ")) for line in stream.splitlines() if line.startswith(b"data: ")]
    assert {event[holder]["model"] for event in events if holder in event} == {"latest"}
    assert b"served" not in stream.replace(text, b"")


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


CHUNK = b'data: {"id":"1","choices":[]}\n\n'
STARTED = {
    "/v1/messages": _event("message_start", message={"model": "served"}),
    "/v1/responses": _event("response.created", sequence_number=4, response={"id": "r", "model": "served"}),
    "/v1/completions": CHUNK,
    CHAT: CHUNK,
}


def _read(client: RawClient, route: str, body: bytes = ASK) -> Iterator[bytes]:
    client.send(post_head(route, JSON_BODY | {"Content-Length": str(len(body))}) + body)
    assert client.head()[0] == 200
    return iter(client.chunk, b"")


def _assert_failed(route: str, stream: bytes) -> None:
    frames = [frame for frame in stream.split(b"\n\n") if b"data: " in frame]
    data = [json.loads(frame.split(b"data: ")[-1]) for frame in frames]
    match route:
        case "/v1/messages":
            assert frames[-1].startswith(b"event: error\n")
            assert data[-1]["error"]["type"] == "api_error"
        case "/v1/responses":
            assert frames[-2].startswith(b"event: error\n")
            assert frames[-1].startswith(b"event: response.failed\n")
            assert data[-2]["error"]["code"] == "upstream_incomplete"
            assert (data[-1]["response"]["status"], data[-1]["response"]["model"]) == ("failed", "served")
        case _:
            assert frames[-1].startswith(b"data: ")
            assert data[-1]["error"]["code"] == "upstream_incomplete"
    assert b"[DONE]" not in stream


@pytest.mark.parametrize("route", STARTED)
def test_a_stream_that_fails_ends_in_its_protocols_frames(plain: RunningRouter, engine: MockEngine, route: str) -> None:
    """Cut, or ended properly within an event: what had come leaves, and behind it the frames that clients heed."""
    started = STARTED[route]
    for failing in (
        replace(MockResponse.sse(started), last_chunk=False, then="close"),
        MockResponse(headers=EVENT_STREAM, body=[started], framing="close"),
        MockResponse.sse(started, started[:-5]),
    ):
        engine.answer_next(failing)
        with RawClient(plain.port) as client:
            stream = b"".join(_read(client, route))
        assert stream.startswith(started)
        _assert_failed(route, stream)


@pytest.mark.parametrize("route", ["/v1/messages", "/v1/responses"])
def test_a_proper_end_before_the_last_event_is_a_failure(plain: RunningRouter, engine: MockEngine, route: str) -> None:
    """Messages and Responses say by an event that they are whole; without it a client would take half for all."""
    engine.answer_next(MockResponse.sse(STARTED[route]))
    with RawClient(plain.port) as client:
        _assert_failed(route, b"".join(_read(client, route)))


def _is_empty() -> dict[str, MockResponse]:
    return {
        "no event": MockResponse.sse(),
        "half an event": MockResponse.sse(CHUNK[:-6]),
        "no JSON": MockResponse(headers=[("Content-Type", "application/json")], body=b""),
        "white space": MockResponse(headers=[("Content-Type", "application/json")], body=[b" \n"], framing="chunked"),
        "no type": MockResponse(body=b""),
        "compressed": MockResponse(
            headers=[("Content-Type", "application/json"), ("Content-Encoding", "gzip")], body=gzip.compress(b"")
        ),
        "a compressed stream": MockResponse.sse(headers=[("Content-Encoding", "gzip")]),
    }


@pytest.mark.parametrize("route", [CHAT, "/v1/messages", "/v1/embeddings"])
@pytest.mark.parametrize("empty", _is_empty())
def test_a_success_that_says_nothing_is_a_broken_answer(
    plain: RunningRouter, engine: MockEngine, route: str, empty: str
) -> None:
    """While nothing was sent it is a 502, which must not be repeated blindly: the engine may have worked."""
    engine.answer_next(_is_empty()[empty])
    with RawClient(plain.port) as client:
        answer = client.post(route, ASK)
        assert (answer.status, answer.header("x-router-error-code")) == (502, "upstream_incomplete")
        assert answer.header("x-should-retry") == "false"
        assert ("request_id" in answer.json()) == (route == "/v1/messages")


def test_comments_alone_are_no_answer(plain: RunningRouter, engine: MockEngine) -> None:
    """They have been sent when the stream ends without an event, so the error is one."""
    for comments in (b": ping\n\n", b"\n\n"):
        engine.answer_next(MockResponse.sse(comments))
        with RawClient(plain.port) as client:
            stream = b"".join(_read(client, "/v1/messages"))
        assert stream.startswith(comments)
        _assert_failed("/v1/messages", stream)
