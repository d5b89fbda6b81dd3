"""A default budget that an engine cannot serve: the request goes to it once more without the budget."""

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from router.contract.schema.model import Contract
from router.contract.schema.sections import MaxTokens, Output
from router.mock_engine import MockEngine, MockResponse
from router.mock_engine.request import ReceivedRequest
from tests.router.rawclient import RawAnswer, RawClient
from tests.router.serving import RunningRouter, artifact_file, running_router, wait_until
from tests.router.wire.chat import CHAT, chat

DEFAULT = 131072
CONTEXT = 2048
CONTRACT = Contract(output=Output(MaxTokens(DEFAULT, DEFAULT, "reject")))
VLLM = {
    "error": {
        "message": f"max_tokens={DEFAULT} cannot be greater than max_model_len={CONTEXT}. "
        f"Please request fewer output tokens. (parameter=max_tokens, value={DEFAULT})",
        "type": "BadRequestError",
        "param": "max_tokens",
        "code": 400,
    }
}
SGLANG = {
    "object": "error",
    "message": f"max_completion_tokens is too large: {DEFAULT}."
    f"This model supports at most {CONTEXT} completion tokens.",
    "type": "BadRequest",
    "param": None,
    "code": 400,
}
TOGETHER = {
    "object": "error",
    "message": f"This model's maximum context length is {CONTEXT} tokens. However, you requested {DEFAULT + 9} tokens "
    f"(9 in the messages, {DEFAULT} in the completion). Please reduce the length of the messages or completion.",
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}
PROMPT = {
    "error": {
        "message": f"the request exceeds the available context size ({CONTEXT} tokens), try increasing it",
        "type": "exceed_context_size_error",
        "code": 400,
        "n_prompt_tokens": 4000,
        "n_ctx": CONTEXT,
    }
}
"""llama.cpp's; no budget has anything to do with it."""


def budget_of(body: bytes) -> int | None:
    fields = json.loads(body)
    return next((fields[name] for name in ("max_completion_tokens", "max_tokens") if name in fields), None)


class _Small:
    """An engine that says `refusal` to a budget above its context, and lists the context or does not."""

    def __init__(
        self, refusal: object, *, longest: int | None = CONTEXT, refuses_all: bool = False, packed: bool = False
    ) -> None:
        self.engine = MockEngine(models=("served",))
        self._refusal = refusal
        self._refuses_all = refuses_all
        self._packed = packed
        self.card: dict[str, object] = {"id": "served"} | ({} if longest is None else {"max_model_len": longest})
        self.engine.script(self._answer)

    def _answer(self, received: ReceivedRequest) -> MockResponse | None:
        if received.path == "/v1/models":
            return MockResponse.json({"object": "list", "data": [self.card]})
        if received.method == "POST" and (self._refuses_all or (budget_of(received.body) or 0) > CONTEXT):
            answer = MockResponse.json(self._refusal, 400)
            if not self._packed:
                return answer
            headers = [*answer.headers, ("Content-Encoding", "gzip")]
            return replace(answer, headers=headers, body=gzip.compress(answer.body))
        return None

    def budgets(self) -> list[int | None]:
        """Return the budgets that came since the last time."""
        came = [budget_of(received.body) for received in self.engine.received if received.method == "POST"]
        self.engine.clear()
        return came


@pytest.fixture
def serve(tmp_path: Path) -> Iterator:
    """Return what starts a router in front of engines."""
    with ExitStack() as stack:

        def start(*small: _Small, workers: int = 1) -> RunningRouter:
            urls = [stack.enter_context(each.engine).url for each in small]
            settings = {"WEB_CONCURRENCY": str(workers), "ROUTER_HEALTH_CHECK_INTERVAL_SECONDS": "1"}
            router = stack.enter_context(running_router(artifact_file(tmp_path, CONTRACT), urls, settings))
            wait_until(lambda: _ready(router)["engines"]["healthy"] == len(small), router.log)
            for each in small:
                each.engine.clear()
            return router

        yield start


def _ready(router: RunningRouter) -> dict:
    with RawClient(router.port) as client:
        return client.get("/readyz").json()


