"""Validate a merged tree: report all errors at once, each at the place that set the value."""

import math
import re
from collections.abc import Collection, Iterator
from typing import Any

from cerberus import Validator, errors
from cerberus.schema import UnvalidatedSchema

from compiler.artifact.from_profile import combined_names
from compiler.artifact.sizes import bytes_of
from compiler.diagnostics import Diagnostic, Location, ProfileError, quoted
from compiler.language.schema import SCHEMA, Rules
from compiler.source.tree import Mapping, Path, key_location, node_at, path_text, plain
from compiler.validate.case_trees import cases_of, merged_case
from compiler.validate.hints import hint_for_key, hint_for_value, intended_key
from compiler.validate.relations import relations_of
from compiler.validate.relations.scope import RelationScope, value_text
from router.artifact.cases import MAX_COMBINATIONS
from router.artifact.differences import merged_values
from router.contract.schema.combinations import SEPARATOR

PathDiagnostic = tuple[Path, Diagnostic]

_OF_CASES = frozenset({"when", "group"})
"""The keys of a case that are no rules."""
_WITHOUT_CASES = {key: rules for key, rules in SCHEMA.items() if key not in {"case_groups", "cases"}}


def validate(profile: Mapping, empty: dict[Path, Diagnostic] | None = None) -> None:
    """Check a merged profile, without its `extends`. Raises ProfileError with all errors.

    `empty`: by path the errors of keys without a value, which the profile does not hold; none is reported as missing.
    """
    known = empty or {}
    problems = [*known.values(), *_problems_of(profile, SCHEMA, (), known)]
    for entry, case in cases_of(profile):
        # A case is checked merged with the base: an error may come from both together.
        reported = {(diagnostic.code, diagnostic.at) for diagnostic in problems}
        found = _problems_of(merged_case(profile, case), _WITHOUT_CASES, ("cases", entry.key), known, profile)
        problems += [diagnostic for diagnostic in found if (diagnostic.code, diagnostic.at) not in reported]
    if not problems:
        problems += _problems_of_combinations(profile)
    if problems:
        raise ProfileError(*problems)


def _problems_of_combinations(profile: Mapping) -> Iterator[Diagnostic]:
    """Yield the errors that cases of several groups have together, each once."""
    cases = {entry.key: (entry, case) for entry, case in cases_of(profile)}
    reported: set[tuple[str, Location | None]] = set()
    for count, names in enumerate(combined_names(plain(profile))):
        if count == MAX_COMBINATIONS:
            message = f"the cases of several groups make more than {MAX_COMBINATIONS} combinations"
            hint = "put cases into one group where a request is for one of them alone"
            yield Diagnostic("too-many-combinations", message, key_location(profile, ("case_groups",)), hint=hint)
            return
        if len(names) == 1:
            continue
        name = SEPARATOR.join(names)
        if name in cases:
            message = f"{quoted(name)} is the name of a case and of the combination of {' and '.join(names)}"
            yield Diagnostic("ambiguous-case", message, cases[name][0].key_at, hint="rename the case")
        trees = [cases[each][1] for each in names]
        found = _problems_of(merged_case(profile, *trees), _WITHOUT_CASES, ("cases", name), (), profile)
        for diagnostic in found:
            if (diagnostic.code, diagnostic.at) not in reported:
                reported.add((diagnostic.code, diagnostic.at))
                yield diagnostic


def _problems_of(
    tree: Mapping, schema: Rules, above: Path, empty: Collection[Path], profile: Mapping | None = None
) -> list[Diagnostic]:
    """Return the errors of a profile, or of the case at the path `above`."""
    values = plain(tree)
    rules = _narrow({"type": "dict", "schema": schema}, values)
    bad_keys = list(_remove_bad_keys(values, rules))
    problems = [(path, _bad_key(path, tree, rules, above)) for path in bad_keys]
    unknown = _remove_unknown_keys(values, rules)
    problems += [(path, _unknown_key(path, tree, rules, above)) for path in unknown]
    gaps = set(_gaps(empty, above))
    misspelled = {(*path[:-1], intended_key(path, _rules_at(rules, path[:-1])["schema"])) for path in unknown}
    problems += [
        _diagnostic(error, tree, rules, above)
        for error in _schema_errors(rules, _without_case_rules(values))
        # A missing key that is present but misspelled, or without a value, is already reported.
        if error.code != errors.REQUIRED_FIELD.code or error.document_path not in misspelled | gaps
    ]
    # One per place: an infinity breaks several rules, but is one mistake.
    by_place = dict(reversed(problems))
    scope = RelationScope(tree, above, profile or tree, frozenset(by_place) | gaps)
    related = [problem for places, problem in relations_of(scope) if all(map(scope.is_valid, places))]
    return [*by_place.values(), *related]


