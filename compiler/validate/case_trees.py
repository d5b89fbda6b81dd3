"""The cases of a profile as trees: each laid over what holds for all requests."""

from collections.abc import Iterator

from compiler.language.schema import CASE, MAX_CASES
from compiler.resolve.extends import merge
from compiler.source.tree import Entry, Mapping

SECTIONS = frozenset(CASE["schema"]) - {"when"}
"""What a case may say."""


def cases_of(profile: Mapping) -> Iterator[tuple[Entry, Mapping]]:
    """Yield each case of a merged profile by its entry, with its own tree; of too many none, which is the mistake."""
    cases = profile.get("cases")
    entries = cases.value.entries if cases is not None and isinstance(cases.value, Mapping) else ()
    for entry in entries if len(entries) <= MAX_CASES else ():
        if isinstance(entry.value, Mapping):
            yield entry, entry.value


def merged_case(profile: Mapping, case: Mapping) -> Mapping:
    """Return all that holds for the requests of a case: what it says, laid over what holds for all."""
    base = Mapping(tuple(entry for entry in profile.entries if entry.key in SECTIONS), profile.at)
    own = Mapping(tuple(entry for entry in case.entries if entry.key in SECTIONS), case.at)
    return merge(base, own)
