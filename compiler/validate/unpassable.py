"""Values that a rule names or admits, and that another part of the same rule always rejects: warnings."""

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import chain
from typing import Any, Final, NamedTuple

from compiler.artifact.from_profile import field_of
from compiler.diagnostics import Diagnostic, Location, Note, warning
from compiler.language.constraints import BY_KEY, CONSTRAINTS
from compiler.language.constraints.of_values import LONGEST_SAMPLE, TYPES
from compiler.language.pattern_texts import least_length
from compiler.source.tree import Mapping, Node, Path, Scalar, Sequence, key_location, node_at, plain
from compiler.source.yaml_writer import inline
from compiler.validate.case_trees import cases_of, merged_case
from compiler.validate.relations.scope import RelationScope
from router.contract.rules.field_tests import is_of_type, tests_of
from router.contract.schema.conditions import is_one_of
from router.contract.schema.fields import BOUND_TO_BUDGET, BUDGET_FIELDS
from router.contract.schema.rule_list import FieldRule

_CAP: Final[Path] = ("output", "max_tokens", "cap")
_ALL: Final = "no value passes"
_HINT: Final = "remove one of the two, or change it; where it is inherited, delete it with null"

_GROUPS: Final = (
    tuple(each.key for each in CONSTRAINTS if each.is_of_numbers),
    tuple(each.key for each in CONSTRAINTS if each.kind == "lengths" and each.key != "pattern"),
    ("pattern",),
)
"""Constraints that are tried together: `_candidates` holds a value that passes all of a group, if there is one."""

_PLAIN: Final[tuple[Any, ...]] = ("", "a", "0", 0, 1, -1, 0.5, True, False, [], ["a"], {}, {"a": 1})
_LONGEST: Final = 4096


class _Rule(NamedTuple):
    """The rule of a field: its name, its place, and its values without those that state nothing."""

    scope: RelationScope
    name: str
    values: dict[str, Any]

    def place_of(self, key: str) -> Path:
        return ("fields", self.name, key)

    def text_of(self, key: str) -> str:
        return self.scope.path_text(self.place_of(key))

    def at(self, key: str) -> Location:
        return key_location(self.scope.tree, self.place_of(key))

    def notes(self, keys: Iterable[str]) -> Iterator[Note]:
        return (Note(self.at(key), f"{key} is set here") for key in keys)

    def stated(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if key in self.values)

    def accepts(self, keys: Iterable[str]) -> Callable[[Any], bool]:
        """Return the function that returns whether a value passes some of the rule's constraints."""
        field = field_of({key: self.values[key] for key in keys})
        tests = tuple(tests_of(FieldRule(self.name, field, f"fields.{self.name}")))
        return lambda value: all(test(value, {}) is None for test in tests)


def unpassable_values(profile: Mapping) -> Iterator[Diagnostic]:
    """Yield a warning for each value that a field's rule of a valid profile admits, and yet always rejects."""
    base = RelationScope(profile, (), profile)
    cases = (
        RelationScope(merged_case(profile, case), ("cases", entry.key), profile) for entry, case in cases_of(profile)
    )
    reported: set[Location | None] = set()
    for scope in (base, *cases):
        # A case repeats what the base says: each mistake is reported once.
        found = [each for each in chain.from_iterable(map(_of_rule, _rules(scope))) if each.at not in reported]
        reported.update(each.at for each in found)
        yield from found


def _rules(scope: RelationScope) -> Iterator[_Rule]:
    fields = node_at(scope.tree, ("fields",))
    for entry in fields.entries if isinstance(fields, Mapping) else ():
        if isinstance(entry.value, Mapping):
            values = plain(entry.value)
            stated = {key: value for key, value in values.items() if value is not None and value is not False}
            if "reject" not in stated:
                yield _Rule(scope, entry.key, stated)


def _of_rule(rule: _Rule) -> Iterator[Diagnostic]:
    yield from _of_listed(rule)
    yield from _of_mapped(rule)
    yield from _of_types(rule)
    yield from _of_pattern(rule)
    yield from _of_conditions(rule)
    yield from _of_budget(rule)


