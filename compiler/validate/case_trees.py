"""The cases of a profile as trees, each merged with the base."""

from collections.abc import Iterator

from compiler.language.schema import CASE, MAX_CASES
from compiler.resolve.extends import merge
from compiler.source.tree import Entry, Mapping

SECTIONS = frozenset(CASE["schema"]) - {"when"}
"""The sections that a case may have."""


def cases_of(profile: Mapping) -> Iterator[tuple[Entry, Mapping]]:
    """Yield each case of a merged profile by its entry, with its own tree; none if there are too many."""
    cases = profile.get("cases")
    entries = cases.value.entries if cases is not None and isinstance(cases.value, Mapping) else ()
    for entry in entries if len(entries) <= MAX_CASES else ():
        if isinstance(entry.value, Mapping):
            yield entry, entry.value


def merged_case(profile: Mapping, case: Mapping) -> Mapping:
    """Return all rules for the requests of a case: the base merged with the case."""
    base = Mapping(tuple(entry for entry in profile.entries if entry.key in SECTIONS), profile.at)
    own = Mapping(tuple(entry for entry in case.entries if entry.key in SECTIONS), case.at)
    return merge(base, own)
