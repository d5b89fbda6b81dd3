"""The pattern that is written of the texts which an endpoint takes."""

import pytest

from compiler.probe.boundary_search import AcceptedNumbers, RangeEnd
from compiler.probe.texts import AcceptedTexts, pattern_of
from router.contract.rules.patterns import full_match_of


@pytest.mark.parametrize(("low", "high"), [(None, 64), (1, 1000), (3, 1012), (1005, 1020), (1003, None)])
@pytest.mark.parametrize("first", ["aB", "a"], ids=["one class", "another at first"])
def test_the_pattern_takes_the_lengths_that_were_found(low, high, first) -> None:
    """Lengths beyond what one count of a pattern may say are said in two, and both ends hold."""
    lengths = AcceptedNumbers("band", low and RangeEnd(low, is_inside=True), high and RangeEnd(high, is_inside=True))
    matches = full_match_of(pattern_of(AcceptedTexts(lengths, first, "aB", are_bytes=False, results=())))
    shortest, longest = low or (0 if first == "aB" else 1), high or 1024
    assert matches("a" * shortest)
    assert matches("a" * longest)
    assert high is None or not matches("a" * (longest + 1))
    assert low is None or not matches("a" * (shortest - 1))
