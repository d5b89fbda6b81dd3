"""The access log: what the line of a request says, whatever became of it, and nothing that is a secret."""

import itertools
import json
import uuid
from threading import Event
from typing import Any

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Limits, Models, Sampling, plain_aliases
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse
from tests.router.conftest import RouterOf
from tests.router.rawclient import RawClient, chunked, head_of, post_head
from tests.router.serving import RunningRouter, wait_until
from tests.router.wire.chat import CHAT, chat

pytestmark = pytest.mark.any_server

CONTRACT = Contract(
    models=Models(aliases=plain_aliases("latest")),
    sampling=Sampling(params={"top_p": 0.95}),
    limits=Limits(max_body_bytes=4096),
)
EVENT = b'data: {"id":"1","model":"served","choices":[]}\n\n'
ALWAYS = ["time", "request_id", "method", "route", "status", "bytes_in", "bytes_out", "total_ms"]
TO_AN_ENGINE = [
    "time",
    "request_id",
    "method",
    "route",
    "model_asked",
    "model_served",
    "engine",
    "status",
    "bytes_in",
    "bytes_out",
    "to_engine_ms",
    "first_byte_ms",
    "total_ms",
]


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router with an alias, a pin and a body limit of 4 KiB."""
    return router_of(CONTRACT)


@pytest.fixture
def request_id() -> str:
    """An id that no other request has."""
    return uuid.uuid4().hex


def _line(router: RunningRouter, request_id: str) -> dict[str, Any]:
    """Return the only line about a request."""
    (line,) = router.access_lines_with(request_id)
    return json.loads(line)  # type: ignore[no-any-return]


def _stream(client: RawClient, request_id: str) -> None:
    body = chat(stream=True)
    client.send(post_head(CHAT, {"Content-Length": str(len(body)), "X-Request-Id": request_id}) + body)
    assert client.head()[0] == 200


def test_an_answered_request(router: RunningRouter, engine: MockEngine, request_id: str) -> None:
    """A chat answer has a line of what was asked and served, by which engine, how many bytes and how long."""
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(), {"X-Request-Id": request_id})
    line = _line(router, request_id)
    assert list(line) == TO_AN_ENGINE
    assert all(line.pop(name) >= 0 for name in ("to_engine_ms", "first_byte_ms", "total_ms"))
    assert line.pop("time").endswith("Z")
    assert line == {
        "request_id": request_id,
        "method": "POST",
        "route": CHAT,
        "model_asked": "served",
        "model_served": "served",
        "engine": engine.url,
        "status": 200,
        "bytes_in": len(chat()),
        "bytes_out": len(answer.body),
    }


def test_an_alias_and_a_stream(router: RunningRouter, request_id: str) -> None:
    """The line of a stream says that it was one, and of an alias what stood for it."""
    with RawClient(router.port) as client:
        body = chat(model="latest", stream=True)
        answer = client.post(CHAT, body, {"X-Request-Id": request_id})
    line = _line(router, request_id)
    assert (line["model_asked"], line["model_served"], line["stream"]) == ("latest", "served", True)
    assert (line["status"], line["bytes_out"]) == (200, len(answer.body))


def test_a_route_that_passes_through(router: RunningRouter, engine: MockEngine, request_id: str) -> None:
    """Where no contract holds the line says which model was asked and served, too."""
    with RawClient(router.port) as client:
        assert client.post("/v1/embeddings", chat(model="latest"), {"X-Request-Id": request_id}).status == 200
    line = _line(router, request_id)
    assert list(line) == TO_AN_ENGINE
    assert (line["model_asked"], line["model_served"]) == ("latest", "served")
    assert (line["route"], line["engine"], line["status"]) == ("/v1/embeddings", engine.url, 200)


REFUSED = {
    "a sampling value": (
        chat(top_p=0.8),
        {
            "model_asked": "served",
            "status": 400,
            "code": "sampling_contract_violation",
            "rule": "sampling.params.top_p",
        },
    ),
    "no JSON": (b"{", {"status": 400, "code": "bad_request", "rule": "request"}),
    "no such model": (
        chat(model="none"),
        {"model_asked": "none", "status": 404, "code": "model_not_found", "rule": "models"},
    ),
}


@pytest.mark.parametrize("cause", REFUSED)
def test_a_refused_request(router: RunningRouter, request_id: str, cause: str) -> None:
    """A refusal is told with its code and the rule, or the step, that refused; no engine has to do with it."""
    body, expected = REFUSED[cause]
    with RawClient(router.port) as client:
        client.post(CHAT, body, {"X-Request-Id": request_id})
    line = _line(router, request_id)
    assert line["bytes_in"] == len(body)
    assert {name: value for name, value in line.items() if name not in ALWAYS or name == "status"} == expected


@pytest.mark.parametrize("route", [CHAT, "/v1/completions"])
@pytest.mark.parametrize("framing", ["counted", "chunked"])
def test_a_body_that_is_too_large(router: RunningRouter, request_id: str, route: str, framing: str) -> None:
    """A 413 is told with the rule of the limit."""
    sent = {"X-Request-Id": request_id}
    with RawClient(router.port) as client:
        if framing == "counted":
            client.post(route, bytes(5000), sent)
        else:
            client.send(post_head(route, {**sent, "Transfer-Encoding": "chunked"}) + chunked(bytes(5000))).answer()
    line = _line(router, request_id)
    assert (line["status"], line["code"], line["rule"]) == (413, "request_too_large", "limits.max_body_bytes")


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/nowhere?key=hush", {"method": "GET", "status": 404, "code": "not_found"}),
        ("GET", "/%0a%1b[2J%22hush", {"method": "GET", "status": 404, "code": "not_found"}),
        ("GET", "/v1/chat/completions/hush", {"method": "GET", "status": 404, "code": "not_found"}),
        ("GET", "//v1/models?hush", {"method": "GET", "status": 404, "code": "not_found"}),
        ("HUSH", "/nowhere", {"method": "other", "status": 404, "code": "not_found"}),
        ("PUT", CHAT, {"method": "PUT", "route": CHAT, "status": 405, "code": "method_not_allowed"}),
        ("GET", "/v1/models", {"method": "GET", "route": "/v1/models", "status": 200}),
        ("GET", "/v1/models/served", {"method": "GET", "route": "/v1/models/{model}", "status": 200}),
        (
            "GET",
            "/v1/models/hush",
            {"method": "GET", "route": "/v1/models/{model}", "status": 404, "code": "model_not_found"},
        ),
    ],
)
def test_a_target_is_told_only_as_a_route(
    router: RunningRouter, request_id: str, method: str, target: str, expected: dict[str, Any]
) -> None:
    """Neither a path that is no route nor a method of a client's own making gets into the log."""
    with RawClient(router.port) as client:
        client.send(head_of(method, target, {"X-Request-Id": request_id})).answer()
    (text,) = router.access_lines_with(request_id)
    line = json.loads(text)
    assert {name: line[name] for name in ("method", "route", "status", "code") if name in line} == expected
    assert "hush" not in text.lower()


