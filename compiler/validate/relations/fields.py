"""Check relations within and between the rules of request fields."""

from collections.abc import Iterator
from typing import Final

from compiler.artifact.from_profile import field_of
from compiler.diagnostics import Diagnostic, Location, Note
from compiler.language.constraints import BY_KEY, CONSTRAINTS
from compiler.language.constraints.record import Constraint, Contradiction
from compiler.language.fields import FIELD
from compiler.source.tree import Entry, Mapping, Path, Scalar, key_location, node_at, plain
from compiler.validate.relations.patterns import pattern_problem
from compiler.validate.relations.scope import (
    KEEP_ONE,
    RelationProblem,
    RelationScope,
    later,
    number_at,
    number_text,
    texts_at,
    value_text,
)
from router.contract.rules.field_tests import expectation, tests_of
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.rule_list import FieldRule

_NEVER: Final = {
    "model": "models.aliases lists the accepted names",
    "stream": "the router itself handles streaming",
}
"""Fields that no rule can govern, and what to do instead."""

_OF_MESSAGES: Final = (*(each.key for each in CONSTRAINTS if each.holds_for_messages), "error", "source")
"""What the rule of `messages` may state."""


def relations_of_fields(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors within and between the rules of fields."""
    fields = node_at(scope.tree, ("fields",))
    entries = fields.entries if isinstance(fields, Mapping) else ()
    for entry in entries:
        yield from _ungovernable(scope, entry)
        if isinstance(entry.value, Mapping):
            yield from _of_field(scope, entry.key, entry.value)
    yield from _ruled_twice(scope)
    yield from _within_no_object(scope)
    yield from _cycles(scope, {entry.key: ("fields", entry.key) for entry in entries})


def _of_field(scope: RelationScope, name: str, rule: Mapping) -> Iterator[RelationProblem]:
    contradictions = list(_contradictions(scope, ("fields", name), rule))
    yield from contradictions
    for key in ("fixed", "default", "force") if not contradictions else ():
        yield from _unfit(scope, name, rule, key)


def _contradictions(scope: RelationScope, path: Path, rule: Mapping) -> Iterator[RelationProblem]:
    """Yield the errors between the constraints of a rule: what excludes each other, else ranges without a value."""
    found = [
        _not_together(scope, path, (constraint.key, other), contradiction)
        for constraint in CONSTRAINTS
        for other, contradiction in constraint.contradicts.items()
        if _says_something(rule, constraint.key) and _says_something(rule, other)
        if not _is_narrowed(scope, path, (constraint.key, other))
    ]
    if not found:
        ranges = ((BY_KEY[low], high) for high in CONSTRAINTS for low in high.not_below)
        found = [each for low, high in ranges for each in _empty_range(scope, path, low, high)]
    yield from found
    for nested in (entry for entry in rule.entries if BY_KEY.get(entry.key) and BY_KEY[entry.key].form == "rule"):
        if isinstance(nested.value, Mapping):
            yield from _contradictions(scope, (*path, nested.key), nested.value)


def _not_together(
    scope: RelationScope, above: Path, keys: tuple[str, str], contradiction: Contradiction
) -> RelationProblem:
    places = tuple((*above, key) for key in keys)
    at, beside = later(*(key_location(scope.tree, place) for place in places))
    notes = (Note(beside, "the other is set here"),)
    return places, Diagnostic(
        contradiction.code, f"{scope.path_text(above)}: {contradiction.message}", at, hint=KEEP_ONE, notes=notes
    )


def _is_narrowed(scope: RelationScope, above: Path, keys: tuple[str, str]) -> bool:
    """Return whether `fixed` narrows inherited bounds; bounds added to an inherited `fixed` have no effect."""
    if keys[0] != "fixed" or not BY_KEY[keys[1]].is_of_numbers:
        return False
    if scope.is_case:
        fixed_here, bound_here = (node_at(scope.profile, (*scope.above, *above, key)) is not None for key in keys)
        return fixed_here or not bound_here
    fixed, bound = (key_location(scope.tree, (*above, key)) for key in keys)
    # In one file the bounds are redundant but harmless; those of a child would not have the intended effect.
    return fixed.document.name == bound.document.name or later(fixed, bound)[0] == fixed


def _says_something(rule: Mapping, key: str) -> bool:
    """Return whether a member is set to more than `false`, which is the same as not set."""
    entry = rule.get(key)
    if entry is None:
        return False
    is_flag = BY_KEY[key].schema.get("type") == "boolean"
    is_idle = is_flag and isinstance(entry.value, Scalar) and entry.value.value is False
    return not is_idle


def _empty_range(scope: RelationScope, path: Path, lower: Constraint, upper: Constraint) -> Iterator[RelationProblem]:
    low, high = lower.key, upper.key
    least, most = number_at(scope.tree, (*path, low)), number_at(scope.tree, (*path, high))
    if least is None or most is None:
        return
    is_open = lower.is_open or upper.is_open
    if least[0] < most[0] or (least[0] == most[0] and not is_open):
        return
    message = (
        f"{scope.path_text(path)}: no value is valid, because {low} is {number_text(least[0])} "
        f"and {high} is {number_text(most[0])}"
    )
    expected = f"{low} {'less than' if is_open else 'at most'} {high}"
    notes = (Note(most[1], f"{high} is set here"),)
    yield ((*path, low), (*path, high)), Diagnostic("empty-range", message, least[1], expected, notes=notes)


def _unfit(scope: RelationScope, name: str, rule: Mapping, key: str) -> Iterator[RelationProblem]:
    entry = rule.get(key)
    if entry is None or not isinstance(entry.value, Scalar):
        return
    path: Path = ("fields", name)
    values = {member: value for member, value in plain(rule).items() if scope.is_valid((*path, member))}
    constraints = {member: value for member, value in values.items() if member in BY_KEY and BY_KEY[member].of_value}
    if key not in values or pattern_problem(constraints.get("pattern", "")) is not None:
        return
    value = values[key]
    if any(_same(value, target) for target in values.get("map", {}).values()):
        return  # The engine may receive another value than the client sends.
    field = field_of(constraints)
    if all(test(value, {}) is None for test in tests_of(FieldRule(name, field, f"fields.{name}"))):
        return
    message = f"{scope.path_text((*path, key))} is {value_text(entry.value)}, which the rule itself rejects"
    notes = tuple(
        Note(other.value.at, f"{other.key} is set here") for other in rule.entries if other.key in constraints
    )
    yield (), Diagnostic("unfit-value", message, entry.value.at, expectation(field) or None, notes=notes)


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _ungovernable(scope: RelationScope, entry: Entry) -> Iterator[RelationProblem]:
    path: Path = ("fields", entry.key)
    first, _, rest = entry.key.partition(".")
    if first in _NEVER:
        message = f"{scope.path_text(path)}: no rule can govern `{first}`"
        yield (), Diagnostic("ungovernable-field", message, entry.key_at, hint=_NEVER[first])
    elif first == "messages" and rest:
        message = f"{scope.path_text(path)}: rules of fields cannot reach into a list"
        yield (), Diagnostic("ungovernable-field", message, entry.key_at, hint="use `checks` for rules about messages")
    elif first == "messages" and isinstance(entry.value, Mapping):
        for member in entry.value.entries:
            if member.key in FIELD and member.key not in _OF_MESSAGES:
                place = scope.path_text((*path, member.key))
                message = f"{place}: a rule can limit only the number of messages"
                expected = f"one of {', '.join(_OF_MESSAGES)}"
                hint = "use `checks` for rules about messages"
                yield (), Diagnostic("ungovernable-field", message, member.key_at, expected, hint)


def _within_no_object(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the paths of `unknown_fields.within` that cannot be objects with members."""
    within = node_at(scope.tree, ("unknown_fields", "within"))
    for entry in within.entries if isinstance(within, Mapping) else ():
        first = entry.key.partition(".")[0]
        if first in {*_NEVER, "messages"}:
            path: Path = ("unknown_fields", "within", entry.key)
            message = f"{scope.path_text(path)}: no rule can govern members of `{first}`"
            hint = "use `checks` for rules about messages" if first == "messages" else _NEVER[first]
            yield (), Diagnostic("ungovernable-field", message, entry.key_at, hint=hint)


def _ruled_twice(scope: RelationScope) -> Iterator[RelationProblem]:
    for name in SAMPLING_FIELDS:
        param, field = ("sampling", "params", name), ("fields", name)
        if node_at(scope.tree, param) is None or node_at(scope.tree, field) is None:
            continue
        at, beside = later(key_location(scope.tree, field), key_location(scope.tree, param))
        message = f"{scope.path_text(field)} and {scope.path_text(param)} are both given"
        notes = (Note(beside, "the other is set here"),)
        yield (), Diagnostic("ruled-twice", message, at, hint=KEEP_ONE, notes=notes)


def _cycles(scope: RelationScope, paths: dict[str, Path]) -> Iterator[RelationProblem]:
    sources = {name: dict(texts_at(scope.tree, (*path, "from"))) for name, path in paths.items()}
    for name, path in paths.items():
        place = (*path, "from")
        for source, at in sources[name].items():
            if source in {"model", "stream", "messages"}:
                message = f"{scope.path_text(place)}: no field can take the value of `{source}`"
                yield (place,), Diagnostic("ungovernable-field", message, at)
            elif source == name:
                message = f"{scope.path_text(place)} names the field itself"
                yield (place,), Diagnostic("from-cycle", message, at, hint="remove it")
        chain = _cycle_from(name, sources)
        if chain and name == min(chain):
            hops = " from ".join((*chain, chain[0]))
            message = f"{scope.path_text(place)}: fields take their values from each other: {hops}"
            at = sources[name][chain[1]]
            notes = tuple(
                Note(sources[hop][after], f"{hop} takes that of {after} here")
                for hop, after in zip(chain[1:], (*chain[2:], chain[0]), strict=True)
            )
            yield (place,), Diagnostic("from-cycle", message, at, hint="remove one of these", notes=notes)


def _cycle_from(start: str, sources: dict[str, dict[str, Location]]) -> tuple[str, ...]:
    """Return the shortest path through other fields from a field back to itself, or nothing."""
    ways: list[tuple[str, ...]] = [(start,)]
    found = {start}
    while ways:
        way = ways.pop(0)
        for source in sources.get(way[-1], ()):
            if source == start and len(way) > 1:
                return way
            if source not in found:
                found.add(source)
                ways.append((*way, source))
    return ()
