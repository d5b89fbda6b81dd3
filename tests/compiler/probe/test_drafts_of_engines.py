"""A draft of an engine rejects nothing that the engine answers, of kinds of requests that the probe did not ask."""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compiler.artifact.from_profile import contract_of
from compiler.language.samples import FOREIGN
from compiler.pipeline import compile_profile
from compiler.probe.draft import ProbeRun, ProfileDraft, draft_of
from compiler.probe.learner import ProbeGoal, learn
from compiler.probe.runner import RequestSender, run_learner
from compiler.resolve.selection import Selection
from compiler.verify.assertion import EndpointResponse
from compiler.verify.check import ChatRequest
from compiler.verify.client import EndpointClient, Target, chat_url
from router.contract.decide import Forward, ServedIds, decide
from tests.compiler.probe import vllm
from tests.compiler.probe.endpoints import DAY, SMALL
from tests.compiler.probe.unasked import COUNT, requests
from tests.llama.server import MODEL, running_llama
from tests.router.rawclient import RawClient
from tests.router.serving import artifact_file, running_router

CONTEXT = ("-c", "2048")
"""512 tokens for each of the four requests that llama.cpp runs at a time."""


def vllm_answers(chat_requests: Sequence[ChatRequest]) -> Mapping[str, EndpointResponse]:
    return {request.key(): vllm.response(request, MODEL) for request in chat_requests}


@pytest.fixture(name="draft_of_vllm", scope="module")
def _draft_of_vllm() -> ProfileDraft:
    learned = run_learner(learn(ProbeGoal(MODEL, SMALL)), vllm_answers)
    return draft_of(learned, ProbeRun(MODEL, MODEL, "http://127.0.0.1/v1", DAY, 0))


def test_a_draft_of_vllm_rejects_nothing_that_vllm_answers(draft_of_vllm: ProfileDraft) -> None:
    """Numbers that were not tried, as texts or with a point, other roles, tools and unheard-of fields all pass."""
    contract, served = contract_of(draft_of_vllm.values), ServedIds((MODEL,))
    answered = [request for request in requests(MODEL) if vllm.response(request, MODEL).status == 200]
    assert len(answered) > COUNT / 2
    decisions = {request.body(): decide(request.body(), contract, served) for request in answered}
    assert [body for body, decision in decisions.items() if not isinstance(decision, Forward)] == []


def test_a_draft_of_vllm_says_what_vllm_holds_requests_to(draft_of_vllm: ProfileDraft) -> None:
    """Ranges are found as ranges, and neither a list of what was tried nor the engine's context is a rule."""
    fields = draft_of_vllm.values["fields"]
    bounds = {
        path: {key: value for key, value in rule.items() if key in ("min", "above", "max", "below", "max_items")}
        for path, rule in fields.items()
    }
    assert bounds["temperature"] == {"min": 0, "max": 2}
    assert bounds["top_p"] == {"above": 0, "max": 1}
    assert bounds["max_completion_tokens"] == {"min": 1}
    # Beside the other one it is not looked at.
    assert bounds["max_tokens"] == {}
    assert bounds["top_logprobs"] == {"min": 0, "max": 20}
    assert bounds["stop"] == {"max_items": 4}
    assert bounds["seed"] == bounds["messages"] == {}
    assert [path for path, rule in fields.items() if "allowed" in rule] == ["reasoning_effort"]
    assert "output" not in draft_of_vllm.values
    assert "fields.max_tokens: 17 too long for the context that the engine runs with" in draft_of_vllm.data.decode()


def test_words_keep_nothing_that_was_sent(draft_of_vllm: ProfileDraft) -> None:
    """No message of a draft has a value of the probe's own requests in it, nor a placeholder within a number."""
    messages = list(messages_in(draft_of_vllm.values))
    assert "presence_penalty must be in [-2, 2], got {value}." in messages
    for message in messages:
        assert not re.search(rf"{FOREIGN}|\bhot\b|\bprobe|1000000|\}}\.[0-9]|[0-9]\.\{{", message), message


def messages_in(values: Any) -> list[str]:
    """Return the words of all rules."""
    if not isinstance(values, dict):
        return []
    own = [each for key in ("message", "error") if isinstance(each := values.get(key), str)]
    return own + [message for inner in values.values() for message in messages_in(inner)]


@pytest.mark.exhaustive  # a thousand requests to a real engine
def test_a_draft_of_llama_in_front_of_it_rejects_nothing_that_it_answers(tmp_path: Path) -> None:
    """What a real llama.cpp answers it answers, too, behind a router that enforces the draft of it."""
    with running_llama(tmp_path, arguments=CONTEXT) as llama:
        asker = RequestSender(EndpointClient(Target(chat_url(llama.url))), {}, None, 2000, lambda _sent: None)
        learned = run_learner(learn(ProbeGoal(MODEL, SMALL)), asker.responses)
        draft = tmp_path / "draft.yaml"
        draft.write_bytes(draft_of(learned, ProbeRun(MODEL, MODEL, llama.url, DAY, 0)).data)
        compiled = compile_profile(Selection("file", str(draft), "SOURCE"))
        contract = compiled.artifact.contract
        assert "messages" not in compiled.values()["fields"]
        with running_router(artifact_file(tmp_path, contract), [llama.url]) as router:
            alone, behind = (statuses(port_of(url), requests(MODEL)) for url in (llama.url, router.url))
    answered = [body for body, status in alone.items() if status == 200]
    assert len(answered) > COUNT / 2
    assert [json.loads(body) for body in answered if behind[body] != 200] == []


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def statuses(port: int, chat_requests: Sequence[ChatRequest]) -> dict[bytes, int]:
    """Return the status of each request."""

    def request(body: bytes) -> int:
        with RawClient(port) as client:
            return client.post("/v1/chat/completions", body).status

    bodies = [each.body() for each in chat_requests]
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(bodies, pool.map(request, bodies), strict=True))
