"""Every kind of constraint is known everywhere: a record without its test, its oracle or its words fails here."""

import json

import msgspec
import pytest

from compiler.artifact.from_profile import field_of
from compiler.artifact.to_profile import field_of as written_of
from compiler.diff.fields import compare_fields
from compiler.docs.enforced import words_of
from compiler.docs.json_schema import json_schema
from compiler.docs.matrix import KINDS
from compiler.docs.reference import fields as reference
from compiler.docs.reference import words as reference_of_words
from compiler.language.constraints import BY_KEY, CONSTRAINTS, boundary_values, keys_of_part, values_named
from compiler.language.fields import FIELD
from compiler.verify.oracle.fields import fault_of_field
from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.rules.field_tests import FIELD_TESTS
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import FieldRule
from router.contract.schema.sections import Field, ValueRule
from tests.compiler.constraint_values import VALUES, members_of

OF_VALUES = [constraint for constraint in CONSTRAINTS if constraint.of_value]
ODD = ["hot", "", 1, 0, 1.5, -2, True, [1], ["a"], [None], [], {"a": 1}, "0.3", " 1 ", 1e300, 2**53 + 1, "é" * 3, "😀"]
SERVED = ServedIds(("m",))


def name_of(value):
    return getattr(value, "key", None) or repr(value)


def decided(field, fields):
    body = {"model": "m", "messages": [], **fields}
    return decide(json.dumps(body).encode(), Contract(fields={"x": field}), SERVED)


def test_the_records_are_complete():
    """Each member of a rule has a record and values to try, each test of the router is for members with records."""
    assert VALUES.keys() == BY_KEY.keys() == FIELD.keys() - {"error", "source"}
    members = {constraint.member for constraint in CONSTRAINTS}
    assert members == {*Field.__struct_fields__} - {"error", "parts", "source"}
    assert {each.member for each in OF_VALUES} == {*ValueRule.__struct_fields__, "items"}
    tested = [member for test in FIELD_TESTS for member in test.members]
    assert sorted(tested) == sorted({each.member for each in CONSTRAINTS if each.part and each.part != "required"})
    assert {constraint.kind for constraint in CONSTRAINTS} <= KINDS.keys()
    for constraint in CONSTRAINTS:
        assert {*constraint.contradicts, *constraint.not_below} <= BY_KEY.keys()
        assert constraint.part == "" or f"`{constraint.part}`" in reference_of_words()
        assert f"| `{constraint.key}` |" in reference()
    rule = json_schema(())["properties"]["fields"]["additionalProperties"]
    assert rule["properties"].keys() == FIELD.keys()
    nested = rule["properties"]["items"]["properties"]
    assert nested.keys() == {each.key for each in OF_VALUES} - {"items"}


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=name_of)
def test_a_constraint_is_kept_on_its_way(constraint):
    """Its values go into the artifact and back, each is seen as a change, and the tables name it."""
    for value, member in zip(VALUES[constraint.key], members_of(constraint.key), strict=True):
        field = field_of({constraint.key: value})
        assert field_of(written_of(field)) == field
        assert msgspec.json.decode(msgspec.json.encode(field), type=Field) == field
        assert getattr(field, constraint.member) == member
        with_it, without = {"x": field}, {"x": Field()}
        there = list(compare_fields(without, with_it))
        assert there, value
        assert [change.at for change in there] == [change.at for change in compare_fields(with_it, without)]
        if constraint.part and VALUES[constraint.key][0] == value:
            assert any(change.tightens for change in there)
            assert any(change.loosens for change in compare_fields(with_it, without))
        words = words_of(FieldRule("x", field, "fields.x"))
        assert words != "a known field"


@pytest.mark.parametrize("constraint", [each for each in CONSTRAINTS if each.part], ids=name_of)
def test_router_and_oracle_agree_on_a_constraint(constraint):
    """For its test values and for odd ones, the router and the oracle find the same; some are rejected."""
    found = set()
    for value in VALUES[constraint.key]:
        field = field_of({constraint.key: value})
        rule = FieldRule("x", field, "fields.x")
        tried = [*ODD, *(each.value for each in boundary_values("x", field)), *values_named(field)]
        for sent in [{}, *({"x": each} for each in tried), {"x": "a", "q": 1}, {"x": 1, "q": 2}]:
            decision, fault = decided(field, sent), fault_of_field(rule, sent)
            assert (fault is None) == isinstance(decision, Forward), (value, sent)
            if isinstance(decision, Rejection):
                assert decision.error.part == fault.part, (value, sent)
                details = {key: detail for key, detail in fault.details.items() if key != "value"}
                assert details == {key: decision.error.details[key] for key in details}, (value, sent)
                found.add(fault.part)
    assert constraint.part in found
    for part in found:
        assert constraint.key in keys_of_part(part, frozenset({constraint.key}))


@pytest.mark.parametrize(
    ("step", "kept", "broken"),
    [
        (
            0.1,
            ["0.3", "0.7", "1.1", "1e2", "-0.3", "0", "-0.0", '"0.3"', "true"],
            ["0.35", "0.30000000000000004", "1e-7"],
        ),
        (0.01, ["0.07", "1.15", "4.35", "1e300"], ["0.001", "0.070000000000000007e1"]),
        (3, ["9007199254740993", "3.0", "3e0"], ["9007199254740992", "1e22", "18446744073709551617", '"nan"']),
        (1e-7, ["3e-7", "0.1", "1"], ["1.5e-7", "5e-324"]),
        (2.5, ["1e308", "7.5"], ["1", '"inf"', '"-inf"']),
    ],
)
def test_a_multiple_is_one_in_decimal(step, kept, broken):
    """Numbers are multiples as they are written: by no error of floats, of any size, as a number or as its string."""
    contract = Contract(fields={"x": Field(multiple_of=step)})
    for written in (*kept, *broken):
        decision = decide(b'{"model": "m", "messages": [], "x": %b}' % written.encode(), contract, SERVED)
        assert isinstance(decision, Forward) == (written in kept), written


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ('"abc"', 3),
        ('"\\u00e9"', 1),
        ('"e\\u0301"', 2),
        ('"\\ud83d\\ude00"', 1),
        ('"😀"', 1),
        ('"👨‍👩‍👧"', 5),
        ('"\\n"', 1),
        ('""', 0),
    ],
)
def test_a_length_counts_code_points(written, length):
    """A length is of characters: neither of bytes, nor of the halves of surrogate pairs, nor of escapes."""
    for least, most, is_kept in ((length, length, True), (length + 1, None, False), (0, length - 1, False)):
        if most == -1:
            continue
        contract = Contract(fields={"x": Field(min_length=least, max_length=most)})
        decision = decide(b'{"model": "m", "messages": [], "x": %b}' % written.encode(), contract, SERVED)
        assert isinstance(decision, Forward) == is_kept
