"""A kind of rule that somebody adds is known wherever kinds are told apart."""

import typing

import pytest

from compiler.docs.enforced import WORDS
from compiler.explain.steps import STEPS
from compiler.verify.generation import VARIANTS
from router.contract.rules.plan import EVALUATORS
from router.contract.schema.rule_list import BodyLimit, Rule, RuleKind

KINDS = set(typing.get_args(Rule))


def test_every_kind_is_one_of_the_rules():
    """No kind of rule is left out of the union that contracts are read as."""
    assert set(RuleKind.__subclasses__()) == KINDS


@pytest.mark.parametrize(
    ("table", "kinds"),
    [(EVALUATORS, KINDS - {BodyLimit}), (STEPS, KINDS), (WORDS, KINDS), (VARIANTS, KINDS)],
    ids=["evaluators", "steps of explain", "words of the reference", "variants of verify"],
)
def test_every_kind_has_its_place(table, kinds):
    """Each table has every kind; the size of a body alone is decided before rules are evaluated."""
    assert set(table) == kinds
