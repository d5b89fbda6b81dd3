from hypothesis import given

from compiler.differences import Difference, differences
from compiler.freezing import contract_of
from router.artifact import digest_of
from router.contract.model import Contract
from tests.compiler.profiles import profiles


def contract(**sampling_params):
    return contract_of({"sampling": {"params": sampling_params}})


@given(profiles, profiles)
def test_contracts_differ_just_when_their_digests_do(one, other):
    """No difference is told of contracts of one digest, and at least one of any two others."""
    before, after = contract_of(one), contract_of(other)
    assert differences(before, before) == ()
    assert bool(differences(before, after)) == (digest_of(before) != digest_of(after))


@given(profiles, profiles)
def test_the_way_back_is_the_same_way(one, other):
    """Compared the other way round, the same paths differ with their two values swapped."""
    before, after = contract_of(one), contract_of(other)
    there, back = differences(before, after), differences(after, before)
    assert [(each.path, each.after, each.before) for each in there] == [
        (each.path, each.before, each.after) for each in back
    ]


def test_a_band_and_a_list_are_one_value():
    """A band that takes the place of a pin is one difference, and so is a list."""
    band = {"min": 1, "max": 2}
    assert differences(contract(n=1), contract(n=band)) == (Difference(("sampling", "params", "n"), 1, band),)
    aliases = contract_of({"models": {"aliases": ["a", "b"]}})
    assert differences(Contract(), aliases) == (Difference(("models", "aliases"), [], ["a", "b"]),)


def test_a_whole_number_and_the_same_with_a_point_differ():
    """1 and 1.0 are written differently in an artifact, and so the digest differs."""
    assert differences(contract(top_p=1), contract(top_p=1.0)) == (Difference(("sampling", "params", "top_p"), 1, 1.0),)
