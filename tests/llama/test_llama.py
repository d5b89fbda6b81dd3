"""The contract in front of a real llama.cpp server, asked by the official OpenAI client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Interval, Limits, MaxTokens, Models, Output, Sampling, plain_aliases
from tests.llama.server import MODEL, TEXT, running_llama
from tests.router.rawclient import RawClient, post_head
from tests.router.serving import artifact_file, running_router, status_of, wait_until

pytestmark = pytest.mark.exhaustive  # a real engine takes long to start

MESSAGES: Any = [{"role": "user", "content": "hello"}]
SAMPLING = Sampling(params={"temperature": Interval(0, 1), "top_p": 0.95, "top_k": 1000, "n": 1})
CONTRACT = Contract(
    errors=Errors(bad_request_type="vendor_error"),
    limits=Limits(max_images=1),
    models=Models(aliases=plain_aliases("vendor-latest")),
    output=Output(MaxTokens(cap=100, default=100)),
    sampling=SAMPLING,
)
CLAMPING = Contract(output=Output(MaxTokens(cap=4, default=4, on_exceed="clamp")))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a running llama.cpp server."""
    with running_llama(tmp_path_factory.mktemp("llama")) as running:
        yield running.url


def client_of(contract: Contract, llama: str, folder: Path) -> Iterator[openai.OpenAI]:
    with (
        running_router(artifact_file(folder, contract), [llama]) as router,
        openai.OpenAI(base_url=f"{router.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    """A client of a router that refuses what conflicts with the contract."""
    yield from client_of(CONTRACT, llama, tmp_path_factory.mktemp("reject"))


@pytest.fixture(scope="module")
def clamped(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    """A client of a router that clamps the output to four tokens."""
    yield from client_of(CLAMPING, llama, tmp_path_factory.mktemp("clamp"))


def test_a_chat_is_answered(client: openai.OpenAI) -> None:
    """A plain request gets the engine's text."""
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert answer.choices[0].message.content == TEXT
    assert answer.model == MODEL


def test_a_stream_is_answered_under_the_name_that_was_asked(client: openai.OpenAI) -> None:
    """A stream to an alias carries the engine's text, and the alias in every chunk."""
    stream = client.chat.completions.create(model="vendor-latest", messages=MESSAGES, stream=True)
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == TEXT
    assert {chunk.model for chunk in chunks} == {"vendor-latest"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 9}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"extra_body": {"top_k": 5}}, "top_k"),
        ({"extra_body": {"n_cmpl": 2}}, "n"),
        ({"max_tokens": 101}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_completion_tokens": 4294967301}, "max_completion_tokens"),
        ({"extra_body": {"n_predict": -1}}, "max_tokens"),
    ],
    ids=str,
)
def test_what_the_engine_would_take_is_refused(
    client: openai.OpenAI, llama: str, fields: dict[str, Any], param: str
) -> None:
    """Values that llama.cpp itself answers with 200 are 400s of the contract's type, and name the field."""
    with openai.OpenAI(base_url=f"{llama}/v1", api_key="none", max_retries=0) as bare:
        bare.chat.completions.create(model=MODEL, messages=MESSAGES, timeout=20, **{**fields, "stop": [" contract"]})
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, **fields)
    assert (refused.value.type, refused.value.param) == ("vendor_error", param)


@pytest.mark.parametrize(
    "fields", [{"max_tokens": 50}, {"max_completion_tokens": 50}, {"extra_body": {"n_predict": 50}}, {}], ids=str
)
def test_a_clamped_budget_ends_the_answer(clamped: openai.OpenAI, fields: dict[str, Any]) -> None:
    """Whatever spelling asks for more, the engine stops at the cap."""
    answer = clamped.chat.completions.create(model=MODEL, messages=MESSAGES, **fields)
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content == " a contract is what"


def test_the_engines_own_bad_request_carries_the_contracts_type(client: openai.OpenAI) -> None:
    """A 400 of llama.cpp keeps its message and gets the contract's type."""
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user"}])  # type: ignore[typeddict-item]
    assert refused.value.type == "vendor_error"
    assert refused.value.response.headers.get("x-router-error-code") is None


def test_an_engine_that_dies_is_an_error_and_not_an_answer(tmp_path: Path) -> None:
    """When llama.cpp is killed in mid-stream the client gets an error event, and the router is no longer ready."""
    body = b'{"model":"tiny-chain","messages":[],"stream":true,"ignore_eos":true,"max_tokens":16000}'
    with (
        running_llama(tmp_path) as engine,
        running_router(
            artifact_file(tmp_path, Contract()), [engine.url], {"ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "0.2"}
        ) as router,
    ):
        with RawClient(router.port) as raw:
            raw.send(post_head("/v1/chat/completions", {"Content-Length": str(len(body))}) + body)
            status, _ = raw.head()
            first = raw.chunk()
            engine.process.kill()
            rest = b"".join(iter(raw.chunk, b""))
        assert status == 200
        assert first.startswith(b"data: ")
        assert b"[DONE]" not in rest
        assert b'"code": "upstream_incomplete"' in rest.rstrip().rpartition(b"\n")[2]
        wait_until(lambda: status_of(f"{router.url}/readyz") == 503, router.log)
