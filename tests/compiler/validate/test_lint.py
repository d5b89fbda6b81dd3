import json
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from compiler.diagnostics import render
from compiler.pipeline import compile_profile
from compiler.resolve.extends import merge
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection
from compiler.source.tree import plain
from compiler.source.yaml_reader import read_yaml
from compiler.validate.lint import warnings_of_chain, warnings_of_size
from router.artifact.format import MAX_ARTIFACT_BYTES
from tests.compiler.chains import NOTHING, chain_of
from tests.compiler.profiles import trees


def codes(*trees):
    """Return the codes of the warnings about a chain of bare values, the root first."""
    return [warning.code for warning in warnings_of_chain(chain_of(*reversed(trees)))]


def folded(*trees):
    return plain(reduce(merge, (read_yaml(json.dumps(values).encode(), "p.yaml") for values in trees), NOTHING))


def leaves(values, path=()):
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def without_leaf(values, path):
    key, *rest = path
    if rest:
        return {**values, key: without_leaf(values[key], rest)}
    return {other: value for other, value in values.items() if other != key}


@given(trees, trees)
def test_a_warning_is_given_for_each_leaf_that_can_go(parent, child):
    """A child gets as many warnings as it has values and nulls that could be left out."""
    parent = folded(parent)
    whole = folded(parent, child)
    idle = [path for path in leaves(child) if folded(parent, without_leaf(child, path)) == whole]
    assert len(codes(parent, child)) - len(codes(parent)) == len(idle)


@given(st.lists(trees, min_size=1, max_size=4))
def test_the_merged_result_gives_no_warning(chain):
    """A profile that is printed, and so without parents, repeats nothing and deletes nothing."""
    assert codes(folded(*chain)) == []


def test_presets_give_no_warning():
    """Nobody is warned of what they cannot change."""
    for name in preset_names():
        assert compile_profile(Selection("preset", name, "SOURCE")).warnings == ()


def test_an_artifact_that_is_nearly_too_large_is_a_warning():
    """From nine tenths of what a router reads on, the size of an artifact is told."""
    below, from_there_on = int(MAX_ARTIFACT_BYTES * 0.9), int(MAX_ARTIFACT_BYTES * 0.9) + 1
    assert list(warnings_of_size(below)) == []
    assert "".join(map(render, warnings_of_size(from_there_on))) == (
        "profilec: warning: the artifact has 943719 bytes, and a router reads at most 1048576\n"
        "  hint: list fewer or shorter aliases\n"
    )
    assert len(list(warnings_of_size(MAX_ARTIFACT_BYTES))) == 1
