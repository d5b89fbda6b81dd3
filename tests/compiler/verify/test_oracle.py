"""What verify takes a contract to mean, read apart from the router's code, is what the router does."""

import json

import pytest

from compiler.verify.oracle.forwarded_request import engine_fields
from router.contract.decide import Forward, ServedIds, decide
from router.contract.schema.model import Contract
from router.contract.schema.sections import Field, MaxTokens, Output
from tests.batches import batched
from tests.router.contract.tables import request_with, rows

SERVED = ServedIds(("served",))
CONTRACTS = {
    "budget": Contract(output=Output(MaxTokens(16, 8, "clamp"))),
    "no default": Contract(output=Output(MaxTokens(16, None, "clamp"))),
    "field": Contract(fields={"max_tokens": Field(default=8, ceiling=16, sources=("budget",))}),
    "both": Contract(
        output=Output(MaxTokens(16, 8, "clamp")),
        fields={"thinking.budget_tokens": Field(default=12), "min_tokens": Field(drop=True)},
    ),
}
BOUND = [
    sent + bound
    for sent in (
        "",
        '"max_tokens":4',
        '"max_tokens":40',
        '"n_predict":40',
        '"max_completion_tokens":null',
        '"budget":40',
    )
    for bound in (
        *(f',"{name}":{value}' for name in ("min_tokens", "min_new_tokens") for value in (3, 8, 12, 17)),
        *(f',"thinking_token_budget":{value}' for value in (-1, 8, 16, 17, '"17"', "null")),
        *(f',"thinking":{{"budget_tokens":{value}}}' for value in (3, 7, 8, 15, 16, 17, "1.5", "[]")),
        ',"min_tokens":9,"thinking":{"type":"enabled","budget_tokens":30}',
    )
]


@pytest.mark.parametrize("name", CONTRACTS)
def test_what_a_budget_bounds_is_read_alike(name):
    """For each kind of budget and each field that it bounds, verify expects what the router sends."""
    contract = CONTRACTS[name]
    for sent in BOUND:
        body = request_with(sent.removeprefix(","))
        decision = decide(body, contract, SERVED)
        assert isinstance(decision, Forward), sent
        assert engine_fields(json.loads(body), contract.rules) == json.loads(decision.body), sent


@batched(("rule", "sent", "outcome"), rows("budget.txt"))
def test_the_budget_table_is_what_verify_expects(rule, sent, outcome):
    """What verify expects an engine to get is what the table says that it gets."""
    if "3_000" in sent:
        return  # A number that only pydantic takes for one.
    on_exceed, cap, default = rule.split()
    contract = Contract(output=Output(MaxTokens(int(cap), int(default), on_exceed)))
    if outcome == "=" or outcome.startswith('"'):
        expected = json.loads(request_with(sent if outcome == "=" else outcome))
        assert engine_fields(json.loads(request_with(sent)), contract.rules) == expected
