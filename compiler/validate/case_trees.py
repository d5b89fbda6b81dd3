"""The cases of a profile as trees, merged with the base."""

from collections.abc import Iterator
from functools import reduce

from compiler.language.schema import CASE, MAX_CASES
from compiler.resolve.extends import merge
from compiler.source.tree import Entry, Mapping

SECTIONS = frozenset(CASE["schema"]) - {"when", "group", "extends"}
"""The sections that a case may have."""


def cases_of(profile: Mapping) -> Iterator[tuple[Entry, Mapping]]:
    """Yield each case of a merged profile by its entry, with its own tree; none if there are too many."""
    cases = profile.get("cases")
    entries = cases.value.entries if cases is not None and isinstance(cases.value, Mapping) else ()
    for entry in entries if len(entries) <= MAX_CASES else ():
        if isinstance(entry.value, Mapping):
            yield entry, entry.value


def merged_case(profile: Mapping, *cases: Mapping) -> Mapping:
    """Return all rules for the requests of a case, or of several of different groups: the base merged with them."""
    return reduce(merge, (_sections(case) for case in cases), _sections(profile))


def _sections(tree: Mapping) -> Mapping:
    return Mapping(tuple(entry for entry in tree.entries if entry.key in SECTIONS), tree.at)