def _gaps(empty: Collection[Path], above: Path) -> Iterator[Path]:
    """Yield the paths of what has no value in a profile, or in a case and the base that it is merged with."""
    for path in empty:
        if path[: len(above)] == above or path[0] != "cases":
            own = path[len(above) :] if path[: len(above)] == above else path
            yield own
            # `min:1` in braces is a key without a value, and means `min`.
            yield (*own[:-1], str(own[-1]).partition(":")[0])


def _without_case_rules(values: dict[str, Any]) -> dict[str, Any]:
    """Return a profile's values with each case reduced to its keys and its `when`.

    The rules of a case are checked after it is merged with the base.
    """
    cases = values.get("cases")
    if not isinstance(cases, dict):
        return values
    return {**values, "cases": {name: _when_alone(case) for name, case in cases.items()}}


def _when_alone(case: object) -> object:
    if not isinstance(case, dict):
        return case
    return merged_values({}, {key: value for key, value in case.items() if key in _OF_CASES})


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


def _remove_bad_keys(values: dict[str, Any], rules: Rules, path: Path = ()) -> Iterator[Path]:
    """Take out the keys that a map with keys of the profile's choice cannot have, and yield their paths."""
    keys = rules["meta"].get("keys") if "meta" in rules else None
    for key in [key for key in values if keys is not None and not _fits(key, keys)]:
        yield (*path, key)
        del values[key], rules["schema"][key]
    for value, inner, place in _mappings_in(values, rules, path):
        yield from _remove_bad_keys(value, inner, place)


def _fits(key: str, keys: Rules) -> bool:
    fits = keys.get("minlength", 0) <= len(key) <= keys["maxlength"]
    return fits and re.match(keys["regex"], key) is not None


def _remove_unknown_keys(values: dict[str, Any], rules: Rules, path: Path = ()) -> list[Path]:
    """Take the unknown keys out of the values and return their paths; Cerberus sorts its errors at each new one."""
    unknown = [key for key in values if key not in rules["schema"]]
    found: list[Path] = [(*path, key) for key in unknown]
    for key in unknown:
        del values[key]
    for value, inner, place in _mappings_in(values, rules, path):
        found += _remove_unknown_keys(value, inner, place)
    return found


def _mappings_in(values: dict[str, Any], rules: Rules, path: Path) -> Iterator[tuple[dict[str, Any], Rules, Path]]:
    """Yield the child mappings of a mapping, also those in its lists, whose keys the schema defines."""
    for key, value in values.items():
        inner = rules["schema"].get(key)
        if isinstance(value, dict) and inner is not None and inner["type"] == "dict" and "schema" in inner:
            yield value, inner, (*path, key)
        elif isinstance(value, list) and inner is not None and "items" in inner:
            for index, (item, its_rules) in enumerate(zip(value, inner["items"], strict=True)):
                if isinstance(item, dict) and "schema" in its_rules:
                    yield item, its_rules, (*path, key, index)


def _schema_errors(rules: Rules, values: dict[str, Any]) -> Iterator[errors.ValidationError]:
    # One validator per call: it keeps its state in itself, so no two threads could share it.
    # Unvalidated, since Cerberus would check the schema at each call, in time that is quadratic in its keys.
    validator = _ProfileValidator(UnvalidatedSchema(rules["schema"]))
    validator.validate(values, normalize=False)
    # Sorted, since Cerberus finds missing keys in the order of a set, which differs from run to run.
    yield from sorted(_leaves(validator._errors))  # noqa: SLF001 - the only way to the paths and codes


def _leaves(found: list[errors.ValidationError]) -> Iterator[errors.ValidationError]:
    for error in found:
        if error.child_errors:
            yield from _leaves(error.child_errors)
        else:
            yield error


