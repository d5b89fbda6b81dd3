from hypothesis import given
from hypothesis import strategies as st

from compiler.artifact.from_profile import merged_values
from compiler.source.tree import plain
from compiler.validate.case_trees import SECTIONS, cases_of, merged_case
from tests.compiler.chains import NOTHING, layer_of_values
from tests.compiler.profiles import trees

KEYS = dict(zip("abc", sorted(SECTIONS), strict=False))


def renamed(tree):
    """Return a small tree whose first keys are those of sections."""
    return {KEYS[key]: value for key, value in tree.items()}


def without_nulls(tree):
    return merged_values({}, tree)


@given(trees.map(renamed).map(without_nulls), trees.map(renamed))
def test_a_case_is_laid_over_as_a_child_is_over_its_parent(base, case):
    """Trees, whose places errors name, and bare values, which are frozen, are laid over each other alike."""
    profile = layer_of_values({**base, "cases": {"x": {"when": {"model": "a"}, **case}}}).tree
    ((entry, own),) = cases_of(profile)
    assert entry.key == "x"
    assert plain(merged_case(profile, own)) == merged_values(base, case)


@given(st.sampled_from([{}, {"cases": 3}, {"cases": []}, {"cases": {"x": 3, "y": None}}]))
def test_what_is_no_case_is_none(values):
    """Where no mapping stands there is no case, and no error here: that is told by the schema."""
    assert list(cases_of(layer_of_values(values).tree)) == []


def test_a_case_takes_nothing_that_only_a_profile_says():
    """Names of models and modes hold for all requests, and are no part of what a case is laid over."""
    profile = layer_of_values({"name": "x", "mode": {"default": "a"}, "limits": {"max_images": 1}}).tree
    assert plain(merged_case(profile, NOTHING)) == {"limits": {"max_images": 1}}
