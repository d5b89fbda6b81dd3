"""Compare the rules of request fields, constraint by constraint."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from compiler.artifact.to_profile import error_of, field_of, value_rule_of
from compiler.diff import constraints
from compiler.diff.change import EVIDENCE, UNSEEN, Change, ConstraintEffect, change, combined, rejection_and_acceptance
from compiler.diff.intervals import NumberInterval
from compiler.diff.values import Value, listed, same, text_of
from compiler.language.constraints import BY_KEY, CONSTRAINTS
from compiler.language.constraints.record import ComparisonKind, Constraint, ConstraintComparison
from router.contract.jsonbytes.numbers import show
from router.contract.schema.fields import BUDGET_FIELDS, SAMPLING_FIELDS
from router.contract.schema.sections import Field, ValueRule, is_stated
from router.contract.schema.types import Scalar

OTHER_WORDS: Final = "rejections by it will be worded differently"
_NOTHING: Final = Field()
_NO_RULE: Final = ValueRule()
_KINDS: Final = {"number": ("a whole number", "a number that is not whole"), "integer": ("a whole number",)}


class _Bound(NamedTuple):
    """One end of a range; an open one is not in it."""

    key: str
    value: float
    is_open: bool


_Rule_co = TypeVar("_Rule_co", bound=ValueRule, covariant=True)


class _RulePair(NamedTuple, Generic[_Rule_co]):
    """The two rules of one field, or of the items of one."""

    path: str
    old: _Rule_co
    new: _Rule_co


_FieldPair = _RulePair[Field]


def compare_fields(before: Mapping[str, Field], after: Mapping[str, Field]) -> Iterator[Change]:
    """Yield what changes in the rules of fields, the sampling parameters first."""
    for path in sorted(before.keys() | after.keys(), key=_place):
        old, new = before.get(path), after.get(path)
        changes = [*_constraints(_FieldPair(path, old or _NOTHING, new or _NOTHING))]
        if old is not None and new is not None:
            yield from changes
            continue
        known = ConstraintEffect(f"{path} is {'no longer ' if new is None else ''}a field that the contract knows")
        effects = [
            ConstraintEffect(each.consequence, each.tightens, each.loosens)
            for each in changes
            if each.at[-1] != "source"
        ]
        effect = combined(effects) if effects else known
        yield change(("fields", path), _written(old), _written(new), effect)


def _place(path: str) -> tuple[int, str]:
    return SAMPLING_FIELDS.index(path) if path in SAMPLING_FIELDS else len(SAMPLING_FIELDS), path


def _written(field: Field | None) -> Value:
    return None if field is None else field_of(field)


def _constraints(pair: _FieldPair) -> Iterator[Change]:
    yield from _stated(pair)
    old_error, new_error = error_of(pair.old), error_of(pair.new)
    if not same(old_error, new_error):
        yield Change(("fields", pair.path, "error"), old_error, new_error, OTHER_WORDS)
    if pair.old.source != pair.new.source:
        yield Change(("fields", pair.path, "source"), pair.old.source, pair.new.source, EVIDENCE)


def _stated(pair: _RulePair[Any]) -> Iterator[Change]:
    """Yield what changes in the constraints of a rule."""
    for constraint in CONSTRAINTS:
        if constraint.comparison is not None and hasattr(pair.old, constraint.member):
            yield from _compared(pair, constraint, constraint.comparison)


def _compared(pair: _RulePair[Any], constraint: Constraint, comparison: ConstraintComparison) -> Iterator[Change]:
    """Yield what changes in one constraint."""
    if comparison.kind in _ENDS:
        found = _bound(pair, comparison)
        if found is not None:
            yield found
        return
    old, new = (_said(field, constraint) for field in (pair.old, pair.new))
    if not same(old, new):
        effect = _effect_of(pair, constraint.member, comparison)
        yield change(("fields", pair.path, constraint.key), old, new, effect)


def _said(rule: ValueRule, constraint: Constraint) -> Any:  # noqa: ANN401 - any value of a constraint
    """Return a constraint of a rule, None if it is not stated."""
    value = getattr(rule, constraint.member) if is_stated(rule, constraint.member) else None
    return value_rule_of(value) if isinstance(value, ValueRule) else value


def _effect_of(pair: _RulePair[Any], member: str, comparison: ConstraintComparison) -> ConstraintEffect:
    old, new = (getattr(rule, member) for rule in (pair.old, pair.new))
    requests = comparison.requests.replace("{path}", pair.path)

    def which(values: str) -> str:
        return requests.replace("{}", values)

    if comparison.kind in _EDITS:
        return _EDITS[comparison.kind](pair)
    if comparison.kind == "item":
        return _items(pair.path, old, new)
    if comparison.kind == "narrower":
        return constraints.narrower(old, new, which, comparison)
    return _OF_VALUES[comparison.kind](old, new, which)


def _items(path: str, old: ValueRule | None, new: ValueRule | None) -> ConstraintEffect:
    changes = _stated(_RulePair(f"an item of {path}", old or _NO_RULE, new or _NO_RULE))
    effects = [ConstraintEffect(each.consequence, each.tightens, each.loosens) for each in changes]
    return combined(effects) if effects else ConstraintEffect(UNSEEN)


def _or(kinds: Iterable[Scalar]) -> str:
    return " or ".join(map(str, kinds)).replace(" or ".join(_KINDS["number"]), "a number")


def _kinds(types: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the types of values that are accepted, in which an integer is also a number; None: any."""
    if not types:
        return None
    return tuple(dict.fromkeys(kind for name in types for kind in _KINDS.get(name, (_with_article(name),))))


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _bound(pair: _RulePair[Any], comparison: ConstraintComparison) -> Change | None:
    """Return the change of one end of the range, under the key that sets it now."""
    keys = _ENDS[comparison.kind]
    old, new = (_read_bound(field, keys) for field in (pair.old, pair.new))
    if same(old, new):
        return None
    key = (new or old or _Bound(keys[0], 0, is_open=False)).key
    same_key = old is None or new is None or old.key == new.key
    shown = [bound and (bound.value if same_key else {bound.key: bound.value}) for bound in (old, new)]
    upper = comparison.kind == "upper end"
    gone, gained = _outside(pair.path, new, old, upper=upper), _outside(pair.path, old, new, upper=upper)
    if _begins(pair.old, pair.new, keys):
        gone += _NO_NUMBER
    if _begins(pair.new, pair.old, keys):
        gained += _NO_NUMBER
    effect = rejection_and_acceptance(
        gone and comparison.requests.format(gone), gained and comparison.requests.format(gained)
    )
    return change(("fields", pair.path, key), shown[0], shown[1], effect)


