"""`--override-sampling-params`: replace the sampling contract from the command line.

It replaces the whole `sampling` section. Rules of `fields` for a sampling parameter, and those of cases, are
removed, so that nothing else governs one.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Literal

from compiler.diagnostics import Diagnostic, Document, Location, ProfileError
from compiler.source.json_reader import read_json
from compiler.source.tree import Entry, Mapping, Node, Path, Scalar, Sequence, node_at, path_text
from router.contract.schema.fields import SAMPLING_FIELDS

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


def apply_override(profile: Mapping, override: Override) -> Mapping:
    """Return a merged profile with its sampling section replaced by the flag.

    Raises ProfileError when the flag is not JSON, is empty, or holds a null.
    """
    flag = _section(override)
    params = node_at(flag.value, ("params",))
    given = {entry.key for entry in params.entries} if isinstance(params, Mapping) else set()
    others = _without_sampling(profile, given)
    cases = others.get("cases")
    if cases is not None and isinstance(cases.value, Mapping):
        others = _with(others, cases, _cases_without_sampling(cases.value, given))
    section = Entry(flag.key, flag.key_at, flag.value, profile.get("sampling"))
    return Mapping((*others.entries, section), profile.at, others.deleted)


def _cases_without_sampling(cases: Mapping, given: set[str]) -> Mapping:
    for entry in cases.entries:
        if isinstance(entry.value, Mapping):
            cases = _with(cases, entry, _without_sampling(entry.value, given))
    return cases


def _without_sampling(tree: Mapping, given: set[str]) -> Mapping:
    """Return a profile or a case without its rules for sampling parameters."""
    tree = tree.without("sampling")
    fields, order = tree.get("fields"), tree.get("order")
    if fields is not None and isinstance(fields.value, Mapping):
        kept = tuple(entry for entry in fields.value.entries if entry.key not in SAMPLING_FIELDS)
        tree = _with(tree, fields, Mapping(kept, fields.value.at, fields.value.deleted))
    if order is not None and isinstance(order.value, Sequence):
        gone = {f"fields.{name}" for name in SAMPLING_FIELDS}
        gone |= {f"sampling.params.{name}" for name in SAMPLING_FIELDS if name not in given}
        left = (item for item in order.value.items if not (isinstance(item, Scalar) and item.value in gone))
        tree = _with(tree, order, Sequence(tuple(left), order.value.at))
    return tree


def _with(tree: Mapping, entry: Entry, value: Node) -> Mapping:
    changed = Entry(entry.key, entry.key_at, value, entry.replaced)
    entries = tuple(changed if each.key == entry.key else each for each in tree.entries)
    return Mapping(entries, tree.at, tree.deleted)


def _section(override: Override) -> Entry:
    document = Document(FLAG, override.params)
    params = read_json(document)
    if not isinstance(params, Mapping):
        expected = "a JSON object of sampling parameters"
        raise ProfileError(Diagnostic("not-a-mapping", "this is not a JSON object", params.at, expected))
    if not params.entries:
        hint = "to have no sampling contract, leave the flag out and set `sampling: null` in a profile"
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
        return [Diagnostic("null-in-override", f"{path_text(path)} is null", node.at, hint=hint)]
    if isinstance(node, Sequence):
        return [found for index, item in enumerate(node.items) for found in _nulls(item, (*path, index))]
    return [found for entry in node.entries for found in _nulls(entry.value, (*path, entry.key))]
