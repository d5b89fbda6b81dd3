"""Transforms of the fields of a valid request: moved, mapped, forced, dropped, or set to a default."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Self

from router.contract.jsonbytes.numbers import is_too_long, read_float, read_whole
from router.contract.jsonbytes.splice import JsonEdit, raw_at, to_json
from router.contract.rules.evaluation import EvaluationContext
from router.contract.schema.conditions import Path, equals, path_of, value_at
from router.contract.schema.fields import BUDGET_FIELDS, REASONING_EFFORT, WHOLE_NUMBER_FIELDS, spellings_of
from router.contract.schema.rule_list import FieldRule, sources_of
from router.contract.schema.types import Scalar

Transform = Callable[[EvaluationContext], None]


def transforms_of(rules: list[FieldRule]) -> Iterator[tuple[frozenset[str] | None, Transform]]:
    """Yield the transforms of the fields of a valid request, in the order in which they run.

    First fields take the values of their source fields, then values are changed, then defaults are set. Each transform
    comes with the top-level fields that it needs: it is skipped if the request has none of them. None: it always runs.
    """
    taken: dict[str, set[str]] = {}
    for rule in rules:
        taken.setdefault(_top(rule.path), set()).update(map(_top, sources_of(rule.field)))
    yield from ((_names(rule, taken), _move(rule)) for rule in rules if rule.field.sources)
    for rule in rules:
        names = None if rule.field.force is not None else _names(rule, taken)
        yield from ((names, change) for change in _changes(rule))
    spelled = ((rule, frozenset(map(_top, spellings_of(rule.path)))) for rule in rules)
    yield from ((names, _as_spelled(rule)) for rule, names in spelled if names)
    defaults = [rule for rule in rules if rule.field.default is not None]
    if defaults:
        yield None, _set_defaults(defaults)


def _names(rule: FieldRule, taken: dict[str, set[str]]) -> frozenset[str]:
    """Return the top-level fields that may set a field, its source fields and spellings included."""
    top = _top(rule.path)
    return frozenset((top, *taken[top], *map(_top, spellings_of(rule.path))))


def _top(path: str) -> str:
    return path_of(path)[0]


def _move(rule: FieldRule) -> Transform:
    path = path_of(rule.path)
    sources = [path_of(source) for source in sources_of(rule.field)]

    def move(context: EvaluationContext) -> None:
        fields = context.request.fields
        sent = next((source for source in sources if value_at(fields, source) is not None), None)
        if sent is not None and context.value_at(path) is None:
            # An earlier step may have changed it; that another field took it away as well changes nothing.
            changed = context.values.get(sent)
            value = value_at(fields, sent) if changed is None else changed
            context.put(rule.rule, path, value, _written(context, sent) if changed is None else to_json(value))
        for source in sources:
            if context.is_sent(source):
                context.drop(rule.rule, source)

    return move


def _changes(rule: FieldRule) -> list[Transform]:
    field = rule.field
    if field.drop:
        return [_drop(rule)]
    if field.force is not None:
        return [_force(rule, field.force)]
    changes = []
    if field.map:
        changes.append(_map(rule))
    if field.floor is not None or field.ceiling is not None:
        changes.append(_confine(rule))
    return changes


def _drop(rule: FieldRule) -> Transform:
    path = path_of(rule.path)
    others = [path_of(other) for other in spellings_of(rule.path)]

    def drop(context: EvaluationContext) -> None:
        for each in (path, *others):
            if context.is_sent(each) or context.value_at(each) is not None:
                context.drop(rule.rule, each)

    return drop


def _force(rule: FieldRule, forced: Any) -> Transform:  # noqa: ANN401 - any scalar
    path, written = path_of(rule.path), to_json(forced)
    others = [path_of(other) for other in spellings_of(rule.path)]

    def force(context: EvaluationContext) -> None:
        if not equals(context.value_at(path), forced):
            context.put(rule.rule, path, forced, written)
        for other in others:
            if context.value_at(other) is not None:
                context.put(rule.rule, other, forced, written)

    return force


def _map(rule: FieldRule) -> Transform:
    paths = _all_paths(rule)
    mapped = {key: (value, to_json(value)) for key, value in rule.field.map.items()}
    by_number = {float(key): found for key, found in mapped.items() if _NUMBER.fullmatch(key)}

    def change(context: EvaluationContext) -> None:
        for path in paths:
            value = context.value_at(path)
            if isinstance(value, list | dict | None):
                continue
            if isinstance(value, bool):
                found = mapped.get("true" if value else "false")
            else:
                found = mapped.get(value) if isinstance(value, str) else by_number.get(float(value))
            if found is not None:
                context.put(rule.rule, path, *found)

    return change


_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)


def _confine(rule: FieldRule) -> Transform:
    paths, field = _all_paths(rule), rule.field
    least = -math.inf if field.floor is None else field.floor
    most = math.inf if field.ceiling is None else field.ceiling

    def confine(context: EvaluationContext) -> None:
        for path in paths:
            sent = context.value_at(path)
            # Engines read numbers in strings of any length.
            number = math.nan if isinstance(sent, str) and is_too_long(sent) else read_float(sent)
            if number is not None and not least <= number <= most:
                # NaN is neither: it becomes the bound that there is.
                value = field.floor if number < least or field.ceiling is None else field.ceiling
                context.put(rule.rule, path, value, to_json(value))

    return confine


def _all_paths(rule: FieldRule) -> tuple[Path, ...]:
    return (path_of(rule.path), *map(path_of, spellings_of(rule.path)))


def _as_spelled(rule: FieldRule) -> Transform:
    """Return the transform that sets an absent field to the value of another spelling."""
    path, spellings = path_of(rule.path), tuple(map(path_of, spellings_of(rule.path)))
    is_number = rule.path != REASONING_EFFORT
    is_whole = rule.path in WHOLE_NUMBER_FIELDS or rule.path in BUDGET_FIELDS
    read: Callable[[object], float | None] = read_whole if is_whole else read_float

    def set_as_spelled(context: EvaluationContext) -> None:
        for other in spellings:
            value = context.value_at(other)
            if not is_number:
                if isinstance(value, str | int | float) and context.value_at(path) is None:
                    context.put(rule.rule, path, value, to_json(value))
                continue
            sent = read(value)
            # JSON has no number for the NaN or the infinity that a string may say.
            if sent is not None and math.isfinite(sent) and context.value_at(path) is None:
                exact = value if isinstance(value, int) and not isinstance(value, bool) else sent
                context.put(rule.rule, path, exact, to_json(exact))

    return set_as_spelled


class _Default(NamedTuple):
    """A default with the edits that set it, made once: beside a request's other fields, or in the place of a null."""

    path: Path
    value: Scalar | None
    injecting: JsonEdit
    replacing: JsonEdit

    @classmethod
    def of(cls, rule: FieldRule) -> Self:
        """Return the default of a rule."""
        path, value = path_of(rule.path), rule.field.default
        written = to_json(value)
        return cls(path, value, JsonEdit(rule.rule, "inject", path, written), JsonEdit(rule.rule, "set", path, written))


def _set_defaults(rules: list[FieldRule]) -> Transform:
    """Return what sets fields that are absent to their defaults."""
    defaults = [_Default.of(rule) for rule in rules]

    def set_defaults(context: EvaluationContext) -> None:
        values, edits, members = context.values, context.edits, context.request.members
        for default in defaults:
            path = default.path
            if context.value_at(path) is None:
                edits.append(default.replacing if path[0] in members else default.injecting)
                values[path] = default.value

    return set_defaults


def _written(context: EvaluationContext, path: Path) -> bytes:
    """Return a value that is sent as the client wrote it; one that an alias implies is written."""
    value = value_at(context.request.fields, path)
    if isinstance(value, str | bool):
        return to_json(value)
    raw = raw_at(context.request, path)
    return to_json(value) if raw is None or raw == b"null" else raw