def _of_listed(rule: _Rule) -> Iterator[Diagnostic]:
    """Yield a warning for each value of `allowed` that another constraint rejects."""
    others = [(key, rule.accepts((key,))) for key in _of_value(rule, "allowed", "fixed")]
    for item in _items(node_at(rule.scope.tree, rule.place_of("allowed"))):
        rejecting = [key for key, accepts in others if not accepts(item.value)]
        if rejecting:
            message = f"{rule.text_of('allowed')} lists {_shown(item)}, which never passes: {_named(rule, rejecting)}"
            yield warning("never-valid", message, item.at, _HINT, *rule.notes(rejecting))


def _of_mapped(rule: _Rule) -> Iterator[Diagnostic]:
    """Yield a warning for each value in `map` that the rule rejects before it would be replaced."""
    if "from" in rule.values:
        return  # The values of source fields are mapped, too, and their own rules test them.
    mapped = node_at(rule.scope.tree, rule.place_of("map"))
    accepts = rule.accepts(_of_value(rule))
    for entry in mapped.entries if isinstance(mapped, Mapping) else ():
        if any(map(accepts, _readings(entry.key))):
            continue
        rejecting = [key for key in _of_value(rule) if not any(map(rule.accepts((key,)), _readings(entry.key)))]
        message = f"{rule.text_of('map')} replaces {entry.key}, which never passes: {_named(rule, rejecting)}"
        yield warning("never-valid", message, entry.key_at, _HINT, *rule.notes(rejecting))


def _of_types(rule: _Rule) -> Iterator[Diagnostic]:
    """Yield a warning for each type that other constraints exclude, or where they leave no type at all."""
    groups = [stated for group in _GROUPS if (stated := rule.stated(group)) and not _is_huge(rule, stated)]
    written = _items(node_at(rule.scope.tree, rule.place_of("type")))
    if not groups or "allowed" in rule.values or "fixed" in rule.values:
        return
    accepting = [(group, rule.accepts(group), tuple(_candidates(rule, group))) for group in groups]
    excluded = {
        kind: [keys for keys, accepts, values in accepting if not _any_of(kind, accepts, values)] for kind in TYPES
    }
    for item in written:
        keys = tuple(chain.from_iterable(excluded[str(item.value)]))
        if keys:
            message = f"{rule.text_of('type')} lists {item.value}, which never passes: {_named(rule, keys)}"
            yield warning("never-valid", message, item.at, _HINT, *rule.notes(keys))
    if not written and all(excluded.values()):
        keys = tuple(dict.fromkeys(chain.from_iterable(chain.from_iterable(excluded.values()))))
        message = f"{rule.scope.path_text(('fields', rule.name))}: {_ALL}: {' and '.join(keys)} exclude each other"
        yield warning("never-valid", message, rule.at(keys[-1]), _HINT, *rule.notes(keys[:-1]))


def _of_pattern(rule: _Rule) -> Iterator[Diagnostic]:
    """Yield a warning where every text that matches is too long."""
    if "pattern" not in rule.values or "allowed" in rule.values or "fixed" in rule.values:
        return
    least = least_length(rule.values["pattern"])
    field = field_of({key: value for key, value in rule.values.items() if key in BY_KEY})
    for key in rule.stated(("max_bytes", "max_length")):
        most = getattr(field, key)
        if least > most:
            message = (
                f"{rule.scope.path_text(('fields', rule.name))}: {_ALL}: "
                f"a text that matches `pattern` has at least {least} characters, and {key} is {most}"
            )
            yield warning("never-valid", message, rule.at("pattern"), _HINT, *rule.notes((key,)))


def _of_conditions(rule: _Rule) -> Iterator[Diagnostic]:
    """Yield a warning for each field that both `requires` and `excludes` name, with the same values."""
    if "requires" not in rule.values or "excludes" not in rule.values:
        return
    field = field_of({key: rule.values[key] for key in ("requires", "excludes")})
    for path, wanted in field.requires.items():
        if path not in field.excludes or not _excludes_all(wanted, field.excludes[path]):
            continue
        message = f"{rule.scope.path_text(('fields', rule.name))}: {_ALL}: it requires and excludes {path}"
        yield warning("never-valid", message, rule.at("excludes"), _HINT, *rule.notes(("requires",)))


