"""Patterns of a contract: what they match, in linear time, and what is wrong with a text that is none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.language.pattern_texts import texts_for
from router.contract.rules.patterns import MAX_MATCHED_CHARACTERS, PatternError, full_match_of
from tests.router.contract.test_shipped_contracts import CONTRACTS

NEVER_ENDING = ("(a+)+b", "(([a-z])+.)+[A-Z]([a-z])+", "(a|a)*b", "(a{1,30}){1,30}b", "a*a*a*a*a*a*b", "(.*){30}b")
"""Patterns with which a matcher that goes back would be busy for years."""


def patterns_of(contract):
    for sections in (contract, *(case.sections for case in contract.cases)):
        yield from (field.pattern for field in sections.fields.values())
        yield from (getattr(check, "name_pattern", None) for check in sections.checks.values())


SHIPPED = sorted(
    {pattern for contract in CONTRACTS.values() for pattern in patterns_of(contract) if pattern is not None}
)
WRITTEN = (*SHIPPED, "(?i)a|b[0-9]{2,3}", "(?:x|yz)*\\.?", "[^a-c]+", "(?s).+", "a.?c$", "^\\[a\\]")
"""Patterns that Python and RE2 read alike, those of all presets among them."""


@given(st.text(max_size=200) | st.text("aA_-.0é\n ", max_size=300))
def test_patterns_mean_what_the_standard_library_reads_in_them(text):
    """On random texts RE2 and the standard library find the same."""
    for pattern in WRITTEN:
        assert full_match_of(pattern)(text) is (re.fullmatch(pattern, text) is not None), pattern


@pytest.mark.parametrize("pattern", WRITTEN)
def test_texts_derived_from_a_pattern_are_matched_as_by_the_standard_library(pattern):
    """On texts at the edges of a pattern RE2 and the standard library find the same, and some match."""
    found = [full_match_of(pattern)(text) for text in texts_for(pattern)]
    assert found == [re.fullmatch(pattern, text) is not None for text in texts_for(pattern)]
    assert any(found)


def test_presets_have_patterns():
    """The patterns that ship are found."""
    assert len(SHIPPED) >= 5


@pytest.mark.parametrize("pattern", NEVER_ENDING)
def test_no_text_keeps_a_worker_busy(pattern):
    """A text that nearly matches is judged in linear time, whatever the pattern."""
    matches = full_match_of(pattern)
    assert not matches("a" * (MAX_MATCHED_CHARACTERS - 1) + "!")


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("\\d\\w", "1a", "٣a"),
        ("\\w", "_", "é"),
        ("\\p{L}+", "é漢", "1"),
        ("a$", "a", "a\n"),
        ("(?i)straße", "STRAßE", "strase"),
        (".", "😀", "\ud83d"),
        ("[\\s\\S]*", "\0\n", "a\udc00"),
        ("a*", "a" * MAX_MATCHED_CHARACTERS, "a" * (MAX_MATCHED_CHARACTERS + 1)),
        ("a{0,1000}a{0,24}", "a" * 1024, "b"),
        ("(?:a{50}){20}", "a" * 1000, "a" * 999),
        ("\\Q{\\E\\{[{]", "{{{", "{{"),
        ("a|ab", "ab", "abb"),
    ],
)
def test_the_whole_of_a_text_is_matched_as_re2_reads_the_pattern(pattern, matching, other):
    """Classes are ASCII, counts end at 1,000 and texts at 1,024 characters, and what is no Unicode matches nothing."""
    matches = full_match_of(pattern)
    assert matches(matching)
    assert not matches(other)


@pytest.mark.parametrize(
    "pattern", ["(", "a{,5}", "a{1001}", "(a{32}){32}", "\\1", "(?=a)", "\\pL{1000}", "\ud800", "a{b"]
)
def test_what_is_no_pattern_is_an_error_with_its_place(pattern, capfd):
    """A text that RE2 cannot match, or reads otherwise than it looks, is an error; RE2 itself logs nothing."""
    with pytest.raises(PatternError) as raised:
        full_match_of(pattern)
    assert 0 <= raised.value.start < raised.value.end <= len(pattern)
    assert capfd.readouterr() == ("", "")
