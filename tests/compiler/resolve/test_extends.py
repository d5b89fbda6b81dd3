import json
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.diagnostics import Document, Location, ProfileError, render
from compiler.resolve.extends import load_chain, merge, merge_chain
from compiler.resolve.selection import Selection
from compiler.source.tree import Mapping, plain
from compiler.source.yaml_reader import read_yaml
from tests.compiler.chains import chain_of
from tests.compiler.profiles import trees

EMPTY = Mapping((), Location(Document("", ""), 1, 1, 1, 1))


def tree(values):
    return read_yaml(json.dumps(values).encode(), "profile.yaml")


def folded(*chain):
    """Fold bare values, the root first."""
    return plain(reduce(merge, map(tree, chain), EMPTY))


def without_nulls(values):
    if not isinstance(values, dict):
        return values
    return {key: without_nulls(value) for key, value in values.items() if value is not None}


def load(path):
    return load_chain(Selection("file", str(path), "SOURCE"))


@given(trees)
def test_merging_onto_nothing_only_takes_nulls_away(values):
    """A profile without a parent means itself, with its nulls gone at every depth."""
    assert folded(values) == without_nulls(values)


@given(trees)
def test_an_empty_child_changes_nothing(values):
    """A profile that only extends means what its parent means."""
    assert folded(values, {}) == folded(values)


@given(trees)
def test_saying_the_same_again_changes_nothing(values):
    """A child that repeats its parent, nulls left out, means what its parent means."""
    assert folded(values, folded(values)) == folded(values)


@given(st.lists(trees, min_size=1, max_size=4), st.integers(1, 4))
def test_any_prefix_of_a_chain_can_be_replaced_by_its_result(chain, length):
    """Printing part of a chain from its root and going on from there gives what the whole chain gives."""
    assert folded(folded(*chain[:length]), *chain[length:]) == folded(*chain)


