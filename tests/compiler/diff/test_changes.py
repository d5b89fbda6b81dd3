import itertools
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.diff.cases import compare
from compiler.diff.change import UNSEEN, Change
from compiler.diff.intervals import accepted, only_in
from router.artifact.format import digest_of
from router.contract.rules.sampling import satisfies
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.rule_list import Range
from tests.compiler.diff import traffic
from tests.compiler.diff.contracts import contracts, lone_pairs, pairs


def outcomes(before, after):
    return [(traffic.outcome(body, before), traffic.outcome(body, after)) for body in traffic.requests(before, after)]


@given(pairs() | pairs().map(lambda pair: loosened(*pair)))
def test_what_no_change_does_no_request_sees(pair):
    """Where no change tightens, no request is newly rejected or its budget lowered; the same for what loosens."""
    changes = compare(*pair)
    tightens, loosens = any(change.tightens for change in changes), any(change.loosens for change in changes)
    for before, after in outcomes(*pair):
        assert changes or before == after
        assert tightens or not traffic.worse(before, after)
        assert loosens or not traffic.worse(after, before)


def loosened(before, other):
    """Take from another contract, one after the other, the settings that are said not to tighten the first."""
    after = before
    for step in STEPS:
        candidate = step(after, other)
        if not any(change.tightens for change in compare(before, candidate)):
            after = candidate
    return before, after


def take(section, contract, other):
    return msgspec.structs.replace(contract, **{section: getattr(other, section)})


def take_parameter(field, contract, other):
    values = {**contract.sampling.params, field: other.sampling.params.get(field)}
    params = {name: value for name, value in values.items() if value is not None}
    return msgspec.structs.replace(contract, sampling=msgspec.structs.replace(contract.sampling, params=params))


def take_conflict(contract, other):
    sampling = msgspec.structs.replace(contract.sampling, conflict=other.sampling.conflict)
    return msgspec.structs.replace(contract, sampling=sampling)


STEPS = [
    *(partial(take, section) for section in ("models", "limits", "output", "errors")),
    take_conflict,
    *(partial(take_parameter, field) for field in SAMPLING_FIELDS),
]


@given(lone_pairs().filter(lambda pair: len(compare(*pair)) == 1))
@settings(max_examples=20)
def test_a_lone_change_claims_no_more_than_some_request_sees(pair):
    """A single change is said to tighten, to loosen, to be seen at all, exactly when a request around its edges is."""
    claims_what_is_seen(pair)


@pytest.mark.exhaustive
@given(lone_pairs().filter(lambda pair: len(compare(*pair)) == 1))
@settings(max_examples=300)
def test_no_lone_change_claims_more_than_some_request_sees(pair):
    """The same for many more changes."""
    claims_what_is_seen(pair)


def claims_what_is_seen(pair):
    (change,) = compare(*pair)
    seen = outcomes(*pair)
    assert change.tightens == any(traffic.worse(before, after) for before, after in seen)
    assert change.loosens == any(traffic.worse(after, before) for before, after in seen)
    by_requests = UNSEEN not in change.consequence and "GET /v1/models" not in change.consequence
    assert by_requests == any(before != after for before, after in seen)


@given(pairs() | st.tuples(contracts, contracts))
def test_changes_are_found_exactly_where_the_digests_differ(pair):
    """There is a change if and only if the two artifacts would not have the same digest."""
    before, after = pair
    assert (compare(before, after) == ()) == (digest_of(before) == digest_of(after))


@given(pairs())
def test_the_other_way_round_is_the_reverse(pair):
    """From B to A the same settings change, what was before is after, and tighter is looser."""
    there, back = compare(*pair), compare(*reversed(pair))
    assert sorted((c.path, str(c.before), str(c.after), c.tightens, c.loosens) for c in there) == sorted(
        (c.path, str(c.after), str(c.before), c.loosens, c.tightens) for c in back
    )


def test_the_numbers_told_are_those_of_one_band_and_not_the_other():
    """A number lies in one of the stretches that are told if and only if it keeps the one band and breaks the other."""
    numbers = [0, 0.25, 0.5, 0.75, 1]
    bands = [
        Range("temperature", low, high, "") for low, high in itertools.product(numbers[1:4], repeat=2) if low <= high
    ]
    for these, those, number in itertools.product(bands, bands, [*numbers, 0.375, 0.625]):
        told = only_in(accepted(these), accepted(those))
        assert any(lies_in(stretch, number) for stretch in told) == (
            satisfies(these, number) and not satisfies(those, number)
        )


def lies_in(stretch, number):
    above = stretch.low < number if stretch.low_open else stretch.low <= number
    below = number < stretch.high if stretch.high_open else number <= stretch.high
    return above and below


@pytest.mark.parametrize(
    ("tightens", "loosens", "effect"),
    [
        (True, False, "tighter"),
        (False, True, "looser"),
        (True, True, "other"),
        (False, False, "other"),
        (None, False, "other"),
        (True, None, "other"),
        (None, None, "other"),
    ],
)
def test_an_effect_is_a_direction_or_other(tightens, loosens, effect):
    """A change of one direction has its name; one of both, of none, or of one that cannot be determined, is other."""
    assert Change(("a",), 1, 2, "", tightens, loosens).effect == effect
