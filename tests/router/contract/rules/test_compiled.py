"""A contract made ready: one plan for each case, made once, and what names decide found out once."""

import pytest

from router.contract.decide import ServedIds, decide
from router.contract.rules import cases
from router.contract.rules.cases import CaseMatcher
from router.contract.rules.compiled import compiled_contract_of
from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.sections import Field, Mode, ModeMatch

CASED = Contract(
    mode=Mode("t", (ModeMatch("n", ("*-fast",)), ModeMatch("n", (), {"a.b": (False,)}))),
    cases=(
        Case("one", When(model=("x*",), mode=("n",)), Sections(fields={"f": Field(force=1)})),
        Case("two", When(mode=("n", "o")), Sections(fields={"f": Field(force=2)})),
        Case("three", When(fields={"a.b": (), "c": (1, 2)}), Sections(fields={"f": Field(force=3)})),
    ),
    fields={"f": Field(force=0)},
)


@pytest.mark.parametrize(
    ("names", "fields", "mode", "case"),
    [
        (("x", "x"), {}, "t", None),
        (("x", "x"), {"a": {"b": False}}, "n", "one"),
        (("alias", "x1"), {"a": {"b": False}}, "n", "one"),
        (("x1", "served"), {"a": {"b": False}}, "n", "one"),
        (("y", "y"), {"a": {"b": False}}, "n", "two"),
        (("y-fast", "y"), {}, "n", "two"),
        (("x-fast", "y"), {}, "n", "one"),
        (("y", "y"), {"a": {"b": True}, "c": 2.0}, "t", "three"),
        (("y", "y"), {"a": {"b": True}, "c": 3}, "t", None),
        (("y", "y"), {"a": [], "c": 1}, "t", None),
        (("X", "X"), {"a": {"b": False}}, "n", "two"),
    ],
)
def test_the_first_case_that_fits_is_found(names, fields, mode, case):
    """By the name asked for or served, by mode and by fields; glob and case of letters as written."""
    matcher = CaseMatcher(CASED)
    for _ in range(2):
        found = matcher.match(*names, fields)
        assert (found.mode, found.case and found.case.name) == (mode, case)


def test_a_request_without_names_that_are_known_is_not_remembered(monkeypatch):
    """However many names come, only so many are remembered, and all of them are answered."""
    monkeypatch.setattr(cases, "_MOST_REMEMBERED", 3)
    matcher = CaseMatcher(CASED)
    found = [matcher.match(f"x{number}", "s", {"a": {"b": False}}).case.name for number in range(10)]
    assert found == ["one"] * 10
    assert len(matcher._by_names) == 3


@pytest.mark.parametrize(
    ("members", "forced"), [("", 0), ('"a":{"b":false},', 2), ('"a":{"b":1},"c":1,', 3)], ids=["none", "two", "three"]
)
def test_every_case_has_its_own_plan(members, forced):
    """What is done with a request is what its case says, all of it and nothing of another's."""
    decision = decide(f'{{{members}"model":"y"}}'.encode(), CASED, ServedIds(("y",)))
    assert decision.body.endswith(b'"f":%d}' % forced)


def test_a_contract_is_made_ready_once():
    """The machine of a contract is the same object each time, and another contract has another."""
    assert compiled_contract_of(CASED) is compiled_contract_of(CASED)
    assert compiled_contract_of(CASED) is not compiled_contract_of(Contract())


def test_a_contract_without_modes_and_cases_looks_for_none():
    """Where nothing is conditional nothing is looked up, and no mode is told."""
    assert not compiled_contract_of(Contract()).has_conditions
    assert compiled_contract_of(CASED).has_conditions
    assert compiled_contract_of(Contract(mode=Mode("t"))).has_conditions
    assert decide(b'{"model":"y"}', Contract(mode=Mode("t")), ServedIds(("y",))).case_selection.mode == "t"


def test_equal_rules_of_cases_share_an_evaluator():
    """Only what a case says otherwise is prepared for it: 1 and 1.0 are not the same, since messages name them."""
    same, other, float_of_it = Field(max=1, source="a"), Field(max=2), Field(max=1.0, source="a")
    sections = [Sections(fields={"f": field, "g": Field(min=0)}) for field in (same, other, float_of_it)]
    cases = tuple(Case(str(place), When(mode=(str(place),)), each) for place, each in enumerate(sections))
    contract = Contract(cases=cases, fields={"f": Field(max=1, source="a"), "g": Field(min=0)})
    of_base, *of_cases = [
        [evaluate for _, evaluate in compiled_contract_of(contract).rule_set_of(case)[0]._evaluators]
        for case in (None, *contract.cases)
    ]
    assert [[one is two for one, two in zip(of_base, each, strict=True)] for each in of_cases] == [
        [True, True],
        [False, True],
        [False, True],
    ]