@given(trees, st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_a_null_deletes_at_every_depth(values, path):
    """After a null at a path nothing stands there, and everything beside it is as it was."""
    deletion = reduce(lambda inner, key: {key: inner}, reversed(path), None)
    result = folded(values, deletion)
    expected = here = folded(values)
    for key in path[:-1]:
        if not isinstance(here.get(key), dict):
            here[key] = {}
        here = here[key]
    here.pop(path[-1], None)
    assert result == expected


@given(trees, trees, st.randoms(use_true_random=False))
def test_key_order_never_matters(parent, child, random):
    """Mappings merge to the same values in whatever order their keys are written."""

    def shuffled(values):
        if not isinstance(values, dict):
            return values
        keys = list(values)
        random.shuffle(keys)
        return {key: shuffled(values[key]) for key in keys}

    assert folded(shuffled(parent), shuffled(child)) == folded(parent, child)


def test_a_deletion_is_remembered_until_the_key_is_set_again():
    """The merged tree knows which null deleted a key, and forgets it once a later profile sets the key."""
    deleted = reduce(merge, [tree({"a": 1}), tree({"a": None})], EMPTY)
    assert deleted.deletion_of("a") is not None
    assert merge(deleted, tree({"a": 2})).deletion_of("a") is None


def test_what_was_replaced_is_remembered():
    """A value knows the inherited one that it took the place of, and a deletion knows what it deleted."""
    merged = reduce(merge, [tree({"a": 1, "b": {"c": 1}}), tree({"a": 2, "b": {"c": None}})], EMPTY)
    assert plain(merged.get("a").replaced.value) == 1
    assert merged.get("b").replaced is None
    assert plain(merged.get("b").value.deletion_of("c").replaced.value) == 1


def test_the_first_null_is_the_one_that_deletes():
    """A null of what is deleted already does not take the place of the null that deleted it."""
    first = reduce(merge, [tree({"a": 1}), tree({"a": None})], EMPTY)
    assert merge(first, tree({"a": None})).deletion_of("a") is first.deletion_of("a")


def test_a_chain_of_any_length_is_read(tmp_path):
    """A thousand profiles may stand in one chain; the nearest wins."""
    for number in range(1000):
        parent = f"extends: ./{number + 1}.yaml\n" if number < 999 else ""
        (tmp_path / f"{number}.yaml").write_text(f"{parent}name: n{number}\n")
    chain = load(tmp_path / "0.yaml")
    assert len(chain) == 1000
    assert plain(merge_chain(chain)) == {"name": "n0"}


def test_a_path_is_relative_to_the_file_that_it_stands_in(tmp_path, monkeypatch):
    """Where the compiler is run from does not matter for what a file extends."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "child.yaml").write_text("extends: b/parent.yaml\n")
    (tmp_path / "a" / "b" / "parent.yaml").write_text("extends: ../../root.yaml\n")
    (tmp_path / "root.yaml").write_text("name: root\n")
    monkeypatch.chdir("/")
    assert [layer.name for layer in load(tmp_path / "a" / "child.yaml")] == [
        "child.yaml",
        "b/parent.yaml",
        "../../root.yaml",
    ]


def test_an_absolute_parent_is_named_by_its_last_part(tmp_path):
    """No absolute path goes into the chain's names, and so none into an artifact."""
    (tmp_path / "parent.yaml").write_text("name: parent\n")
    (tmp_path / "child.yaml").write_text(f"extends: {tmp_path}/parent.yaml\n")
    assert [layer.name for layer in load(tmp_path / "child.yaml")] == ["child.yaml", "parent.yaml"]


def test_a_cycle_through_a_link_is_found(tmp_path):
    """Two names of one file are one profile: extending oneself through a symbolic link is a cycle."""
    (tmp_path / "a.yaml").write_text("extends: ./b.yaml\n")
    (tmp_path / "b.yaml").symlink_to("a.yaml")
    with pytest.raises(ProfileError, match="extends itself"):
        load(tmp_path / "a.yaml")


def test_the_same_parent_below_two_children_is_no_cycle(tmp_path):
    """Two profiles may share a parent."""
    (tmp_path / "root.yaml").write_text("name: root\n")
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text("extends: ./root.yaml\n")
        assert plain(merge_chain(load(tmp_path / f"{name}.yaml"))) == {"name": "root"}


def test_a_file_whose_name_cannot_stand_in_an_artifact_is_refused(tmp_path):
    """A file name of bytes that are no text, or of control characters, is refused before anything is read."""
    with pytest.raises(ProfileError) as caught:
        load("a\udcff.yaml")
    assert render(*caught.value.diagnostics) == (
        'profilec: error: the file name "a\\udcff.yaml" has characters that an artifact cannot hold\n'
        "  hint: rename the file\n"
    )


def test_cases_of_a_child_come_before_those_it_inherits():
    """New cases come first, in the child's order; one that both have stays in its place."""
    parent, child = tree({"cases": {"a": {}, "b": {}}}), tree({"cases": {"d": {}, "b": {"x": 1}, "c": {}}})
    assert list(plain(merge(parent, child))["cases"]) == ["d", "c", "a", "b"]
    grandchild = tree({"cases": {"a": None, "e": {}}})
    assert list(plain(merge(merge(parent, child), grandchild))["cases"]) == ["e", "d", "c", "b"]


def test_a_null_in_a_case_stays_where_it_deletes_what_holds_for_all():
    """A null in a case is kept for the base that it is laid over; one that deletes nothing there is dropped."""
    values = {"limits": {"max_images": 1}, "cases": {"a": {"limits": {"max_images": None}, "order": None}}}
    assert plain(merge_chain(chain_of(values)))["cases"] == {"a": {"limits": {"max_images": None}}}
    child = {"cases": {"a": {"limits": {"max_images": 2}}}}
    assert plain(merge_chain(chain_of(child, values)))["cases"] == {"a": {"limits": {"max_images": 2}}}
    assert plain(merge_chain(chain_of({"limits": None}, values)))["cases"] == {"a": {"limits": {}}}
