import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from compiler.artifact.from_profile import contract_of
from compiler.artifact.to_profile import profile_of
from compiler.pipeline import compile_profile
from compiler.resolve.extends import merge
from compiler.resolve.selection import Selection
from compiler.source.tree import Mapping, plain
from compiler.source.yaml_reader import read_yaml
from compiler.source.yaml_writer import yaml_of
from compiler.validate.validation import validate
from router.artifact.format import freeze
from tests.compiler.profiles import names, profiles


def read_back(data):
    tree = read_yaml(data, "printed.yaml")
    merged = merge(Mapping((), tree.at), tree)
    validate(merged)
    return plain(merged)


@given(profiles)
def test_what_is_printed_reads_back_as_itself(values):
    """A printed profile has the same values, each of the same type, when it is read again."""
    assert repr(sorted_deeply(read_back(yaml_of(values)))) == repr(sorted_deeply(values))


def sorted_deeply(values):
    if isinstance(values, dict):
        return {key: sorted_deeply(values[key]) for key in sorted(values)}
    return [sorted_deeply(value) for value in values] if isinstance(values, list) else values


@given(st.lists(names | st.text("0123456789.eE+-_:xoinfatrueNOY~<=", min_size=1, max_size=6), unique=True, max_size=5))
def test_strings_stay_strings(aliases):
    """Whatever a string looks like, a number, a time or a truth value, it is printed so that it stays a string."""
    profile_yaml = yaml_of({"models": {"aliases": aliases}})
    assert read_back(profile_yaml) == {"models": {"aliases": aliases}}
    assert yaml.safe_load(profile_yaml) == {"models": {"aliases": aliases}}


@given(profiles, names)
def test_an_artifact_prints_as_a_profile_of_the_same_contract_and_name(values, name):
    """An artifact's profile, with every default written out, means what the artifact means."""
    artifact = freeze(name, contract_of(values), ())
    back = read_back(yaml_of(profile_of(artifact)))
    assert contract_of(back) == artifact.contract
    assert back["name"] == name


@pytest.mark.parametrize("preset", ["moonshot-kimi", "openai-compatible"])
def test_printing_and_compiling_again_changes_nothing(preset, tmp_path):
    """A printed preset compiles to the same contract under the same name, from any file."""
    first = compile_profile(Selection("preset", preset, "SOURCE"))
    (tmp_path / "other.yaml").write_bytes(yaml_of(first.values()))
    again = compile_profile(Selection("file", str(tmp_path / "other.yaml"), "SOURCE"))
    assert (again.artifact.name, again.artifact.digest) == (preset, first.artifact.digest)
    assert yaml_of(again.values()) == yaml_of(first.values())