def _ask(router: RunningRouter, **fields: object) -> RawAnswer:
    with RawClient(router.port) as client:
        return client.post(CHAT, chat(**fields))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("refusal", [VLLM, SGLANG, TOGETHER], ids=["vllm", "sglang", "together"])
def test_a_default_that_an_engine_rejects_is_left_out(serve, refusal, stream) -> None:
    """The request is answered at the second try and later ones at the first; the log says so once, /readyz always."""
    small = _Small(refusal)
    router = serve(small)
    first = _ask(router, stream=stream)
    assert (first.status, first.header("x-router-attempts")) == (200, "2")
    assert small.budgets() == [DEFAULT, None]
    assert [_ask(router, stream=stream).header("x-router-attempts") for _ in range(2)] == [None, None]
    assert small.budgets() == [None, None]
    problem = (
        f"too small for the contract: it rejects the default budget of {DEFAULT} tokens; its max_model_len is 2048"
    )
    assert _ready(router)["engine_problems"][small.engine.url].startswith(problem)
    assert _ready(router)["status"] == "ready"
    assert router.log().count("too small for the contract") == 1
    # What a client asks for itself is between it and the engine.
    asked = _ask(router, max_tokens=CONTEXT + 1)
    assert (asked.status, asked.json()) == (400, refusal)
    assert small.budgets() == [CONTEXT + 1]


def test_other_engines_keep_the_default(serve) -> None:
    """What one engine cannot serve is left out for it alone, and all workers tell of it, which log it once."""
    small, large = _Small(VLLM), _Small(VLLM, longest=DEFAULT * 2)
    large.engine.script(lambda received: None)
    router = serve(small, large, workers=2)
    for _ in range(12):
        assert _ask(router).status == 200
    assert set(large.budgets()) == {DEFAULT}
    assert small.budgets().count(DEFAULT) <= 2
    assert all(list(_ready(router)["engine_problems"]) == [small.engine.url] for _ in range(6))
    assert router.log().count("too small for the contract") == 1


def test_an_engine_that_lists_no_context_gets_both_each_time(serve) -> None:
    """Without a listed context nothing tells which prompts fit, so the default stays and is left out when rejected."""
    unlisted = _Small(SGLANG, longest=None, packed=True)
    router = serve(unlisted)
    assert [_ask(router).status for _ in range(2)] == [200, 200]
    assert unlisted.budgets() == [DEFAULT, None, DEFAULT, None]
    assert "sent to it twice" in _ready(router)["engine_problems"][unlisted.engine.url]
    assert router.log().count("too small for the contract") == 1


def test_an_engine_that_lists_a_longer_context_is_not_too_small(serve) -> None:
    """Where prompt and default are too long together the engine is not to blame; one that grows gets the default."""
    engine = _Small(TOGETHER, longest=DEFAULT + 1)
    router = serve(engine)
    assert [_ask(router).status for _ in range(2)] == [200, 200]
    assert engine.budgets() == [DEFAULT, None, DEFAULT, None]
    assert "engine_problems" not in _ready(router)


def test_an_engine_that_grows_gets_the_default_again(serve) -> None:
    """The listed context decides: once it is longer than the default, the default is injected."""
    engine = _Small(VLLM)
    router = serve(engine)
    assert _ask(router).status == 200
    engine.card["max_model_len"] = DEFAULT
    engine.engine.script(lambda received: engine._answer(received) if received.method == "GET" else None)
    assert [_ask(router).status, engine.budgets()[:2]] == [200, [DEFAULT, None]]
    engine.card["max_model_len"] = DEFAULT + 1
    wait_until(lambda: "engine_problems" not in _ready(router), router.log)
    assert _ask(router).status == 200
    assert engine.budgets()[-1] == DEFAULT


@pytest.mark.parametrize(("refusal", "sent"), [(PROMPT, [DEFAULT]), (TOGETHER, [DEFAULT, None])], ids=["alone", "both"])
def test_a_prompt_that_is_too_long_stays_an_error(serve, refusal, sent) -> None:
    """A prompt that does not fit at all is a 400 of the engine's, and says nothing of the engine."""
    engine = _Small(refusal, refuses_all=True)
    router = serve(engine)
    answer = _ask(router)
    assert (answer.status, answer.json()) == (400, refusal)
    assert engine.budgets() == sent
    assert "engine_problems" not in _ready(router)
