"""The contract as values, and the rules that follow from it."""

import msgspec
import pytest

from router.contract.schema.fields import OTHER_SPELLINGS, SAMPLING_FIELDS, spellings_of, standard_name
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import BodyLimit, Budget, Const, PartLimit, Range, rules_of
from router.contract.schema.sections import Errors, Interval, Limits, MaxTokens, Models, Output, Sampling, plain_aliases


def test_the_rules_follow_from_the_sections():
    """Each section becomes its rules, sampling parameters in their own order whatever the order of their keys."""
    contract = Contract(
        limits=Limits(max_body_bytes=7, max_images=0),
        output=Output(MaxTokens(cap=9, default=5, on_exceed="clamp")),
        sampling=Sampling("allow", {"n": 1, "top_p": 0.5, "temperature": Interval(0, 1)}),
    )
    assert rules_of(contract) == (
        BodyLimit(7),
        Range("temperature", 0, 1, "sampling.params.temperature"),
        Const("top_p", 0.5, "allow", "sampling.params.top_p"),
        Const("n", 1, "allow", "sampling.params.n"),
        PartLimit("image", 0, "limits.max_images"),
        Budget(9, 5, "clamp"),
    )
    assert contract.rules == rules_of(contract)
    assert contract.sampling_rules == contract.rules[1:4]


@pytest.mark.parametrize(
    ("contract", "governs"),
    [
        (Contract(), False),
        (Contract(limits=Limits(max_body_bytes=1)), False),
        (Contract(models=Models(respond_as="served")), False),
        (Contract(sampling=Sampling("allow")), False),
        (Contract(limits=Limits(max_images=0)), True),
        (Contract(errors=Errors("")), True),
        (Contract(models=Models(plain_aliases("a"))), True),
        (Contract(output=Output(MaxTokens(1, 1))), True),
        (Contract(sampling=Sampling(params={"n": 1})), True),
    ],
)
def test_a_contract_tells_whether_it_governs_more_than_body_size(contract, governs):
    """Any rule besides the body limit counts, and so do aliases and a type for 400s."""
    assert contract.governs_beyond_body_size() is governs


def test_contracts_cannot_be_changed():
    """A contract in force is a value."""
    with pytest.raises(AttributeError):
        Contract().limits.max_images = 1


@pytest.mark.parametrize("text", ['{"limits":{"max_imagse":1}}', '{"limit":{}}', '{"limits":{"max_images":-1}}'])
def test_unknown_keys_and_impossible_values_are_refused(text):
    """Values read from JSON know their keys and their domains."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Contract)


def test_other_spellings_stand_for_standard_fields():
    """Every other spelling has one standard field, which is no other spelling itself."""
    for other, standard in OTHER_SPELLINGS.items():
        assert other in spellings_of(standard)
        assert standard_name(other) == standard == standard_name(standard)
        assert standard in {*SAMPLING_FIELDS, "max_tokens", "top_logprobs", "reasoning_effort"}
    assert spellings_of("temperature") == ()
