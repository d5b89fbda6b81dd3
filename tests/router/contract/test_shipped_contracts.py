"""Every shipped contract against requests that nobody would send: refused in words or forwarded, never a failure."""

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.artifact.format import load
from router.artifact.release import shipped_folder
from router.contract.decide import Rejection, ServedIds, decide
from router.contract.errors import build_error_response
from router.contract.jsonbytes.members import find_members
from router.contract.schema.conditions import path_of
from router.contract.schema.rule_list import FieldRule
from tests.exhaustive import PRESETS, exhaustive_but

PATHS = [path for path in sorted(shipped_folder("build").glob("*.json")) if "schema" not in path.stem]
CONTRACTS = {path.stem: load(path.read_bytes(), path.name).contract for path in PATHS}
SCALARS = [
    None,
    True,
    False,
    0,
    1,
    2,
    0.6,
    1.5,
    -1,
    10**9,
    "",
    "1",
    "nan",
    "auto",
    "none",
    "enabled",
    "disabled",
    "high",
]
WORDS = ["system", "user", "assistant", "tool", "function", "json_object", "data:,x", "http://x"]
ODD = st.sampled_from([*SCALARS, *WORDS, [], [[]], {}, {"type": {}}])
NAMED = st.sampled_from(
    ["role", "content", "type", "tool_calls", "tool_call_id", "id", "function", "name", "image_url"]
)
VALUES = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMED, inner, max_size=4),
    max_leaves=8,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool", "developer"]) | ODD},
        optional={"content": VALUES, "tool_calls": VALUES, "tool_call_id": VALUES, "tools": VALUES},
    ),
    max_size=4,
)


def fields_of(contract):
    """Return the paths that a contract governs or reads, and those that checks look at."""
    rules = [*contract.rules, *(rule for rules in contract.case_rules.values() for rule in rules)]
    paths = {path for rule in rules if isinstance(rule, FieldRule) for path in (rule.path, *rule.field.sources)}
    return sorted(paths | contract.read_by_conditions | {"tools", "tool_choice", "response_format", "max_tokens", "n"})


@st.composite
def requests(draw, contract):
    """Return a request that sends some of a contract's fields, a few of them twice."""
    names = draw(st.sampled_from([*contract.models.aliases, "served"]))
    members = [("model", names), ("messages", draw(MESSAGES | VALUES)), ("stream", draw(st.booleans()))]
    for path in draw(st.lists(st.sampled_from(fields_of(contract)), max_size=5)):
        steps, value = path_of(path), draw(VALUES)
        for step in reversed(steps[1:]):
            value = {step: value}
        members.append((steps[0], value))
    written = [f"{json.dumps(key)}:{json.dumps(value)}" for key, value in members if key != "stream" or value]
    return ("{" + ",".join(written) + "}").encode()


@pytest.mark.parametrize("name", exhaustive_but(PRESETS, CONTRACTS))
@settings(max_examples=60)
@given(st.data())
def test_no_request_breaks_a_shipped_contract(name, data):
    """A refusal is JSON and a client's fault; in what leaves no governed field of the top stands twice."""
    contract = CONTRACTS[name]
    body = data.draw(requests(contract))
    decision = decide(body, contract, ServedIds(("served",)))
    if isinstance(decision, Rejection):
        told = build_error_response(decision.error, decision.errors, "id")
        assert 400 <= told.status < 500
        assert orjson.loads(told.body)
        return
    keys = [member.key for member in find_members(decision.body)]
    rules = (
        contract.rules
        if decision.case_selection.case is None
        else contract.case_rules[decision.case_selection.case.name]
    )
    governed = {path_of(rule.path)[0] for rule in rules if isinstance(rule, FieldRule)}
    assert [key for key in governed if keys.count(key) > 1] == []
    assert orjson.loads(decision.body)["model"] == decision.model_served
