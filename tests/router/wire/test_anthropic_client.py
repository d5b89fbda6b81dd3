"""The official Anthropic client in front of the router, and OpenAI's on Responses: answers, errors, cut streams."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai
import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Limits
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse, RawResponse
from router.mock_engine.behaviour import TEXT
from tests.router.conftest import RouterOf
from tests.router.serving import RunningRouter, running_router

pytestmark = pytest.mark.any_server

HI: list[Any] = [{"role": "user", "content": "hi"}]
ASK: dict[str, Any] = {"model": "served", "max_tokens": 100, "messages": HI}


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router with keys and a bound, whose contract has errors of its own for chat."""
    contract = Contract(errors=Errors(bad_request_type="vendor_error"), limits=Limits(max_body_bytes=10_000))
    return router_of(contract, ROUTER_API_KEYS="me=" + "k" * 20)


@contextmanager
def _client(
    router: RunningRouter, key: str = "k" * 20, max_retries: int = 0, path: str = ""
) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=router.url + path, api_key=key, max_retries=max_retries) as client:
        yield client


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "served", "content": [], "stop_reason": None}
BEGUN = [
    _event(
        "message_start", message=MESSAGE | {"stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    ),
    _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hello"}),
]
ENDED = [
    _event("content_block_stop", index=0),
    _event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 1}),
    _event("message_stop"),
]


def test_messages_are_answered(router: RunningRouter, engine: MockEngine) -> None:
    """A message, a count of tokens and a stream come as the engine gives them, with the router's request id."""
    engine.answer_next(MockResponse.json(MESSAGE | {"content": [{"type": "text", "text": TEXT}]}))
    with _client(router) as client:
        message = client.messages.create(**ASK)
        assert (message.content[0].to_dict()["text"], len(message._request_id or "")) == (TEXT, 24)
        assert client.messages.count_tokens(model="served", messages=HI).input_tokens == 1
        engine.answer_next(MockResponse.sse(*BEGUN, b": ping\n\n", *ENDED))
        with client.messages.stream(**ASK) as stream:
            assert "".join(stream.text_stream) == "hello"
            assert stream.get_final_message().stop_reason == "end_turn"


def test_refusals_are_the_clients_own_error_classes(router: RunningRouter) -> None:
    """Each carries the type, the message and the request id where the client looks for them."""
    refused: list[tuple[dict[str, Any], dict[str, Any], type[anthropic.APIStatusError], str]] = [
        ({"key": "another key of length"}, {}, anthropic.AuthenticationError, "authentication_error"),
        ({"path": "/v1/messages"}, {}, anthropic.NotFoundError, "not_found_error"),
        ({}, {"system": "x" * 10_000}, anthropic.APIStatusError, "request_too_large"),
        ({}, {"extra_headers": {"Content-Encoding": "gzip"}}, anthropic.APIStatusError, "invalid_request_error"),
    ]
    for options, fields, error, kind in refused:
        with _client(router, **options) as client, pytest.raises(error) as raised:
            client.messages.create(**ASK, **fields)
        body: Any = raised.value.body
        assert (body["type"], body["error"]["type"]) == ("error", kind)
        assert raised.value.request_id == body["request_id"]


def test_a_router_without_engines_is_overloaded_and_is_asked_again() -> None:
    """The client raises its class for 529, and repeats by itself until an engine is there."""
    with MockEngine(models=("served",)) as engine:
        engine.healthy = False
        settings = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.05", "ROUTER_MODEL_ID": "served"}
        with running_router(None, [engine.url], settings, until_ready=False) as router:
            with _client(router) as client, pytest.raises(anthropic.APIStatusError) as raised:
                client.messages.create(**ASK)
            assert (raised.value.status_code, raised.value.response.headers["retry-after"]) == (529, "1")
            engine.healthy = True
            with _client(router, max_retries=5) as client:
                assert client.messages.create(**ASK).role == "assistant"


def test_what_may_have_run_is_not_repeated(router: RunningRouter, engine: MockEngine) -> None:
    """An engine that drops a request fails it once, whatever retries the client has."""
    engine.answer_next(RawResponse())
    with _client(router, max_retries=2) as client, pytest.raises(anthropic.InternalServerError) as raised:
        client.messages.create(**ASK)
    assert raised.value.status_code == 502
    assert len(engine.received) == 1


@pytest.mark.parametrize("framing", ["close", "chunked"])
def test_a_cut_stream_of_messages_raises(router: RunningRouter, engine: MockEngine, framing: Any) -> None:
    """The client sees no whole message where the last event is missing, however the engine ended the stream."""
    engine.answer_next(*[MockResponse(headers=EVENT_STREAM, body=BEGUN, framing=framing)] * 2)
    with _client(router) as client:
        with client.messages.stream(**ASK) as stream, pytest.raises(anthropic.APIStatusError) as helped:
            stream.until_done()
        plain = client.messages.create(**ASK, stream=True)
        with pytest.raises(anthropic.APIStatusError) as raised:
            list(plain)
    for error in (helped.value, raised.value):
        body: Any = error.body
        assert body["error"]["type"] == "api_error"


CREATED = {"id": "r", "object": "response", "created_at": 1, "model": "served", "output": [], "status": "in_progress"}


@pytest.mark.parametrize("framing", ["close", "chunked"])
def test_a_cut_stream_of_responses_raises(router: RunningRouter, engine: MockEngine, framing: Any) -> None:
    """OpenAI's client raises with the router's message and code, in the plain iterator and in its helper."""
    begun = [
        _event("response.created", sequence_number=0, response=CREATED),
        _event("response.in_progress", sequence_number=1, response=CREATED),
    ]
    engine.answer_next(*[MockResponse(headers=EVENT_STREAM, body=begun, framing=framing)] * 2)
    with openai.OpenAI(base_url=f"{router.url}/v1", api_key="k" * 20, max_retries=0) as client:
        helper = client.responses.stream(model="served", input="hi")
        with helper as stream, pytest.raises(openai.APIError, match="cut off") as helped:
            stream.until_done()
        plain = client.responses.create(model="served", input="hi", stream=True)
        with pytest.raises(openai.APIError, match="cut off") as raised:
            list(plain)
    assert helped.value.code == raised.value.code == "upstream_incomplete"


def test_a_whole_stream_of_responses_is_read(router: RunningRouter, engine: MockEngine) -> None:
    """Nothing is added behind the last event, with or without numbers and DONE."""
    done = CREATED | {"status": "completed"}
    for numbers, more in (([{"sequence_number": 0}, {"sequence_number": 1}], []), ([{}, {}], [b"data: [DONE]\n\n"])):
        events = [
            _event("response.created", response=CREATED, **numbers[0]),
            _event("response.completed", response=done, **numbers[1]),
        ]
        engine.answer_next(MockResponse.sse(*events, *more))
        with openai.OpenAI(base_url=f"{router.url}/v1", api_key="k" * 20, max_retries=0) as client:
            types = [event.type for event in client.responses.create(model="served", input="hi", stream=True)]
        assert types == ["response.created", "response.completed"]
