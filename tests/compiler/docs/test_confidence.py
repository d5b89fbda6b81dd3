from collections import Counter

import pytest

from compiler.docs import confidence
from compiler.docs.confidence import levels_of, summary


@pytest.mark.parametrize(
    ("source", "levels"),
    [
        ("docs (H)", {"high": 1}),
        ("docs 2026; medium", {"medium": 1}),
        ("range: docs (H); default: secondary (L)", {"high": 1, "low": 1}),
        ("docs (L-M)", {"low": 1}),
        ("docs, page HM of 2026", {}),
    ],
)
def test_levels_are_read_from_sources(source, levels, monkeypatch):
    """Each level in a `source` counts, in its long or short form; a text without one counts nothing."""
    profile = {"fields": {"n": {"max": 1, "source": source}}}
    monkeypatch.setattr(confidence, "compile_profile", lambda _: type("Compiled", (), {"values": lambda _: profile})())
    assert levels_of("any") == Counter(levels)


def test_what_presets_share_counts_once():
    """A value that a preset inherits is not counted again for its vendor."""
    both = levels_of("openai", "openai-gpt-4o")
    assert both.total() - levels_of("openai").total() == 1
    assert summary(both) == "13 high"
    assert summary(levels_of("openai-compatible")) == "not marked"
