import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.artifact.from_profile import contract_of, merged_values
from compiler.artifact.to_profile import difference_from, profile_of
from compiler.pipeline import compile_profile
from compiler.resolve.extends import merge
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection
from compiler.source.tree import Mapping, plain
from compiler.source.yaml_reader import read_yaml
from compiler.source.yaml_writer import yaml_of
from router.artifact.format import digest_of, freeze
from tests.compiler.profiles import trees
from tests.compiler.wholes import contracts


def read_back(data):
    tree = read_yaml(data, "printed.yaml")
    return plain(merge(Mapping((), tree.at), tree))


@settings(max_examples=300)
@given(contracts)
def test_a_contract_comes_back_from_its_profile(contract):
    """What a contract prints as is frozen to the same contract again, its cases complete."""
    profile = read_back(yaml_of(profile_of(freeze("any", contract, ()))))
    assert contract_of(profile) == contract
    assert digest_of(contract_of(profile)) == digest_of(contract)


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_comes_back_from_its_artifact(preset, tmp_path):
    """The artifact of each preset prints as a profile that compiles to the same contract."""
    first = compile_profile(Selection("preset", preset, "SOURCE"))
    (tmp_path / "again.yaml").write_bytes(yaml_of(profile_of(first.artifact)))
    again = compile_profile(Selection("file", str(tmp_path / "again.yaml"), "SOURCE"))
    assert (again.artifact.name, again.artifact.digest) == (first.artifact.name, first.artifact.digest)


def without_nulls(values):
    return merged_values({}, values)


@given(st.tuples(trees, trees).map(lambda pair: tuple(map(without_nulls, pair))))
def test_what_differs_laid_over_the_base_gives_the_whole(pair):
    """What a case says in addition to its base, laid over it, is the case; of equal ones nothing is said."""
    base, whole = pair
    assert merged_values(base, difference_from(base, whole)) == whole
    assert difference_from(whole, whole) == {}
