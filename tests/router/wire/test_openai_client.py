"""The official OpenAI client in front of the router: answers, streams, error classes and its own retries."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Limits, MaxTokens, Models, Output, Sampling, plain_aliases
from router.mock_engine import EVENT_STREAM, MockEngine, MockResponse, RawResponse
from router.mock_engine.behaviour import TEXT
from router.mock_engine.response import ScriptedResponse
from tests.router.conftest import RouterOf
from tests.router.serving import RunningRouter, running_router

pytestmark = pytest.mark.any_server

HI: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hi"}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
TWO_IMAGES = [{"role": "user", "content": [IMAGE, IMAGE]}]
FULL = MockResponse.json({"error": {"message": "full"}}, 503, [("Retry-After", "0")])


@pytest.fixture(scope="module")
def router(router_of: RouterOf) -> RunningRouter:
    """A router whose contract has a rule in every section."""
    return router_of(
        Contract(
            errors=Errors(bad_request_type="vendor_error"),
            limits=Limits(max_body_bytes=10_000, max_images=1),
            models=Models(aliases=plain_aliases("latest")),
            output=Output(MaxTokens(cap=100, default=10)),
            sampling=Sampling(params={"temperature": 1}),
        )
    )


@contextmanager
def _client(router: RunningRouter, max_retries: int = 0) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{router.url}/v1", api_key="key", max_retries=max_retries) as client:
        yield client


def test_a_chat_is_answered(router: RunningRouter, engine: MockEngine) -> None:
    """The client gets an answer under the alias it asked for, and its key reaches the engine."""
    with _client(router) as client:
        completion = client.chat.completions.create(model="latest", messages=HI)
    assert completion.model == "latest"
    assert str(completion.choices[0].message.content) == " ".join(TEXT.split()[:10])
    assert completion.choices[0].finish_reason == "length"
    (received,) = engine.received
    assert received.values("Authorization") == ["Bearer key"]
    assert (received.json()["temperature"], received.json()["max_tokens"]) == (1, 10)


def test_a_stream_is_read_to_its_end(router: RunningRouter) -> None:
    """The client reads a stream chunk by chunk, each under the alias, usage included."""
    with _client(router) as client:
        options: Any = {"include_usage": True}
        with client.chat.completions.create(model="latest", messages=HI, stream=True, stream_options=options) as stream:
            chunks = list(stream)
    assert {chunk.model for chunk in chunks} == {"latest"}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == " ".join(
        TEXT.split()[:10]
    )
    assert chunks[-1].usage is not None


def test_models_are_listed_and_retrieved(router: RunningRouter) -> None:
    """The client lists ids and aliases, and retrieves either."""
    with _client(router) as client:
        assert [model.id for model in client.models.list()] == ["served", "latest"]
        assert client.models.retrieve("latest").id == "latest"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("org/unknown")


def test_other_routes_answer_their_clients(router: RunningRouter) -> None:
    """Routes outside of the contract work with the client's other methods."""
    with _client(router) as client:
        assert client.completions.create(model="served", prompt="hi").choices[0].text == TEXT
        assert len(client.embeddings.create(model="served", input=["a", "b"]).data) == 2
        assert client.responses.create(model="served", input="hi").output_text == TEXT


class Refusal(NamedTuple):
    """What a request is refused with: the client's class, and what it says."""

    fields: dict[str, Any]
    error: type[openai.APIStatusError]
    code: str
    type: str
    param: str | None


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(
            {"temperature": 0}, openai.BadRequestError, "sampling_contract_violation", "vendor_error", "temperature"
        ),
        Refusal({"max_tokens": 101}, openai.BadRequestError, "max_tokens_exceeded", "vendor_error", "max_tokens"),
        Refusal({"max_tokens": 0}, openai.BadRequestError, "bad_request", "vendor_error", "max_tokens"),
        Refusal({"messages": TWO_IMAGES}, openai.BadRequestError, "too_many_images", "vendor_error", "messages"),
        Refusal({"model": "nope"}, openai.NotFoundError, "model_not_found", "invalid_request_error", "model"),
        Refusal({"user": "x" * 10_000}, openai.APIStatusError, "request_too_large", "invalid_request_error", None),
    ],
    ids=lambda refusal: refusal.code,
)
def test_a_refusal_is_the_clients_own_error_class(
    router: RunningRouter, engine: MockEngine, refusal: Refusal, *, stream: bool
) -> None:
    """Each refusal of the router is raised as the class of its status, with code, type and param filled in."""
    request: dict[str, Any] = {"model": "served", "messages": HI, "stream": stream, **refusal.fields}
    with _client(router, max_retries=2) as client, pytest.raises(refusal.error) as raised:
        client.chat.completions.create(**request)
    error = raised.value
    assert (error.code, error.type, error.param) == (refusal.code, refusal.type, refusal.param)
    assert error.request_id
    assert error.response.headers["x-router-error-code"] == refusal.code
    assert engine.received == []


