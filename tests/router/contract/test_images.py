"""Image parts counted over the whole conversation."""

import json

import pytest

from router.contract.decision import Forward, ServedIds, decide
from router.contract.images import count_images
from router.contract.model import Contract
from router.contract.sections import Limits
from tests.router.contract.tables import request_with, rows

SERVED = ServedIds(("served",))
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def _with_images(count):
    return request_with(f'"messages":{json.dumps([{"role": "user", "content": [IMAGE] * count}])}')


@pytest.mark.parametrize(("images", "messages"), rows("images.txt"))
def test_the_image_table(images, messages):
    """Messages carry as many images as the table says."""
    assert count_images(json.loads(messages)) == int(images)


@pytest.mark.parametrize("allowed", [0, 1, 20])
def test_images_up_to_the_limit_pass_and_one_more_is_refused(allowed):
    """At the limit the request's own bytes are forwarded; above it the 400 says found and allowed."""
    contract = Contract(limits=Limits(max_images=allowed))
    body = _with_images(allowed)
    assert decide(body, contract, SERVED).body is body
    refused = decide(_with_images(allowed + 1), contract, SERVED)
    assert (refused.error.code, refused.error.param) == ("too_many_images", "messages")
    assert f"carry {allowed + 1} images" in refused.error.message
    assert f"at most {allowed} are allowed" in refused.error.message
    assert refused.violations == ("messages",)


def test_images_are_not_counted_without_a_limit():
    """A contract that says nothing about images takes any number."""
    assert isinstance(decide(_with_images(1000), Contract(), SERVED), Forward)


def test_content_nested_as_deep_as_json_may_be_is_counted():
    """Images inside of hundreds of nested results are found without recursion."""
    part = IMAGE
    for _ in range(400):
        part = {"type": "tool_result", "content": [part]}
    assert count_images([{"role": "tool", "content": [part]}]) == 1
