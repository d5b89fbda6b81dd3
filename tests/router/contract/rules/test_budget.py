"""The output-token budget held to its cap."""

import pytest

from router.contract.decide import ServedIds, decide
from router.contract.errors import ApiError
from router.contract.schema.model import Contract
from router.contract.schema.sections import MaxTokens, Output
from tests.batches import batched
from tests.router.contract.tables import request_with, rows

SERVED = ServedIds(("served",))


def _contract(rule):
    on_exceed, cap, default = rule.split()
    return Contract(output=Output(MaxTokens(int(cap), int(default), on_exceed)))


@batched(("rule", "sent", "outcome"), rows("budget.txt"))
def test_the_budget_table(rule, sent, outcome):
    """An output budget does with what a client sends what the table says."""
    body = request_with(sent)
    decision = decide(body, _contract(rule), SERVED)
    if outcome == "=":
        assert decision.body is body
    elif outcome.startswith('"'):
        assert decision.body == request_with(outcome)
    else:
        error = decision.error
        assert [error.code, error.param, error.message] == outcome.split(", ", 2)
        assert decision.violations == (error.param,)


@pytest.mark.parametrize("digits", [3, 19, 20, 100, 308])
def test_over_the_cap_is_over_the_cap_at_any_length(digits):
    """A budget of any length above the cap is refused as such under `reject` and lowered under `clamp`."""
    body = request_with(f'"max_tokens":{"9" * digits}')
    assert decide(body, _contract("reject 100 100"), SERVED).error.code == "max_tokens_exceeded"
    assert decide(body, _contract("clamp 100 100"), SERVED).body == request_with('"max_tokens":100')


def test_what_fails_first_is_reported_in_the_precedence_of_the_engines():
    """Of several budgets over the cap the one that engines read first is named."""
    decision = decide(
        request_with('"n_predict":7000,"max_tokens":8000,"max_completion_tokens":9000'), _contract("reject 9 9"), SERVED
    )
    assert isinstance(decision.error, ApiError)
    assert decision.error.param == "max_completion_tokens"


def test_nothing_is_judged_where_the_contract_says_nothing():
    """Without a budget every value passes, repeated or not."""
    body = request_with('"max_tokens":-1,"max_tokens":"x","max_completion_tokens":0,"n_predict":1.5')
    assert decide(body, Contract(), SERVED).body is body
