"""Sampling parameters judged by pins and bands."""

import msgspec
import pytest

from router.contract.decide import Forward, ServedIds, decide
from router.contract.schema.model import Contract
from router.contract.schema.sections import Sampling
from tests.batches import batched
from tests.router.contract.tables import request_with, rows

SERVED = ServedIds(("served",))


@batched(("conflict", "params", "sent", "outcome", "violated"), rows("sampling.txt"))
def test_the_sampling_table(conflict, params, sent, outcome, violated):
    """A sampling contract does with what a client sends what the table says."""
    section = msgspec.json.decode(f'{{"conflict":"{conflict}","params":{params}}}', type=Sampling)
    body = request_with(sent)
    decision = decide(body, Contract(sampling=section), SERVED)
    violations = tuple(violated.split(",")) if violated else ()
    assert decision.violations == violations
    if outcome == "=":
        assert decision.body is body
    elif outcome.startswith('"'):
        assert decision.body == request_with(outcome)
    else:
        error = decision.error
        assert (error.code, error.param, error.message) == ("sampling_contract_violation", violations[0], outcome)


@pytest.mark.parametrize("conflict", ["reject", "allow"])
@pytest.mark.parametrize(
    ("field", "domain_ends"),
    [
        ("temperature", (0, 2)),
        ("top_p", (0.01, 1)),
        ("top_k", (1, -1)),
        ("min_p", (0, 1)),
        ("repetition_penalty", (0.1, 2)),
        ("frequency_penalty", (-2, 2)),
        ("presence_penalty", (-2, 2)),
        ("n", (1, 128)),
    ],
)
def test_every_parameter_can_be_pinned_to_the_ends_of_its_domain(field, domain_ends, conflict):
    """Each parameter's pin is injected as it is and accepted when it comes back from the client."""
    for pin in domain_ends:
        contract = Contract(sampling=Sampling(conflict, {field: pin}))
        injected = decide(request_with(""), contract, SERVED).body
        assert injected == request_with(f'"{field}":{pin}')
        assert decide(injected, contract, SERVED).body is injected


def test_nothing_is_judged_where_the_contract_says_nothing():
    """Without a sampling contract every value passes, repeated or not."""
    body = request_with('"temperature":"hot","temperature":[1],"n":-5,"n_cmpl":0,"top_k":1e300')
    assert decide(body, Contract(), SERVED) == Forward(body, "served", "served", stream=False, respond_as=None)