def _narrow(rules: Rules, value: object) -> Rules:
    """Return the rules for one value.

    Each `anyof` is replaced by the branch that fits the value. Each map with free keys is replaced by a map with the
    keys of the value.
    """
    if "anyof" in rules:
        common = {key: rule for key, rule in rules.items() if key != "anyof"}
        rules = {**common, **_branch(rules["anyof"], value)}
    if isinstance(value, list | dict) and len(value) > rules.get("maxlength", len(value)):
        # Too many items is the only error to report; the items do not matter then.
        return {key: rule for key, rule in rules.items() if key not in {"schema", "keysrules", "valuesrules"}}
    if rules["type"] == "list":
        return _narrow_list(rules, value)
    if rules["type"] != "dict":
        return rules
    members = value if isinstance(value, dict) else {}
    if "valuesrules" in rules:
        schema = {key: _narrow(rules["valuesrules"], member) for key, member in members.items()}
        rest = {key: rule for key, rule in rules.items() if key not in {"keysrules", "valuesrules"}}
        return {**rest, "schema": schema, "meta": {**rules["meta"], "keys": rules["keysrules"]}}
    if "schema" not in rules:
        return rules
    schema = {key: _narrow(member, members.get(key)) for key, member in rules["schema"].items()}
    return {**rules, "schema": schema}


def _narrow_list(rules: Rules, value: object) -> Rules:
    item = rules["schema"]
    if not isinstance(value, list) or ("anyof" not in item and item["type"] != "dict"):
        return rules
    rest = {key: rule for key, rule in rules.items() if key != "schema"}
    return {**rest, "items": [_narrow(item, member) for member in value]}


def _branch(branches: list[Rules], value: object) -> Rules:
    fitting = (
        branch for branch in branches if _kind(value) in branch["type"] and value in branch.get("allowed", [value])
    )
    return next(fitting, branches[0])


def _kind(value: object) -> str:
    kinds = {dict: "dict", list: "list", str: "string", bool: "boolean"}
    return kinds.get(type(value), "number")


def _rules_at(rules: Rules, path: Path) -> Rules:
    for step in path:
        if isinstance(step, int):
            rules = rules["items"][step] if "items" in rules else rules["schema"]
        else:
            rules = rules["schema"][step]
    return rules


def _diagnostic(error: errors.ValidationError, tree: Mapping, rules: Rules, above: Path) -> PathDiagnostic:
    path: Path = error.document_path
    if error.code == errors.REQUIRED_FIELD.code:
        return path, _missing_key(path, tree, rules, above)
    node = node_at(tree, path)
    if node is None:
        raise LookupError(f"Cerberus found fault with {path}, which the profile does not hold")
    there = _rules_at(rules, path)
    message = f"{path_text((*above, *path))} is {value_text(node)}"
    return path, Diagnostic(
        "wrong-value", message, node.at, there["meta"]["expected"], hint_for_value(path, node, there)
    )


def _bad_key(path: Path, tree: Mapping, rules: Rules, above: Path) -> Diagnostic:
    place = path_text((*above, *path[:-1]))
    expected = _rules_at(rules, path[:-1])["meta"]["keys"]["meta"]["expected"]
    return Diagnostic(
        "bad-key", f"{quoted(str(path[-1]))} cannot be a key of {place}", key_location(tree, path), expected
    )


def _unknown_key(path: Path, tree: Mapping, rules: Rules, above: Path) -> Diagnostic:
    known = _rules_at(rules, path[:-1])["schema"]
    return Diagnostic(
        "unknown-key",
        f"{quoted(str(path[-1]))} is not a key {_of((*above, *path[:-1]))}",
        key_location(tree, path),
        expected="one of " + ", ".join(known),
        hint=hint_for_key(path, known, holds_mapping=isinstance(node_at(tree, path), Mapping)),
    )


def _missing_key(path: Path, tree: Mapping, rules: Rules, above: Path) -> Diagnostic:
    meta = _rules_at(rules, path)["meta"]
    parent = node_at(tree, path[:-1])
    deletion = parent.deletion_of(str(path[-1])) if isinstance(parent, Mapping) else None
    message = f"{path_text((*above, *path))} is missing"
    if deletion is None:
        hint = meta.get("when_missing")
        return Diagnostic("missing-key", message, key_location(tree, path[:-1]), meta["expected"], hint)
    hint = f"give a value, or write null for the whole of {path_text((*above, *path[:-1]))}"
    return Diagnostic("missing-key", f"{message}: this null deletes it", deletion.value.at, meta["expected"], hint)


def _of(path: Path) -> str:
    return f"of {path_text(path)}" if path else "of a profile"