_NO_NUMBER: Final = ", or what is no number,"
_ENDS: Final[Mapping[ComparisonKind, tuple[str, str]]] = {"lower end": ("min", "above"), "upper end": ("max", "below")}
"""The ends of a range: the key of the closed one and that of the open one."""


def _begins(without: ValueRule, ranged: ValueRule, keys: tuple[str, str]) -> bool:
    """Return whether a rule has a range, another has none, and this is the first end of it."""
    ends = [end for end in _ENDS.values() if _read_bound(ranged, end) is not None]
    return not any(_read_bound(without, end) for end in _ENDS.values()) and ends[:1] == [keys]


def _read_bound(field: ValueRule, keys: tuple[str, str]) -> _Bound | None:
    for key in keys:
        value = getattr(field, key)
        if value is not None:
            return _Bound(key, value, BY_KEY[key].is_open)
    return None


def _outside(path: str, bound: _Bound | None, other: _Bound | None, *, upper: bool) -> str:
    """Describe the values that only one of two bounds excludes; an empty string if there are none."""
    if bound is None:
        return ""
    if other is None:
        words = ("below", "above")[upper] if not bound.is_open else ("not above", "not below")[upper]
        return f"{path} {words} {show(bound.value)}"
    sign = -1 if upper else 1
    if (sign * bound.value, bound.is_open) <= (sign * other.value, other.is_open):
        return ""
    if upper:
        return NumberInterval(bound.value, other.value, not bound.is_open, other.is_open).words(path)
    return NumberInterval(other.value, bound.value, other.is_open, not bound.is_open).words(path)