def test_an_engines_error_is_the_clients_own_error_class(router: RunningRouter, engine: MockEngine) -> None:
    """An engine's own refusal is raised as the class of its status, retyped if it is a 400."""
    refusal = {"message": "m", "type": "BadRequestError", "param": "p", "code": "c"}
    for status, error, kind in (
        (400, openai.BadRequestError, "vendor_error"),
        (401, openai.AuthenticationError, "BadRequestError"),
        (422, openai.UnprocessableEntityError, "BadRequestError"),
        (429, openai.RateLimitError, "BadRequestError"),
        (500, openai.InternalServerError, "BadRequestError"),
    ):
        engine.answer_next(MockResponse.json({"error": refusal}, status))
        with _client(router) as client, pytest.raises(error) as raised:
            client.chat.completions.create(model="served", messages=HI)
        assert (raised.value.type, raised.value.code, raised.value.param) == (kind, "c", "p")


def test_a_stream_that_breaks_off_raises(router: RunningRouter, engine: MockEngine) -> None:
    """The error event at the end of a broken stream is raised by the client, not taken for the end."""
    event = b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"served","choices":[]}\n\n'
    engine.answer_next(MockResponse(headers=EVENT_STREAM, body=[event], framing="close"))
    with _client(router) as client, client.chat.completions.create(model="served", messages=HI, stream=True) as stream:
        assert next(stream).id == "1"
        with pytest.raises(openai.APIError) as raised:
            next(stream)
    assert (raised.value.code, raised.value.type) == ("upstream_incomplete", "server_error")


@pytest.mark.parametrize(
    ("reply", "retries", "asked"),
    [
        pytest.param(RawResponse(), 0, 1, id="502, retries off"),
        pytest.param(RawResponse(), 2, 1, id="502 after the engine may have worked"),
        pytest.param(MockResponse(302, framing="none"), 1, 2, id="502 that may be repeated"),
        pytest.param(FULL, 0, 1, id="503, retries off"),
        pytest.param(FULL, 2, 3, id="503 of the engine's"),
        pytest.param(MockResponse.json({}, 503, [("x-should-retry", "false")]), 2, 1, id="503 that the engine forbids"),
    ],
)
def test_the_client_repeats_only_what_it_may(
    router: RunningRouter, engine: MockEngine, reply: ScriptedResponse, retries: int, asked: int
) -> None:
    """The client's own retries reach the engine where nothing can have run twice, and nowhere else."""
    engine.answer_next(*[reply] * 3)
    with _client(router, max_retries=retries) as client, pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="served", messages=HI)
    assert len(engine.received) == asked


def test_the_client_waits_for_an_engine_to_come_back() -> None:
    """A 503 without a healthy engine is repeated by the client, which then gets its answer."""
    with MockEngine() as engine:
        settings = {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.05", "ROUTER_MODEL_ID": "served"}
        engine.healthy = False
        with running_router(None, [engine.url], settings, until_ready=False) as router:
            with _client(router) as client, pytest.raises(openai.InternalServerError) as raised:
                client.chat.completions.create(model="served", messages=HI)
            assert raised.value.code == "no_healthy_engines"
            assert engine.received == []
            engine.healthy = True
            with _client(router, max_retries=5) as client:
                assert client.chat.completions.create(model="served", messages=HI).model == "served"
            assert len(engine.received) == 1