def _excludes_all(wanted: tuple[Any, ...], excluded: tuple[Any, ...]) -> bool:
    return not excluded or (bool(wanted) and all(is_one_of(value, excluded) for value in wanted))


def _of_budget(rule: _Rule) -> Iterator[Diagnostic]:
    """Yield a warning for each value of a budget, or its bound, that the cap on the output rejects."""
    budget = node_at(rule.scope.tree, _CAP[:-1])
    below = 0 if rule.name in BUDGET_FIELDS else BOUND_TO_BUDGET.get(rule.name)
    if below is None or not isinstance(budget, Mapping) or plain(budget).get("on_exceed") == "clamp":
        return
    cap = plain(budget)["cap"]
    note = Note(key_location(rule.scope.tree, _CAP), "the cap is set here")
    for key in rule.stated(("allowed", "fixed", "min", "above")):
        for item in _items(node_at(rule.scope.tree, rule.place_of(key))):
            if is_of_type(item.value, "number") and item.value > cap - below:
                verb = "lists" if key == "allowed" else "is"
                message = (
                    f"{rule.text_of(key)} {verb} {_shown(item)}, which never passes: "
                    f"{rule.scope.path_text(_CAP)} is {inline(cap)}"
                )
                yield warning("never-valid", message, item.at, _HINT, note)


def _of_value(rule: _Rule, *but: str) -> tuple[str, ...]:
    return rule.stated(each.key for each in CONSTRAINTS if each.of_value and each.key not in but)


def _items(node: Node | None) -> list[Scalar]:
    items = node.items if isinstance(node, Sequence) else (node,)
    return [item for item in items if isinstance(item, Scalar)]


def _readings(text: str) -> Iterator[Any]:
    """Yield the values that a key of `map` stands for."""
    yield text
    if text in {"true", "false"}:
        yield text == "true"
    try:
        yield float(text)
    except ValueError:
        return


def _is_huge(rule: _Rule, keys: tuple[str, ...]) -> bool:
    """Return whether a value that passes would be too large to try."""
    return any(rule.values[key] > LONGEST_SAMPLE for key in keys if key in {"min_length", "min_items"})


def _any_of(kind: str, accepts: Callable[[Any], bool], candidates: tuple[Any, ...]) -> bool:
    return any(accepts(value) for value in candidates if is_of_type(value, kind))


def _candidates(rule: _Rule, keys: tuple[str, ...]) -> Iterator[Any]:
    """Yield values of every type, among them one that passes some constraints, if there is one."""
    yield from _PLAIN
    field = field_of({key: rule.values[key] for key in keys})
    for key in keys:
        yield from (boundary.value for boundary in BY_KEY[key].boundary_values(rule.name, field))
    written = (getattr(field, BY_KEY[key].member) for key in keys)
    bounds = [bound for bound in written if is_of_type(bound, "number")]
    yield from _numbers_around(bounds)
    for bound in bounds:
        count = min(math.ceil(max(bound, 0)), _LONGEST)
        yield from ("a" * count, ["a"] * count, "é" * count)


def _numbers_around(bounds: list[float]) -> Iterator[Any]:
    """Yield the multiples of each bound, and of 1, that lie next to each bound, the middles, and all as texts."""
    exact = [Decimal(repr(bound)) for bound in bounds]
    found = [*exact, *((one + other) / 2 for one in exact for other in exact)]
    for step in (Decimal(1), *(abs(bound) for bound in exact if bound)):
        found += ((bound / step).to_integral_value() * step + step * more for bound in exact for more in (-1, 0, 1))
    for number in found:
        yield int(number) if number == number.to_integral_value() else float(number)
        yield format(number, "f")


def _named(rule: _Rule, keys: Iterable[str]) -> str:
    return " and ".join(f"{key} is {inline(rule.values[key])}" for key in keys)


def _shown(item: Scalar) -> str:
    return inline(item.value)
