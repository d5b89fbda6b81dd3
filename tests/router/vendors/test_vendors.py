"""Every acceptance case of the vendors' presets: decided directly, and through the real router to a mock engine.

A file `cases/*.jsonl` has one case a line, an object of these members:

    id           names the case within its file
    preset       the preset whose contract decides; or, in kimi.jsonl, `family` and `variant` (verifier, live, both)
    confidence   how sure it is that the vendor answers like this: high, medium, low
    request      the body that a client sends
    build        bulk to add to it, so that lines stay short: `tools` {repeat, name} (`{i}` counts from 0),
                 `image_parts` {repeat, url, pad_url_to_bytes} before the text of the last message, each data URL as
                 long as that, `pad_body_to_bytes` with blanks
    model_ids    the ids that the engine serves (default: `served-model`, which the preset's aliases are routed as)
    engine       {status, body} that the engine answers, where it is not a good answer of its own
    source       where it is known from, as a list
    expect       what comes of it:
        status                  of the answer
        error_type, error_code, error_message   members of the error, exactly
        error_message_contains  a part of its message
        error_message_lacks     what is no part of its message
        body                    the whole answer, exactly
        forwarded               members that the engine gets, at least these, at any depth
        forwarded_any_of        a list of such, of which one is so
        forwarded_absent        dotted paths that it does not get
        response                {content_type, not, finish_reason} of the answer
        stream                  {usage_present, choices_empty_frame, end_frame_has} of its events
        note                    for people

In texts `$ENGINE_MODEL` stands for the first served id and `$REQUEST_ID` for the id of the request.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection
from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.errors import build_error_response
from router.contract.schema.model import Contract
from router.mock_engine import MockEngine, MockResponse
from tests.batches import batched
from tests.router.conftest import PATIENT
from tests.router.rawclient import RawAnswer, RawClient, post_head
from tests.router.serving import RunningRouter, artifact_file, running_router
from tests.router.vendors.cases import Case, all_cases, check_error, check_forwarded, check_stream
from tests.router.wire.chat import CHAT

LIVING = [case for case in all_cases() if not case.is_retired]
CASES = [pytest.param(case, id=case.name) for case in LIVING]
PRESETS_BY_DEFAULT = ("deepseek-v4", "moonshot-kimi-k3", "xiaomi-mimo", "zai-glm")
"""The decisions of all presets are tested by default; through a real router those that differ most in their errors."""
OK = 200


@cache
def contract_of(preset: str) -> Contract:
    return compile_profile(Selection("preset", preset, "SOURCE")).artifact.contract


def test_every_case_is_of_a_preset_that_is_shipped() -> None:
    """Each case names a preset, and no two of a file and preset share an id."""
    assert {case.preset for case in LIVING} <= set(preset_names())
    named = [(case.file, case.name) for case in LIVING]
    assert sorted(set(named)) == sorted(named)


@batched("case", CASES)
def test_the_decision_is_as_the_vendor_answers(case: Case) -> None:
    """A request is refused in the vendor's words, or forwarded as the vendor would read it."""
    decision = decide(case.request(), contract_of(case.preset), ServedIds(case.served))
    if isinstance(decision, Rejection):
        refusal = build_error_response(decision.error, decision.errors, "of-this-request")
        assert refusal.status == case.expected("status"), refusal
        check_error(case, json.loads(refusal.body), "of-this-request")
    else:
        assert isinstance(decision, Forward)
        assert case.expected("status") == OK or case.engine is not None, decision
        check_forwarded(case, json.loads(decision.body))


class Routers:
    """One running router in front of one engine: those of the contract and the served ids that were asked for last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._of: tuple[str, tuple[str, ...]] | None = None
        self._running = ExitStack()
        self._pair: tuple[RunningRouter, MockEngine] | None = None

    def serving(self, case: Case) -> tuple[RunningRouter, MockEngine]:
        """Return the router and the engine of a case, started where another one's run."""
        if self._of != (case.preset, case.served) or self._pair is None:
            self.stop()
            engine = self._running.enter_context(MockEngine(models=case.served))
            artifact = artifact_file(self._folder, contract_of(case.preset), case.preset)
            settings = PATIENT | {"ROUTER_MODEL_ID": ",".join(case.served), "WEB_CONCURRENCY": "1"}
            router = self._running.enter_context(running_router(artifact, [engine.url], settings))
            self._of, self._pair = (case.preset, case.served), (router, engine)
        self._pair[1].clear()
        return self._pair

    def stop(self) -> None:
        """Stop what runs."""
        self._of = self._pair = None
        self._running.close()
        self._running = ExitStack()


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routers]:
    """What starts the router and the engine of a case; cases of one router stand side by side."""
    running = Routers(tmp_path_factory.mktemp("artifacts"))
    yield running
    running.stop()


@batched("case", [case for case in CASES if case.values[0].preset in PRESETS_BY_DEFAULT])
def test_the_router_responds_as_the_vendor_does(case: Case, routers: Routers) -> None:
    """Through gunicorn a client reads the vendor's response, and the engine gets what the vendor would act upon."""
    _check_through_a_router(case, routers)


@pytest.mark.exhaustive
@batched("case", [case for case in CASES if case.values[0].preset not in PRESETS_BY_DEFAULT])
def test_the_router_responds_as_every_other_vendor_does(case: Case, routers: Routers) -> None:
    """The same through the routers of all other presets."""
    _check_through_a_router(case, routers)


def _check_through_a_router(case: Case, routers: Routers) -> None:
    router, engine = routers.serving(case)
    if case.engine is not None:
        engine.answer_next(MockResponse.json(case.engine["body"], case.engine["status"]))
    got = _posted(router.port, case.request(), contract_of(case.preset).limits.max_body_bytes)
    assert got.status == case.expected("status"), got
    if got.status == OK or case.engine is not None:
        [received] = engine.wait_for(1)
        check_forwarded(case, json.loads(received.body))
    else:
        assert engine.received == []
    if got.status != OK:
        check_error(case, got.json(), got.header("x-request-id") or "")
    _check_response(case.expected("response") or {}, got)
    if case.expected("stream") is not None:
        check_stream(case, _events_of(got))


def _posted(port: int, body: bytes, limit: int) -> RawAnswer:
    with RawClient(port) as client:
        client.send(post_head(CHAT, {"Content-Length": str(len(body))}))
        if len(body) <= limit:
            # One that is announced as too large is refused before any of it is sent, and would not be read whole.
            client.send(body)
        return client.answer()


def _check_response(wanted: dict[str, Any], got: RawAnswer) -> None:
    content_type = got.header("Content-Type") or ""
    assert content_type.startswith(wanted.get("content_type", "")), got
    assert "not" not in wanted or wanted["not"] not in content_type, got
    if "finish_reason" in wanted:
        assert got.json()["choices"][0]["finish_reason"] == wanted["finish_reason"], got


def _events_of(got: RawAnswer) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in got.body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
