"""Content parts: counted by modality over the whole conversation, and looked for once."""

import json

import pytest

from router.contract.decide import Forward, ServedIds, decide
from router.contract.rules import evaluation
from router.contract.rules.content_parts import content_parts_of
from router.contract.schema import named_checks
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import PART_LIMITS
from router.contract.schema.sections import Limits
from tests.router.contract.tables import request_with, rows

SERVED = ServedIds(("served",))
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def _with_parts(part, count):
    return request_with(f'"messages":{json.dumps([{"role": "user", "content": [part] * count}])}')


def counts_of(messages):
    parts = content_parts_of(messages)
    return {modality: parts.count(modality) for modality in PART_LIMITS if parts.count(modality)}


@pytest.mark.parametrize(("modalities", "messages"), rows("content_parts.txt"))
def test_the_table_of_parts(modalities, messages):
    """Messages carry as many parts of each modality as the table says."""
    words = modalities.replace("-", "").split()
    assert counts_of(json.loads(messages)) == {
        name: int(count) for name, count in zip(words[::2], words[1::2], strict=True)
    }


KINDS = {"image": "image_url", "video": "video_url", "audio": "input_audio", "file": "file"}


@pytest.mark.parametrize("allowed", [0, 1, 20])
@pytest.mark.parametrize("modality", PART_LIMITS)
def test_parts_up_to_the_limit_pass_and_one_more_is_rejected(modality, allowed):
    """At the limit the request's own bytes are forwarded; above it the 400 says found and allowed."""
    contract = Contract(limits=Limits(**{PART_LIMITS[modality]: allowed}))
    part = {"type": KINDS[modality]}
    body = _with_parts(part, allowed)
    assert decide(body, contract, SERVED).body is body
    rejected = decide(_with_parts(part, allowed + 1), contract, SERVED)
    assert (rejected.error.code, rejected.error.param) == (f"too_many_{modality}s", "messages")
    assert (rejected.rule, rejected.violations) == (f"limits.max_{modality}s", ("messages",))
    assert f"carry {allowed + 1} {modality}s" in rejected.error.message
    assert f"at most {allowed} are allowed" in rejected.error.message


def test_parts_are_not_counted_without_a_limit():
    """A contract that says nothing about parts takes any number of any kind."""
    assert isinstance(decide(_with_parts(IMAGE, 1000), Contract(), SERVED), Forward)


def test_content_nested_as_deep_as_json_may_be_is_looked_through():
    """Parts inside of hundreds of nested results are found without recursion."""
    part = IMAGE
    for _ in range(400):
        part = {"type": "tool_result", "content": [part]}
    assert counts_of([{"role": "tool", "content": [part]}]) == {"image": 1}


def test_all_rules_of_parts_look_through_the_messages_once(monkeypatch):
    """However many limits and checks there are, one walk serves them all; none is made where every content is text."""
    walks = []
    monkeypatch.setattr(evaluation, "content_parts_of", lambda messages: walks.append(1) or content_parts_of(messages))
    contract = Contract(
        limits=Limits(max_images=1, max_videos=0, max_audios=0, max_files=0),
        checks={
            "content_parts": named_checks.ContentParts(allowed=("text", "image_url")),
            "images": named_checks.Images(sources=("data",)),
        },
    )
    assert isinstance(decide(_with_parts(IMAGE, 1), contract, SERVED), Forward)
    assert walks == [1]
    assert isinstance(decide(request_with('"messages":[{"role":"user","content":"hi"}]'), contract, SERVED), Forward)
    assert walks == [1]