def test_a_stream_that_its_client_leaves(router: RunningRouter, engine: MockEngine, request_id: str) -> None:
    """A client that goes away in the middle is told apart; it is nobody's error."""
    engine.answer_next(MockResponse.sse(*itertools.repeat(EVENT * 100, 10_000)))
    with RawClient(router.port) as client:
        _stream(client, request_id)
        client.chunk()
    line = _line(router, request_id)
    assert (line["status"], line["client_gone"], line.get("code")) == (200, True, None)
    assert line["bytes_out"] > 0


def test_a_stream_that_its_engine_cuts(router: RunningRouter, engine: MockEngine, request_id: str) -> None:
    """A stream that its engine cuts has the code that its client read behind the 200."""
    engine.answer_next(
        MockResponse(headers=EVENT_STREAM, body=[EVENT], framing="chunked", last_chunk=False, then="close")
    )
    with RawClient(router.port) as client:
        _stream(client, request_id)
        body = b"".join(iter(client.chunk, b""))
    line = _line(router, request_id)
    assert b"upstream_incomplete" in body
    assert (line["status"], line["code"], line.get("client_gone")) == (200, "upstream_incomplete", None)
    assert line["bytes_out"] == len(body)


def test_an_engine_that_is_gone(router_of: RouterOf, engine: MockEngine, request_id: str) -> None:
    """A request that an engine dropped has the engine and the code, and no first byte."""
    router = router_of(ROUTER_RETRIES="0")
    engine.answer_next(MockResponse(then="reset", cut_after=0, headers=[("Content-Length", "9")]))
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(), {"X-Request-Id": request_id})
    line = _line(router, request_id)
    assert (answer.status, line["status"], line["engine"]) == (502, 502, engine.url)
    assert line["code"] == answer.header("x-router-error-code")


