"""`--override-sampling-params`: the sampling contract as a flag; it replaces the whole `sampling` section."""

import hashlib
from dataclasses import dataclass
from typing import Final, Literal

from compiler.diagnostics import Diagnostic, Document, Location, ProfileError
from compiler.json_reading import read_json
from compiler.tree import Entry, Mapping, Node, Path, Scalar, Sequence, spelled

FLAG: Final = "--override-sampling-params"
CONFLICT_FLAG: Final = "--sampling-param-conflict"


@dataclass(frozen=True, slots=True)
class Override:
    """The flag as it was given: JSON text, and what happens to a conflicting request."""

    params: str
    conflict: Literal["reject", "allow"] = "reject"

    def sha256(self) -> str:
        """Return the hex SHA-256 of the flag: the conflict mode on a line of its own, then the text."""
        return hashlib.sha256(f"{self.conflict}\n{self.params}".encode("utf-8", "surrogatepass")).hexdigest()


def overridden(profile: Mapping, override: Override) -> Mapping:
    """Return a merged profile with its sampling section replaced by the flag.

    Raises ProfileError when the flag is not JSON, is empty, or holds a null.
    """
    flag = _section(override)
    others = profile.without("sampling")
    section = Entry(flag.key, flag.key_at, flag.value, profile.get("sampling"))
    return Mapping((*others.entries, section), profile.at, others.deleted)


def _section(override: Override) -> Entry:
    document = Document(FLAG, override.params)
    params = read_json(document)
    if not isinstance(params, Mapping):
        expected = "a JSON object of sampling parameters"
        raise ProfileError(Diagnostic("not-a-mapping", "this is not a JSON object", params.at, expected))
    if not params.entries:
        hint = "to govern no sampling parameter, leave the flag out and set `sampling: null` in a profile"
        raise ProfileError(Diagnostic("empty-override", "no sampling parameter is given", params.at, hint=hint))
    nulls = tuple(_nulls(params, ()))
    if nulls:
        raise ProfileError(*nulls)
    conflict_at = Location(Document(CONFLICT_FLAG, override.conflict), 1, 1, 1, len(override.conflict) + 1)
    conflict = Entry("conflict", conflict_at, Scalar(override.conflict, conflict_at))
    section = Mapping((conflict, Entry("params", params.at, params)), params.at)
    return Entry("sampling", params.at, section)


def _nulls(node: Node, path: Path) -> list[Diagnostic]:
    if isinstance(node, Scalar):
        if node.value is not None:
            return []
        hint = "the flag replaces the whole section, so there is nothing to delete: leave the parameter out"
        return [Diagnostic("null-in-override", f"{spelled(path)} is null", node.at, hint=hint)]
    if isinstance(node, Sequence):
        return [found for index, item in enumerate(node.items) for found in _nulls(item, (*path, index))]
    return [found for entry in node.entries for found in _nulls(entry.value, (*path, entry.key))]
