"""Relations within the sampling contract and the output budget."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Note
from compiler.source.tree import Entry, Mapping, Path, Scalar, node_at
from compiler.validate.relations.scope import RelationProblem, RelationScope, later, number_at, number_text


def relations_of_sampling(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors within the sampling contract and the output budget."""
    yield from _default_above_cap(scope)
    params = node_at(scope.tree, ("sampling", "params"))
    for entry in params.entries if isinstance(params, Mapping) else ():
        if isinstance(entry.value, Mapping):
            yield from _band_under_allow(scope, entry)
            yield from _empty_band(scope, entry.key, entry.value)


def _default_above_cap(scope: RelationScope) -> Iterator[RelationProblem]:
    above: Path = ("output", "max_tokens")
    default, cap = number_at(scope.tree, (*above, "default")), number_at(scope.tree, (*above, "cap"))
    if default is None or cap is None or default[0] <= cap[0]:
        return
    limit = number_text(cap[0])
    message = f"{scope.path_text((*above, 'default'))} is {number_text(default[0])}, above the cap of {limit}"
    notes = (Note(cap[1], "the cap is set here"),)
    expected = f"a whole number of tokens, from 1 to {limit}"
    is_inherited = default[1].document is not cap[1].document
    hint = f"set {scope.path_text((*above, 'default'))} beside the cap, too" if is_inherited else None
    yield (above,), Diagnostic("default-above-cap", message, default[1], expected, hint, notes)


def _band_under_allow(scope: RelationScope, entry: Entry) -> Iterator[RelationProblem]:
    conflict = node_at(scope.tree, ("sampling", "conflict"))
    if not isinstance(conflict, Scalar) or conflict.value != "allow":
        return
    name = scope.path_text(("sampling", "params", entry.key))
    message = f"{name} is a band, which `conflict: allow` would not enforce"
    hint = "pin the parameter with one number, or set conflict to reject"
    at, note = entry.key_at, Note(conflict.at, "conflict is set to allow here")
    if at.document is not conflict.at.document and later(at, conflict.at)[0] is conflict.at:
        # The author who sets `allow` over an inherited band can change that line, but not the parent.
        at, note = conflict.at, Note(entry.key_at, "the band is set here")
    yield (), Diagnostic("band-under-allow", message, at, hint=hint, notes=(note,))


def _empty_band(scope: RelationScope, name: str, band: Mapping) -> Iterator[RelationProblem]:
    low, high = number_at(band, ("min",)), number_at(band, ("max",))
    if low is None or high is None or low[0] <= high[0]:
        return
    path: Path = ("sampling", "params", name)
    message = f"{scope.path_text(path)}: min is {number_text(low[0])}, above the max of {number_text(high[0])}"
    notes = (Note(high[1], "max is set here"),)
    hint = "swap them" if low[1].document is high[1].document else None
    yield (path,), Diagnostic("empty-band", message, low[1], "min at most max", hint, notes)