@pytest.mark.parametrize("name", ["x" * 3000, 'a"b', "a\nb", "\x1b[2J\x1b]0;t\x07", "\u2028\u202e\x9b", "\0"])
def test_a_nasty_model_name_is_cut_and_escaped(router: RunningRouter, request_id: str, name: str) -> None:
    """Whatever a model is called, the line is one line of JSON, and short."""
    with RawClient(router.port) as client:
        assert client.post(CHAT, chat(model=name), {"X-Request-Id": request_id}).status == 404
    (text,) = router.access_lines_with(request_id)
    assert json.loads(text)["model_asked"] == name[:200]
    assert text.removesuffix("\n").isprintable()


@pytest.mark.parametrize("given", ['"forged', "a b", "x" * 129, "\xe9"])
def test_a_nasty_request_id_is_not_taken_over(router: RunningRouter, given: str) -> None:
    """An id that is no plain token is replaced, in the answer and in the log."""
    with RawClient(router.port) as client:
        own = client.get("/v1/models", {"X-Request-Id": given}).header("x-request-id") or ""
    assert _line(router, own)["request_id"] == own
    assert given not in own


def test_ids_and_traces_go_all_the_way(router: RunningRouter, engine: MockEngine, request_id: str) -> None:
    """One id stands in the request, at the engine, in the answer and in the log; the trace reaches the engine."""
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=1"}
    with RawClient(router.port) as client:
        answer = client.post(CHAT, chat(), {"X-Request-Id": request_id, **trace})
    (received,) = engine.received
    assert answer.header("x-request-id") == request_id
    assert received.values("X-Request-Id") == [request_id]
    assert {name: received.values(name) for name in trace} == {name: [value] for name, value in trace.items()}
    assert _line(router, request_id)["request_id"] == request_id


def test_no_secret_gets_into_the_log(router_of: RouterOf, request_id: str) -> None:
    """Neither keys nor prompts nor answers nor other headers stand in the access log, nor in the other."""
    router = router_of(ROUTER_ENGINE_API_KEY="hush-engine")
    headers = {
        "Authorization": "Bearer hush-client",
        "X-Api-Key": "hush-x",
        "User-Agent": "hush-agent",
        "traceparent": "hush-trace",
        "Cookie": "hush-cookie",
        "X-Request-Id": request_id,
    }
    with RawClient(router.port) as client:
        for body in (chat(messages=[{"role": "user", "content": "hush-prompt"}]), b'{"hush-bad', chat(stream="hush")):
            client.post(f"{CHAT}", body, headers)
            client.post(f"{CHAT}?key=hush-query", body, headers)
    text = "".join(router.access_lines_with(request_id, 6))
    assert "hush" not in text + router.log()
    assert "mock engine received this" not in text


def test_probes_that_go_well_are_not_told(router: RunningRouter, request_id: str) -> None:
    """Health checks leave no line as long as all is well."""
    with RawClient(router.port) as client:
        assert client.get("/healthz", {"X-Request-Id": f"probe-{request_id}"}).status == 200
        assert client.get("/readyz", {"X-Request-Id": f"probe-{request_id}"}).status == 200
        assert client.get("/v1/models", {"X-Request-Id": request_id}).status == 200
    router.access_lines_with(request_id)
    assert not router.access_lines_with(f"probe-{request_id}", 0)


def test_a_held_request_is_told_when_it_is_over(router: RunningRouter, engine: MockEngine, request_id: str) -> None:
    """A line comes when the answer is over, not before."""
    gate = Event()
    engine.answer_next(MockResponse.sse(EVENT, gate, b"data: [DONE]\n\n"))
    with RawClient(router.port) as client:
        _stream(client, request_id)
        client.chunk()
        with RawClient(router.port) as other:
            other.get("/v1/models", {"X-Request-Id": f"other-{request_id}"})
        router.access_lines_with(f"other-{request_id}")
        assert not router.access_lines_with(f'"{request_id}"', 0)
        gate.set()
        assert b"".join(iter(client.chunk, b"")).endswith(b"[DONE]\n\n")
    wait_until(lambda: router.access_lines_with(f'"{request_id}"', 0))
