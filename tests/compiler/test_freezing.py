import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.freezing import contract_of
from compiler.sizes import bytes_of, size_of
from router.artifact import freeze, load, serialise
from router.contract.model import Contract
from router.contract.sections import Interval, MaxTokens
from tests.compiler.profiles import profiles


@given(profiles)
def test_every_valid_profile_freezes_to_what_a_router_reads(values):
    """The artifact of any valid profile is read by the router as the very same contract."""
    artifact = freeze("name", contract_of(values), ())
    assert load(serialise(artifact), "profile.json") == artifact


def test_an_empty_profile_is_the_contract_of_defaults():
    """Absent and empty sections alike mean the defaults."""
    empty = {"models": {}, "limits": {}, "output": {}, "sampling": {"params": {}}, "errors": {}}
    assert contract_of({}) == contract_of(empty) == Contract()


def test_the_default_budget_is_the_cap():
    """Where no default is written, the contract spells out the cap."""
    assert contract_of({"output": {"max_tokens": {"cap": 5.0}}}).output.max_tokens == MaxTokens(5, 5)


def test_numbers_are_normalised_by_their_field():
    """Whole-number fields hold integers; elsewhere an integer stays one and a float stays a float."""
    params = {"n": 2.0, "top_k": {"min": 1.0, "max": 1e3}, "temperature": 1, "top_p": 1.0}
    found = contract_of({"sampling": {"params": params}}).sampling.params
    assert repr(found) == repr({"temperature": 1, "top_p": 1.0, "top_k": Interval(1, 1000), "n": 2})


@pytest.mark.parametrize(
    ("size", "expected"),
    [("5B", 5), ("1KiB", 1024), ("100MiB", 104857600), ("2 GiB ", 2 * 2**30), ("007B", 7)]
    + [
        (wrong, None)
        for wrong in ("5", "5b", "5KB", "5 kib", " 5B", "5B\n", "-5B", "5.0B", "5\tB", "\u0665B", "KiB", "")
    ],
)
def test_sizes_are_digits_and_one_of_four_units(size, expected):
    """A size is digits and B, KiB, MiB or GiB as written, with spaces around the unit, and nothing else."""
    assert bytes_of(size) == expected


@given(st.integers(1, 2**53) | st.integers(1, 2**20).map(lambda number: number * 1024))
def test_a_size_is_written_so_that_it_means_the_same(number):
    """A number of bytes is written in the largest unit that divides it, and reads back as itself."""
    size = size_of(number)
    assert (size if isinstance(size, int) else bytes_of(size)) == number
    assert isinstance(size, int) == bool(number % 1024)
