"""Check relations within and between the rules of request fields."""

from collections.abc import Iterator
from itertools import product
from typing import Final

from compiler.artifact.from_profile import field_of
from compiler.diagnostics import Code, Diagnostic, Location, Note
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
from router.contract.rules.field_rules import expectation, tests_of
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.rule_list import FieldRule

_NEVER: Final = {
    "model": "models.aliases lists the accepted names",
    "stream": "the router itself handles streaming",
}
"""Fields that no rule can govern, and what to do instead."""

_OF_MESSAGES: Final = frozenset({"required", "min_items", "max_items", "error", "source"})
_CONSTRAINTS: Final = frozenset(
    {"type", "allowed", "min", "above", "max", "below", "min_items", "max_items", "max_bytes", "pattern"}
)


def relations_of_fields(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors within and between the rules of fields."""
    fields = node_at(scope.tree, ("fields",))
    entries = fields.entries if isinstance(fields, Mapping) else ()
    for entry in entries:
        yield from _ungovernable(scope, entry)
        if isinstance(entry.value, Mapping):
            yield from _of_field(scope, entry.key, entry.value)
    yield from _ruled_twice(scope)
    yield from _cycles(scope, {entry.key: ("fields", entry.key) for entry in entries})


def _of_field(scope: RelationScope, name: str, rule: Mapping) -> Iterator[RelationProblem]:
    contradictions = [
        _not_together(scope, ("fields", name), keys, *message)
        for keys, message in _NOT_TOGETHER.items()
        if all(_says_something(rule, key) for key in keys) and not _is_narrowed(scope, ("fields", name), keys)
    ]
    if not contradictions:
        contradictions = [found for low, high in _RANGES for found in _empty_range(scope, name, low, high)]
    yield from contradictions
    for key in ("fixed", "default", "force") if not contradictions else ():
        yield from _unfit(scope, name, rule, key)


_BOUNDS: Final = ("min", "above", "max", "below")
_STANDS_FOR: Final = "`fixed` stands for `allowed` and `default`"
_NOT_TOGETHER: Final[dict[tuple[str, str], tuple[Code, str]]] = {
    ("min", "above"): ("two-bounds", "`min` and `above` are both given"),
    ("max", "below"): ("two-bounds", "`max` and `below` are both given"),
    **{
        ("fixed", other): ("fixed-and-more", f"{_STANDS_FOR}, so `{other}` cannot be set as well")
        for other in ("allowed", "default", "force", "drop")
    },
    **{
        ("fixed", bound): ("fixed-and-more", f"`fixed` leaves one value, so `{bound}` has no effect")
        for bound in _BOUNDS
    },
    ("default", "force"): ("idle-default", "`default` has no effect with `force`"),
    ("default", "drop"): ("idle-default", "`default` has no effect with `drop`"),
    ("force", "drop"): ("force-and-drop", "`force` and `drop` are both given"),
    ("reject", "required"): (
        "refused-and-required",
        "`reject` and `required` are both given, so every request is rejected",
    ),
}
"""Members of a rule that exclude each other, with the code and message of the error."""

_RANGES: Final = (
    *product(("min", "above"), ("max", "below")),
    ("min_items", "max_items"),
    ("floor", "ceiling"),
)


def _not_together(scope: RelationScope, above: Path, keys: tuple[str, str], code: Code, said: str) -> RelationProblem:
    places = tuple((*above, key) for key in keys)
    at, beside = later(*(key_location(scope.tree, place) for place in places))
    notes = (Note(beside, "the other is set here"),)
    return places, Diagnostic(code, f"{scope.path_text(above)}: {said}", at, hint=KEEP_ONE, notes=notes)


def _is_narrowed(scope: RelationScope, above: Path, keys: tuple[str, str]) -> bool:
    """Return whether `fixed` narrows inherited bounds; bounds added to an inherited `fixed` have no effect."""
    if keys[0] != "fixed" or keys[1] not in _BOUNDS:
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
    is_idle = key in {"required", "reject", "drop"} and isinstance(entry.value, Scalar) and entry.value.value is False
    return not is_idle


def _empty_range(scope: RelationScope, name: str, low: str, high: str) -> Iterator[RelationProblem]:
    path: Path = ("fields", name)
    least, most = number_at(scope.tree, (*path, low)), number_at(scope.tree, (*path, high))
    if least is None or most is None:
        return
    is_open = low == "above" or high == "below"
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
    constraints = {member: value for member, value in values.items() if member in _CONSTRAINTS}
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
            if member.key in FIELD.keys() - _OF_MESSAGES:
                place = scope.path_text((*path, member.key))
                message = f"{place}: a rule can limit only the number of messages"
                expected = "one of required, min_items, max_items, error, source"
                hint = "use `checks` for rules about messages"
                yield (), Diagnostic("ungovernable-field", message, member.key_at, expected, hint)


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
