"""The named checks: what passes, what is refused and in which part, and that no request breaks or slows them."""

import json
import time

import pytest

from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.schema import named_checks as named
from router.contract.schema.model import Contract
from router.contract.schema.named_checks import CHECK_TYPES, CHECKS
from tests.batches import batched
from tests.router.contract.evaluated import cases, check

SERVED = ServedIds(("served",))
EVERY_CHECK = Contract(
    checks={
        "roles": named.Roles(allowed=("system", "user", "assistant", "tool")),
        "system_messages": named.SystemMessages(max=1),
        "first_role": named.FirstRole(allowed=("system", "user")),
        "last_role": named.LastRole(allowed=("user", "tool")),
        "required_role": named.RequiredRole(any_of=("user",)),
        "alternation": named.Alternation(),
        "string_content": named.StringContent(roles=("tool",)),
        "content_parts": named.ContentParts(allowed=("text", "image_url"), by_role={"tool": ("text",)}),
        "tool_results": named.ToolResults(known_call=True),
        "tool_calls_answered": named.ToolCallsAnswered(),
        "reasoning_passed_back": named.ReasoningPassedBack(),
        "tools": named.Tools(types=("function",), name_pattern="[a-z0-9]+", forbidden_names=("search",), unique=True),
        "message_tools": named.MessageTools(roles=("system",), empty_content=True, name_pattern="[a-z]+", unique=True),
        "tool_choice": named.ToolChoice(
            allowed=("auto", "named"), requires_tools=("named",), known=True, drop_without_tools=True
        ),
        "response_format": named.ResponseFormat(types=("text", "json_schema"), named_schema=True),
        "images": named.Images(
            sources=("data",), max_bytes=9, max_url_bytes=99, max_data_urls=1, max_total_bytes=9, wrap_bare_url=True
        ),
        "prompt_contains": named.PromptContains(word="json", when={"x": ()}),
    }
)
ALONE = {name: Contract(checks={name: made}) for name, made in EVERY_CHECK.checks.items()}


@batched("case", cases("checks"))
def test_the_case_holds(case):
    """A request that passes the check leaves untouched, another is refused with the part that it fails."""
    check(case)


def test_every_check_is_tried_here():
    """The contract with every check has every check that there is."""
    assert list(ALONE) == list(CHECKS) == list(CHECK_TYPES)


ODD = ["null", "true", "0", '""', '"x"', "[]", "{}", "[[]]", "[null]", "[{}]", '[{"a":[]}]', '{"type":{}}', '["user"]']
PLACES = [
    '"messages":%s',
    '"messages":[%s]',
    '"messages":[{"role":%s}]',
    '"messages":[{"role":"user","content":%s}]',
    '"messages":[{"role":"user","content":[%s]}]',
    '"messages":[{"role":"user","content":[{"type":%s,"image_url":%s}]}]',
    '"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":%s}}]}]',
    '"messages":[{"role":"assistant","tool_calls":%s}]',
    '"messages":[{"role":"assistant","tool_calls":[%s],"reasoning_content":%s}]',
    '"messages":[{"role":"assistant","tool_calls":[{"id":%s}],"reasoning_content":""}]',
    '"messages":[{"role":"assistant","tool_calls":[{"id":"x"}]},{"role":"tool","tool_call_id":%s}]',
    '"messages":[{"role":"system","tools":%s}]',
    '"messages":[{"role":"system","tools":[{"type":"function","function":%s}]}]',
    '"tools":%s',
    '"tools":[%s]',
    '"tools":[{"type":%s}]',
    '"tools":[{"type":"function","function":%s}]',
    '"tools":[{"type":"function","function":{"name":%s}}]',
    '"tool_choice":%s',
    '"tool_choice":{"function":%s}',
    '"tool_choice":{"function":{"name":%s}}',
    '"response_format":%s',
    '"response_format":{"type":%s}',
    '"response_format":{"type":"json_schema","json_schema":%s}',
    '"response_format":{"type":"json_schema","json_schema":{"name":%s,"schema":%s,"strict":%s}}',
    '"x":%s,"messages":[{"content":%s}]',
]


@batched("name", CHECKS)
@batched("place", PLACES)
def test_no_value_breaks_a_check(name, place):
    """Whatever stands where a check looks, the request is refused with a 400 or forwarded as JSON."""
    for value in ODD:
        body = ('{"model":"served",' + place.replace("%s", value) + "}").encode()
        decision = decide(body, ALONE[name], SERVED)
        if isinstance(decision, Rejection):
            assert (decision.error.status, decision.rule) == (400, f"checks.{name}")
        else:
            assert json.loads(decision.body)["model"] == "served"


MANY = 60_000
LARGE = {
    "messages": [{"role": ["user", "assistant"][place % 2], "content": "json"} for place in range(2 * MANY + 1)],
    "calls": [
        {"role": "user", "content": "json"},
        {"role": "assistant", "reasoning_content": "", "tool_calls": [{"id": str(place)} for place in range(MANY)]},
        *({"role": "tool", "tool_call_id": str(place), "content": ""} for place in reversed(range(MANY))),
    ],
    "parts": [
        {"role": "user", "content": [{"type": "text", "text": "json"}] * MANY},
    ],
}


@pytest.mark.parametrize("large", LARGE)
def test_many_messages_take_no_long_time(large):
    """Every check together looks through tens of thousands of messages, calls and parts in seconds on any machine."""
    body = json.dumps({"model": "served", "messages": LARGE[large]}).encode()
    begun = time.process_time()
    assert isinstance(decide(body, EVERY_CHECK, SERVED), Forward)
    assert time.process_time() - begun < 10


def test_many_tools_take_no_long_time():
    """The same for tools, of which the one that is chosen is the last."""
    tools = [{"type": "function", "function": {"name": str(place)}} for place in range(MANY)]
    choice = {"type": "function", "function": {"name": str(MANY - 1)}}
    messages = [{"role": "user", "content": "x"}]
    body = json.dumps({"model": "served", "messages": messages, "tools": tools, "tool_choice": choice}).encode()
    begun = time.process_time()
    assert isinstance(decide(body, EVERY_CHECK, SERVED), Forward)
    assert time.process_time() - begun < 10


def test_nothing_is_checked_once_something_is_refused():
    """Of checks only the first that fails is counted."""
    body = b'{"model":"served","tool_choice":"x","messages":[{"role":"dev"}]}'
    decision = decide(body, EVERY_CHECK, SERVED)
    assert (decision.rule, decision.violations) == ("checks.roles", ("messages",))
