from fnmatch import fnmatchcase
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from compiler.validate.case_overlap import covers, covers_common, overlap
from router.contract.schema.model import When

TEXTS = ["".join(letters) for length in range(5) for letters in product("ab", repeat=length)]
globs = st.text("ab*?", min_size=1, max_size=4) | st.sampled_from(["[ab]*", "a[b]", "*[a]"])
values = st.lists(st.sampled_from([1, 1.0, 2, True, "1"]), min_size=1, max_size=2).map(tuple)
whens = st.builds(
    When,
    model=st.lists(globs, max_size=2).map(tuple),
    mode=st.lists(st.sampled_from(["m", "n"]), max_size=2, unique=True).map(tuple),
    fields=st.dictionaries(st.sampled_from("xy"), values, max_size=2),
)


def requests_of(when):
    """Return all of some small requests that a case is for."""
    return {
        (name, mode, repr(x), repr(y))
        for name, mode, x, y in product(TEXTS, "mn", [None, 1, 2, True, "1"], [None, 1, 2, True, "1"])
        if (not when.model or any(fnmatchcase(name, glob) for glob in when.model))
        and (not when.mode or mode in when.mode)
        and all(
            any(type(value) is type(wanted) or {bool, str}.isdisjoint({type(value), type(wanted)}) for wanted in each)
            and value in [wanted for wanted in each if isinstance(wanted, bool | str) == isinstance(value, bool | str)]
            for path, value in (("x", x), ("y", y))
            for each in [when.fields.get(path)]
            if each is not None
        )
    }


@given(whens, whens)
def test_what_is_said_to_be_covered_is_covered(earlier, later):
    """No request of a case that another is said to cover is one that the other is not for."""
    if covers(earlier, later, frozenset("mn")):
        assert requests_of(later) <= requests_of(earlier)


@given(whens, whens)
def test_what_is_said_not_to_overlap_does_not(one, other):
    """Two cases that share a request are said to overlap, whichever comes first."""
    if requests_of(one) & requests_of(other):
        assert overlap(one, other)
        assert overlap(other, one)


@given(whens, whens, whens)
def test_what_two_cases_share_is_covered_where_that_is_said(earlier, one, other):
    """A case that is said to be for all that two others share is for each such request."""
    if covers_common(earlier, one, other, frozenset("mn")):
        assert requests_of(one) & requests_of(other) <= requests_of(earlier)


def test_simple_globs_are_decided_exactly():
    """Plain names, `*`, and one star at an end or at both are compared as people read them."""
    covered = [
        ("*", "a?c"),
        ("a*", "a"),
        ("a*", "ab*"),
        ("*a", "*ba"),
        ("*b*", "abc*"),
        ("a?c", "abc"),
        ("a-*", "a-[x]"),
    ]
    not_covered = [("ab*", "a*"), ("a*", "*a"), ("*ba", "*a"), ("a", "a*"), ("*b*", "*a*"), ("a?", "a*")]
    assert [pair for pair in covered if not covers(*(When(model=(glob,)) for glob in pair))] == []
    assert [pair for pair in not_covered if covers(*(When(model=(glob,)) for glob in pair))] == []
    assert not overlap(When(model=("kimi*",)), When(model=("glm*", "x")))
    assert overlap(When(model=("kimi*",)), When(model=("glm*", "*i")))


def test_names_that_vendors_give_are_told_apart():
    """A glob for a name and one for a vendor's name overlap only where a name of that form matches both."""
    apart = [("glm-5.2*", "*/GLM-5.3*"), ("*/GLM-5.2*", "*/GLM-5.3*"), ("kimi*", "*/o3")]
    shared = [("*-thinking-*", "*/kimi*"), ("*/kimi*", "moonshotai/*"), ("kimi*", "*-thinking")]
    assert [pair for pair in apart if overlap(*(When(model=(glob,)) for glob in pair))] == []
    assert [pair for pair in shared if not overlap(*(When(model=(glob,)) for glob in pair))] == []
