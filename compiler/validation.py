"""Merged tree → all errors at once, each at the place that set the offending value."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from cerberus import Validator, errors

from compiler.diagnostics import MAX_SHOWN_VALUE, Diagnostic, Location, Note, ProfileError, shown
from compiler.hints import hint_for_key, hint_for_value, meant_key
from compiler.schema import SCHEMA, Rules
from compiler.sizes import bytes_of
from compiler.tree import Entry, Mapping, Node, Path, Scalar, Sequence, key_location, node_at, plain, spelled

Found = tuple[Path, Diagnostic]
Related = tuple[tuple[Path, ...], Diagnostic]


def validate(profile: Mapping) -> None:
    """Check a merged profile, without its `extends`. Raises ProfileError with everything that is wrong."""
    values = plain(profile)
    rules = _narrowed({"type": "dict", "schema": SCHEMA}, values)
    unknown = _taken_out(values, rules)
    problems = [(path, _unknown_key(path, profile, rules)) for path in unknown]
    misspelled = {(*path[:-1], meant_key(path, _rules_at(rules, path[:-1])["schema"])) for path in unknown}
    problems += [
        _diagnostic(error, profile, rules)
        for error in _schema_errors(rules["schema"], values)
        # A missing key that stands there misspelled is one mistake, and told already.
        if error.code != errors.REQUIRED_FIELD.code or error.document_path not in misspelled
    ]
    # One per place: an infinity breaks several rules, but is one mistake.
    by_place = dict(reversed(problems))
    related = [problem for places, problem in _relations(profile) if not any(_touches(at, by_place) for at in places)]
    if by_place or related:
        raise ProfileError(*by_place.values(), *related)


class _ProfileValidator(Validator):  # type: ignore[misc]
    """Cerberus with the rules that it lacks."""

    def _error(self, *args: Any) -> None:  # noqa: ANN401 - as Cerberus has it
        """Collect errors; Cerberus itself would sort all of them, and file them in trees, at each new one."""
        if len(args) == 1:
            self._errors.extend(args[0])
        else:
            super()._error(*args)

    def _validate_finite(self, wanted: bool, field: str, value: object) -> None:
        """{'type': 'boolean'}"""  # noqa: D400 - Cerberus reads the rule's own schema here
        if wanted and isinstance(value, float) and not math.isfinite(value):
            self._error(field, "not finite")

    def _validate_whole(self, wanted: bool, field: str, value: object) -> None:
        """{'type': 'boolean'}"""  # noqa: D400
        if wanted and isinstance(value, float) and not value.is_integer():
            self._error(field, "not whole")

    def _validate_above(self, limit: float, field: str, value: object) -> None:
        """{'type': 'number'}"""  # noqa: D400
        if isinstance(value, int | float) and not value > limit:
            self._error(field, "not above the limit")

    def _validate_byte_size(self, limits: list[int], field: str, value: object) -> None:
        """{'type': 'list'}"""  # noqa: D400
        size = bytes_of(value) if isinstance(value, str) else None
        if size is not None and not limits[0] <= size <= limits[1]:
            self._error(field, "out of range")


def _taken_out(values: dict[str, Any], rules: Rules, path: Path = ()) -> list[Path]:
    """Take the unknown keys out of the values and return their paths; Cerberus sorts its errors at each new one."""
    unknown = [key for key in values if key not in rules["schema"]]
    found: list[Path] = [(*path, key) for key in unknown]
    for key in unknown:
        del values[key]
    for key, value in values.items():
        if isinstance(value, dict) and rules["schema"][key]["type"] == "dict":
            found += _taken_out(value, rules["schema"][key], (*path, key))
    return found


def _schema_errors(schema: Rules, values: dict[str, Any]) -> Iterator[errors.ValidationError]:
    # One validator per call: it keeps its state in itself, so no two threads could share it.
    validator = _ProfileValidator(schema)
    validator.validate(values, normalize=False)
    # Sorted, since Cerberus finds missing keys in the order of a set, which differs from run to run.
    yield from sorted(_leaves(validator._errors))  # noqa: SLF001 - the only way to the paths and codes


def _leaves(found: list[errors.ValidationError]) -> Iterator[errors.ValidationError]:
    for error in found:
        if error.child_errors:
            yield from _leaves(error.child_errors)
        else:
            yield error


def _narrowed(rules: Rules, value: object) -> Rules:
    """Return the rules for one value with each `anyof` replaced by the branch that fits what was written."""
    if "anyof" in rules:
        rules = {"meta": rules["meta"], **_branch(rules["anyof"], value)}
    if isinstance(value, list) and len(value) > rules.get("maxlength", len(value)):
        # That the list is too long is the mistake; what stands in it does not matter then.
        return {key: rule for key, rule in rules.items() if key != "schema"}
    if rules["type"] != "dict":
        return rules
    members = value if isinstance(value, dict) else {}
    schema = {key: _narrowed(member, members.get(key)) for key, member in rules["schema"].items()}
    return {**rules, "schema": schema}


def _branch(branches: list[Rules], value: object) -> Rules:
    written = "dict" if isinstance(value, dict) else "string" if isinstance(value, str) else "number"
    return next((branch for branch in branches if branch["type"] == written), branches[0])


def _rules_at(rules: Rules, path: Path) -> Rules:
    for step in path:
        rules = rules["schema"] if isinstance(step, int) else rules["schema"][step]
    return rules


def _diagnostic(error: errors.ValidationError, profile: Mapping, rules: Rules) -> Found:
    path: Path = error.document_path
    if error.code == errors.REQUIRED_FIELD.code:
        return path, _missing_key(path, profile, rules)
    node = node_at(profile, path)
    if node is None:
        raise LookupError(f"Cerberus found fault with {path}, which the profile does not hold")
    there = _rules_at(rules, path)
    message = f"{spelled(path)} is {_described(node)}"
    return path, Diagnostic("wrong-value", message, node.at, there["meta"]["expected"], hint_for_value(node, there))


def _unknown_key(path: Path, profile: Mapping, rules: Rules) -> Diagnostic:
    known = _rules_at(rules, path[:-1])["schema"]
    return Diagnostic(
        "unknown-key",
        f"{shown(str(path[-1]))} is not a key {_of(path[:-1])}",
        key_location(profile, path),
        expected="one of " + ", ".join(known),
        hint=hint_for_key(path, known),
    )


def _missing_key(path: Path, profile: Mapping, rules: Rules) -> Diagnostic:
    meta = _rules_at(rules, path)["meta"]
    parent = node_at(profile, path[:-1])
    deletion = parent.deletion_of(str(path[-1])) if isinstance(parent, Mapping) else None
    if deletion is None:
        hint = meta.get("when_missing")
        return Diagnostic(
            "missing-key", f"{spelled(path)} is missing", key_location(profile, path[:-1]), meta["expected"], hint
        )
    message = f"{spelled(path)} is missing: this null deletes it"
    hint = f"give a value, or write null for the whole of {spelled(path[:-1])}"
    return Diagnostic("missing-key", message, deletion.value.at, meta["expected"], hint)


def _of(path: Path) -> str:
    return f"of {spelled(path)}" if path else "of a profile"


def _described(node: Node) -> str:
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return f"a list of {len(node.items)}"
    if isinstance(node.value, str):
        return f"the string {shown(node.value)}"
    if node.value is None or isinstance(node.value, bool):
        return {None: "null", True: "true", False: "false"}[node.value]
    return _number_text(node.value)


def _number_text(number: float) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        return ".nan" if math.isnan(number) else f"{'-' if number < 0 else ''}.inf"
    text = repr(number)
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[:20]}... ({len(text)} digits)"


def _relations(profile: Mapping) -> Iterator[Related]:
    """Yield what is wrong between values that are each right by themselves, with the places that must be right."""
    yield from _repeated_aliases(profile)
    yield from _default_above_cap(profile)
    params = node_at(profile, ("sampling", "params"))
    for entry in params.entries if isinstance(params, Mapping) else ():
        if isinstance(entry.value, Mapping):
            yield from _band_under_allow(profile, entry)
            yield from _empty_band(entry.key, entry.value)


def _repeated_aliases(profile: Mapping) -> Iterator[Related]:
    aliases = node_at(profile, ("models", "aliases"))
    first: dict[object, Node] = {}
    for index, item in enumerate(aliases.items if isinstance(aliases, Sequence) else ()):
        value = item.value if isinstance(item, Scalar) else item
        if value in first:
            path = ("models", "aliases", index)
            notes = (Note(first[value].at, "first listed here"),)
            message = f"{spelled(path)} repeats {_described(item)}"
            yield (path,), Diagnostic("repeated-alias", message, item.at, hint="remove it", notes=notes)
        first.setdefault(value, item)


def _default_above_cap(profile: Mapping) -> Iterator[Related]:
    above: Path = ("output", "max_tokens")
    default, cap = _number_at(profile, (*above, "default")), _number_at(profile, (*above, "cap"))
    if default is None or cap is None or default[0] <= cap[0]:
        return
    limit = _number_text(cap[0])
    message = f"output.max_tokens.default is {_number_text(default[0])}, above the cap of {limit}"
    notes = (Note(cap[1], "the cap is set here"),)
    expected = f"a whole number of tokens, from 1 to {limit}"
    yield (above,), Diagnostic("default-above-cap", message, default[1], expected, notes=notes)


def _band_under_allow(profile: Mapping, entry: Entry) -> Iterator[Related]:
    conflict = node_at(profile, ("sampling", "conflict"))
    if not isinstance(conflict, Scalar) or conflict.value != "allow":
        return
    yield (
        (),
        Diagnostic(
            "band-under-allow",
            f"sampling.params.{entry.key} is a band, and under `conflict: allow` nothing would hold requests to it",
            entry.key_at,
            hint="pin the parameter with one number, or set conflict to reject",
            notes=(Note(conflict.at, "conflict is set to allow here"),),
        ),
    )


def _empty_band(name: str, band: Mapping) -> Iterator[Related]:
    low, high = _number_at(band, ("min",)), _number_at(band, ("max",))
    if low is None or high is None or low[0] <= high[0]:
        return
    path: Path = ("sampling", "params", name)
    message = f"{spelled(path)}: min is {_number_text(low[0])}, above the max of {_number_text(high[0])}"
    notes = (Note(high[1], "max is set here"),)
    hint = "swap them" if low[1].document is high[1].document else None
    yield (path,), Diagnostic("empty-band", message, low[1], "min at most max", hint, notes)


def _number_at(root: Node, path: Path) -> tuple[float, Location] | None:
    node = node_at(root, path)
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return None
    return node.value, node.at


def _touches(path: Path, faulty: Iterable[Path]) -> bool:
    """Tell whether a path leads through, to or above a place that is already known to be wrong."""
    return any(path[: len(other)] == other or other[: len(path)] == path for other in faulty)
