import re
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.cli.commands import profile_yaml
from compiler.pipeline import compile_chain
from compiler.source.tree import node_at
from tests.compiler.chains import chain_of, chains, children, layer_of

FLAGS = [(origin, defaults) for origin in (False, True) for defaults in (False, True)]


@settings(max_examples=20)
@given(chains)
def test_printing_and_compiling_again_is_the_identity(chain):
    """What a chain prints as, whatever the flags, compiles to the same contract and name, and prints as that again."""
    first = compile_chain(chain)
    for origin, defaults in FLAGS:
        again = compile_chain((layer_of(profile_yaml(first, origin=origin, defaults=defaults), "printed.yaml"),))
        assert (again.artifact.name, again.artifact.digest) == (first.artifact.name, first.artifact.digest)
        assert profile_yaml(again, origin=False, defaults=defaults) == profile_yaml(
            first, origin=False, defaults=defaults
        )
        assert not defaults or b"  # default" not in profile_yaml(again, origin=True, defaults=True)


@settings(max_examples=20)
@given(chains)
def test_comments_are_all_that_origins_add(chain):
    """Behind each scalar and each list stands a place or the word default; without comments nothing has changed."""
    compiled = compile_chain(chain)
    bare = profile_yaml(compiled, origin=False, defaults=True).decode().splitlines()
    commented = profile_yaml(compiled, origin=True, defaults=True).decode().splitlines()
    told = [line for line in commented if not line.lstrip().startswith("# ")]
    item = None
    for line, without in zip(told, bare, strict=True):
        indent = len(line) - len(line.lstrip())
        # A list is told as a whole, with the mappings in it.
        if item is None or indent <= item:
            item = indent if line.lstrip().startswith("- ") else None
        is_whole = item is None and not line.endswith(":")
        assert not is_whole or re.fullmatch(r"  # (default.*|.+:\d+.*)", line[len(without) :])
        assert line.startswith(without)


def test_the_file_the_line_and_the_hops_are_named():
    """A value says which line of which file set it, through which others, and what stood there before."""
    chain = chain_of({}, {"name": "b"}, {"name": "a"}, names=("x.yaml", "y.yaml", "z.yaml"))
    assert profile_yaml(compile_chain(chain), origin=True, defaults=False) == (
        b"name: b  # y.yaml:2 via x.yaml:1, replaces a at z.yaml:2\n"
    )


@settings(max_examples=20)
@given(chains, st.integers(1, 4), st.sampled_from(FLAGS))
def test_the_root_of_a_chain_can_be_replaced_by_what_it_prints_as(chain, length, flags):
    """A chain that goes on from the printed result of its last profiles has the contract of the whole chain."""
    origin, defaults = flags
    children, (parent, *ancestors) = chain[:-length], chain[-length:]
    # A case with a cap and no default takes the base's; spelled out, it is its own, whatever a child sets later.
    assume(not (defaults and any(node_at(child.tree, ("output", "max_tokens", "default")) for child in children)))
    compiled = compile_chain((replace(parent, name="parent.yaml"), *ancestors))
    result = layer_of(profile_yaml(compiled, origin=origin, defaults=defaults), "printed.yaml")
    assert compile_chain((*children, result)).artifact.contract == compile_chain(chain).artifact.contract


@settings(max_examples=20)
@given(st.lists(children, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_key_order_never_matters(trees, random):
    """Profiles whose keys are in another order mean the same, but for cases and for members of an error's body."""

    def shuffled(values):
        if not isinstance(values, dict):
            return values
        return {
            key: value if key in {"body", "cases"} else shuffled(value)
            for key, value in random.sample(list(values.items()), len(values))
        }

    one, other = compile_chain(chain_of(*trees)), compile_chain(chain_of(*map(shuffled, trees)))
    assert (one.artifact.name, one.artifact.digest) == (other.artifact.name, other.artifact.digest)


def test_a_case_with_a_cap_keeps_its_own_default():
    """Spelled-out defaults change no case: its cap stays its default, also where the base spells out a default now."""
    profile = b"output: {max_tokens: {cap: 100}}\ncases: {a: {when: {model: m}, output: {max_tokens: {cap: 50}}}}\n"
    first = compile_chain((layer_of(profile, "profile.yaml"),))
    again = compile_chain((layer_of(profile_yaml(first, origin=False, defaults=True), "profile.yaml"),))
    assert again.artifact.contract == first.artifact.contract
