"""What would reject a request that was answered does not get into a draft."""

import json
from typing import Any

import pytest

from compiler.probe.experiment import BaseRequest, ExperimentResult
from compiler.probe.learner import LearnedContract
from compiler.probe.soundness import without_wrong_rejections
from compiler.verify.assertion import EndpointResponse

BASE = BaseRequest({"model": "m", "messages": [{"role": "user", "content": "Say OK."}], "max_tokens": 1}, "Say OK.")
TOOLS = [{"type": "function", "function": {"name": "a.b"}}]


def answered(changes: dict[str, Any]) -> ExperimentResult:
    return ExperimentResult(BASE.experiment("x", changes), "accepted", EndpointResponse(200, "application/json", b"{}"))


@pytest.mark.parametrize(
    ("sections", "changes", "left"),
    [
        ({"fields": {"n": {"min": 1, "max": 4}}}, {"n": 5}, {"fields": {"n": {"min": 1}}}),
        ({"fields": {"n": {"min": 1, "max": 4}}}, {"n": 3}, {"fields": {"n": {"min": 1, "max": 4}}}),
        ({"fields": {"n": {"min": 1, "max": 4}}}, {"n": 1.5}, {"fields": {"n": {"min": 1, "max": 4}}}),
        ({"fields": {"user": {"type": "string"}}}, {"user": 1}, {}),
        ({"fields": {"top_p": {"min": 0, "requires": ["n"]}}}, {"top_p": 0.5}, {"fields": {"top_p": {"min": 0}}}),
        ({"fields": {"top_p": {"min": 0, "max": 1}}}, {"top_p": "hot"}, {}),
        ({"fields": {"seed": {"reject": True}, "n": {"max": 4}}}, {"seed": 1}, {"fields": {"n": {"max": 4}}}),
        ({"fields": {"seed": {"type": "integer", "min": 3}}}, {"seed": 1}, {"fields": {"seed": {"type": "integer"}}}),
        ({"output": {"max_tokens": {"cap": 9, "default": "none"}}}, {"max_tokens": 10}, {}),
        ({"limits": {"max_images": 0}}, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, {}),
        ({"checks": {"roles": {"allowed": ["user"]}}}, {"messages": [{"role": "critic", "content": "No."}]}, {}),
        (
            {"checks": {"tools": {"name_pattern": "[a-z]+", "unique": True}}},
            {"tools": TOOLS},
            {"checks": {"tools": {"unique": True}}},
        ),
        (
            {"checks": {"tool_choice": {"allowed": ["none"], "requires_tools": ["none"]}}},
            {"tool_choice": "none"},
            {"checks": {"tool_choice": {"allowed": ["none"]}}},
        ),
        ({"checks": {"tool_choice": {"allowed": ["none"], "known": True}}}, {"tool_choice": 1}, {}),
    ],
    ids=json.dumps,
)
def test_the_part_of_a_rule_that_would_reject_an_answered_request_is_left_out(
    sections: dict[str, Any], changes: dict[str, Any], left: dict[str, Any]
) -> None:
    """Of the rule the other parts stay, outside of all cases and in one; what was left out is in a line."""
    outside = without_wrong_rejections(LearnedContract(sections, {}, (), (answered(changes),)), "m")
    assert outside.values == left
    assert bool(outside.undetermined) == (left != sections)
    case = {"when": {"fields": {"verbosity": "low"}}, **sections}
    within = without_wrong_rejections(
        LearnedContract({}, {"low": case}, (), (answered({"verbosity": "low", **changes}),)), "m"
    )
    limits = {name: section for name, section in sections.items() if name == "limits"}
    assert within.cases["low"] == {"when": case["when"], **left, **limits}
