"""Edits spliced into a body: what the contract does not touch keeps its own bytes."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.decide import Forward, ServedIds, decide
from router.contract.jsonbytes.members import find_members
from router.contract.jsonbytes.parsing import parse
from router.contract.jsonbytes.splice import apply_edits, drop_repetitions, supply, to_json
from router.contract.schema.fields import BUDGET_FIELDS, OTHER_SPELLINGS, SAMPLING_FIELDS
from router.contract.schema.model import Contract
from router.contract.schema.sections import Interval, MaxTokens, Models, Output, Sampling, plain_aliases
from tests.router.contract.jsonbytes.test_members import SPACE, written_objects

SERVED = ServedIds(("the/served one",))
ALLOWING = Contract(
    models=Models(aliases=plain_aliases("alias")),
    output=Output(MaxTokens(cap=100, default=40, on_exceed="clamp")),
    sampling=Sampling("allow", {"temperature": 0.5, "top_p": 1.0, "n": 1, "repetition_penalty": 1}),
)
REJECTING = Contract(
    models=Models(aliases=plain_aliases("alias")),
    output=Output(MaxTokens(cap=100, default=40)),
    sampling=Sampling("reject", {"temperature": Interval(0, 1), "top_p": 0.95, "n": Interval(1, 3)}),
)
GOVERNED = ["temperature", "top_p", "n", "n_cmpl", "best_of", "repeat_penalty", "repetition_penalty"]
AWKWARD = (
    '"seed":9007199254740993,"x":1e2,"y":-0,"z":1.10,"big":123456789012345678901234567890,'
    '"esc":"\\u0061\\/\\n\\ud83d\\ude00","b":[ 1 ,{ "model":"alias" } ] ,"a":{}'
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"model":"alias",%s}', '{"model":"the/served one",%s,"temperature":0.5}'),
        ('{%s,"model": "alias" }', '{%s,"model": "the/served one" ,"temperature":0.5}'),
        (' {\n "model" : "alias" ,%s\n}\n ', ' {\n "model" : "the/served one" ,%s\n,"temperature":0.5}\n '),
        ('{"mod\\u0065l":"ali\\u0061s",%s}', '{"mod\\u0065l":"the/served one",%s,"temperature":0.5}'),
        ('{"temperature":null,%s,"model":"alias"}', '{"temperature":0.5,%s,"model":"the/served one"}'),
        ('{"temperature":9 , %s,"temperature":1,"model":"alias"}', '{%s,"temperature":1,"model":"the/served one"}'),
    ],
)
def test_all_bytes_that_the_contract_does_not_touch_stay(before, after):
    """Big integers, exponents, minus zero, escapes, spacing and key order leave as they came."""
    contract = Contract(models=ALLOWING.models, sampling=Sampling("allow", {"temperature": 0.5}))
    assert decide((before % AWKWARD).encode(), contract, SERVED).body == (after % AWKWARD).encode()


def test_nothing_to_edit_gives_the_same_object():
    """Without edits the client's own bytes object is forwarded."""
    body = b'{"a":1}'
    assert apply_edits(parse(body), []) is body


@pytest.mark.parametrize(
    ("body", "edited"),
    [
        (b'{"a":null}', b'{"a":7}'),
        (b'{"a":null,"a":null}', b'{"a":null,"a":7}'),
        (b"{}", None),
        (b'{"b":1}', b'{"b":1,"a":7}'),
        (b'{"b":"}"} \n', b'{"b":"}","a":7} \n'),
    ],
)
def test_a_value_is_supplied_in_place_of_null_or_at_the_end(body, edited):
    """A missing value replaces the last null or is added as the last member."""
    if edited is not None:
        request = parse(body)
        assert apply_edits(request, [supply(request, "rule", "a", b"7")]) == edited