def _mapped(pair: _FieldPair) -> ConstraintEffect:
    pairs = [f"{text_of(value)} for {sent}" for sent, value in pair.new.map.items()]
    words = f"the engine will get {listed_words(pairs)}" if pairs else "the engine will get the values that are sent"
    return _unclear_of_budgets(pair.path, f"{words} in {pair.path}")


def _taken(pair: _FieldPair) -> ConstraintEffect:
    path, new = pair.path, pair.new
    if not new.sources:
        return ConstraintEffect(f"{path} no longer takes its value from {listed(pair.old.sources)}", None, None)
    return ConstraintEffect(
        f"requests without {path} will have the value of {listed(new.sources)} there: {constraints.CANNOT_TELL}",
        None,
        None,
    )


def listed_words(phrases: list[str]) -> str:
    """Return phrases joined with commas and `and`."""
    *others, last = phrases
    return f"{', '.join(others)} and {last}" if others else last


def _limited(path: str, old: float | None, new: float | None, beyond: str, moved: str) -> str:
    if new is None:
        return f"{path} {beyond} {show(old or 0)} will reach the engine as it is"
    was = "" if old is None else f" instead of {show(old)}"
    return f"{path} {beyond} {show(new)} will be {moved} to {show(new)}{was}"


def _floor(pair: _FieldPair) -> ConstraintEffect:
    return ConstraintEffect(_limited(pair.path, pair.old.floor, pair.new.floor, "below", "raised"))


def _ceiling(pair: _FieldPair) -> ConstraintEffect:
    old, new = pair.old.ceiling, pair.new.ceiling
    words = _limited(pair.path, old, new, "above", "lowered")
    if pair.path not in BUDGET_FIELDS:
        return ConstraintEffect(words)
    tightens = old is None or (new is not None and new < old)
    return ConstraintEffect(words, tightens=tightens, loosens=not tightens)


def _forced(pair: _FieldPair) -> ConstraintEffect:
    path, old, new = pair.path, pair.old.force, pair.new.force
    if new is None:
        return _unclear_of_budgets(path, f"the engine will get {path} as it is sent instead of {text_of(old)}")
    was = "" if old is None else f" instead of {text_of(old)}"
    return _unclear_of_budgets(path, f"the engine will get {text_of(new)} for {path}{was}, whatever is sent")


def _dropped(pair: _FieldPair) -> ConstraintEffect:
    path, is_gone = pair.path, pair.new.drop
    words = f"the engine will {'not get' if is_gone else 'get'} {path}{'' if is_gone else ' again'}"
    return _unclear_of_budgets(path, words)


def _defaulted(pair: _FieldPair) -> ConstraintEffect:
    old, new = pair.old.default, pair.new.default
    instead = "the engine's default" if new is None else text_of(new)
    was = "" if old is None else f" instead of {text_of(old)}"
    return ConstraintEffect(f"requests without {pair.path} will get {instead}{was}")


def _unclear_of_budgets(path: str, words: str) -> ConstraintEffect:
    """Return the effect of an edit; whether it lowers an output budget cannot be determined."""
    return ConstraintEffect(words, None, None) if path in BUDGET_FIELDS else ConstraintEffect(words)


_OF_VALUES: Final[Mapping[ComparisonKind, Callable[..., ConstraintEffect]]] = {
    "flag": lambda old, new, which: constraints.flag(old, new, which("")),
    "types": lambda old, new, which: constraints.accepted(_kinds(old), _kinds(new), which, _or),
    "accepted": constraints.accepted,
    "at least": constraints.at_least,
    "at most": constraints.at_most,
    "pattern": lambda old, new, which: constraints.pattern(old, new, which("")),
    "demands": constraints.demands,
    "exclusions": constraints.exclusions,
}
"""How the values of a constraint are compared, given both and the text for the requests that values concern."""

_EDITS: Final[Mapping[ComparisonKind, Callable[[_FieldPair], ConstraintEffect]]] = {
    "sources": _taken,
    "map": _mapped,
    "floor": _floor,
    "ceiling": _ceiling,
    "force": _forced,
    "drop": _dropped,
    "default": _defaulted,
}