@given(written_objects())
def test_of_repetitions_only_the_last_stays(written_object):
    """Without repetitions all last values and all other members keep their bytes and their order."""
    body, written = written_object
    request = parse(body)
    edited = apply_edits(request, [edit for key in request.members for edit in drop_repetitions(request, "rule", key)])
    last = {key: (place, value) for place, (key, value) in enumerate(written)}
    kept = [(key, value) for place, (key, value) in enumerate(written) if last[key] == (place, value)]
    assert [(member.key, member.raw(edited)) for member in find_members(edited)] == kept
    assert orjson.loads(edited) == request.fields


NUMBERS = st.sampled_from(
    ["0", "1", "1.0", "0.95", "0.5", "2", "50", "101", "5000", "1e1", "-1", "true", '"1"', "null"]
)
MEMBERS = st.tuples(
    st.sampled_from([*GOVERNED, *GOVERNED, *BUDGET_FIELDS, "n_predict", "min_tokens", "seed", "x"]), NUMBERS
) | st.tuples(st.sampled_from(["messages", "x", "metadata"]), st.sampled_from(['[{"a":"}"}]', '"\\"}"', "[]", "{}"]))


@st.composite
def requests(draw):
    """Return a request with governed fields in many spellings, repeated and odd ones included."""
    members = [("model", draw(st.sampled_from(['"alias"', '"the/served one"'])))]
    members += draw(st.lists(MEMBERS, max_size=8))
    written = []
    for key, value in draw(st.permutations(members)):
        name = json.dumps(key) if draw(st.booleans()) else f'"\\u{ord(key[0]):04x}{key[1:]}"'
        written.append(f"{draw(SPACE)}{name}{draw(SPACE)}:{draw(SPACE)}{value}{draw(SPACE)}")
    return ("{" + ",".join(written) + "}").encode()


@given(requests(), st.sampled_from([ALLOWING, REJECTING]))
def test_what_leaves_is_what_came_but_for_the_governed_fields(body, contract):
    """What is forwarded reads as the request with its edits does: governed fields once, all others as written."""
    decision = decide(body, contract, SERVED)
    if not isinstance(decision, Forward):
        return
    came = orjson.loads(body)
    left = orjson.loads(decision.body)
    touchable = {"model", "min_tokens", *SAMPLING_FIELDS, *BUDGET_FIELDS, *OTHER_SPELLINGS}
    found = find_members(decision.body)
    keys = [member.key for member in found]
    governed = {rule.field for rule in contract.sampling_rules}
    governed |= {other for other, field in OTHER_SPELLINGS.items() if field in governed}
    governed |= {"model", *BUDGET_FIELDS, "n_predict"}
    assert [key for key in governed if keys.count(key) > 1] == []
    assert (decision.body is body) == (decision.body == body) == (not decision.edits)
    assert left["model"] == "the/served one"
    assert decision.respond_as == ("alias" if came["model"] == "alias" else None)
    untouched = [(member.key, member.raw(body)) for member in find_members(body) if member.key not in touchable]
    assert [(member.key, member.raw(decision.body)) for member in found if member.key not in touchable] == untouched
    for edit in decision.edits:
        came[edit.field] = came[edit.field] if edit.kind == "remove" else json.loads(edit.value)
    assert left == came
    budgets = [left[field] for field in (*BUDGET_FIELDS, "n_predict") if left.get(field) is not None]
    assert any(left.get(field) is not None for field in BUDGET_FIELDS)
    assert all(0 < budget <= 100 for budget in budgets)


@pytest.mark.parametrize(
    ("value", "written"),
    [(1, b"1"), (1.0, b"1.0"), (0.1, b"0.1"), (10**30, b"1" + b"0" * 30), ('é"\n', '"é\\"\\n"'.encode())],
)
def test_values_are_written_in_their_shortest_form(value, written):
    """Numbers and strings become JSON without detours."""
    assert to_json(value) == written


def test_what_json_has_no_number_for_is_never_written():
    """NaN and infinity do not become JSON."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(float("nan"))
