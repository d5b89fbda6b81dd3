"""Compare the rules of request fields, constraint by constraint."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from compiler.artifact.to_profile import error_of, field_of
from compiler.diff import constraints
from compiler.diff.change import EVIDENCE, Change, ConstraintEffect, change, combined, rejection_and_acceptance
from compiler.diff.intervals import NumberInterval
from compiler.diff.values import Value, listed, same, text_of
from router.contract.jsonbytes.numbers import show
from router.contract.schema.fields import BUDGET_FIELDS, SAMPLING_FIELDS
from router.contract.schema.sections import Field
from router.contract.schema.types import Scalar

OTHER_WORDS: Final = "rejections by it will be worded differently"
_NOTHING: Final = Field()
_KINDS: Final = {"number": ("a whole number", "a number that is not whole"), "integer": ("a whole number",)}


class _Bound(NamedTuple):
    """One end of a range; an open one is not in it."""

    key: str
    value: float
    is_open: bool


class _FieldPair(NamedTuple):
    """The two rules of one field."""

    path: str
    old: Field
    new: Field


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
    yield from _demands(pair)
    for one in (_bound(pair, end) for end in _ENDS):
        if one is not None:
            yield one
    for key in ("min_items", "max_items", "max_bytes"):
        yield from _if_differs(pair, key, _count(pair, key))
    yield from _edits(pair)
    old_error, new_error = error_of(pair.old), error_of(pair.new)
    if not same(old_error, new_error):
        yield Change(("fields", pair.path, "error"), old_error, new_error, OTHER_WORDS)
    yield from _if_differs(pair, "source", ConstraintEffect(EVIDENCE))


def _if_differs(pair: _FieldPair, key: str, effect: ConstraintEffect, attribute: str = "") -> Iterator[Change]:
    old, new = (_said(field, attribute or key) for field in (pair.old, pair.new))
    if not same(old, new):
        yield change(("fields", pair.path, key), old, new, effect)


def _said(field: Field, attribute: str) -> Any:  # noqa: ANN401 - any value of a constraint
    """Return one setting of a field, None if it is not set."""
    value = getattr(field, attribute)
    return value if value or attribute in {"allowed", *_MAY_BE_ZERO} else None


_MAY_BE_ZERO: Final = ("min_items", "max_items", "floor", "ceiling", "force", "default")


def _demands(pair: _FieldPair) -> Iterator[Change]:
    path, old, new = pair
    sending = f"requests sending {path}"
    yield from _if_differs(pair, "required", constraints.flag(old.required, new.required, f"requests without {path}"))
    yield from _if_differs(pair, "reject", constraints.flag(old.reject, new.reject, sending))
    yield from _if_differs(pair, "type", _types(pair))
    yield from _if_differs(
        pair, "allowed", constraints.accepted(old.allowed, new.allowed, lambda values: f"{sending} as {values}")
    )
    yield from _if_differs(
        pair,
        "requires",
        constraints.demands(old.requires, new.requires, lambda missing: f"{sending} without {missing}"),
    )
    yield from _if_differs(
        pair,
        "excludes",
        constraints.exclusions(old.excludes, new.excludes, lambda found: f"{sending} with {found}"),
    )
    yield from _if_differs(pair, "pattern", constraints.pattern(old.pattern, new.pattern, f"{sending} as a text"))


def _types(pair: _FieldPair) -> ConstraintEffect:
    old, new = (_kinds(field) for field in (pair.old, pair.new))
    return constraints.accepted(old, new, lambda kinds: f"requests sending {pair.path} as {kinds}", _or)


def _or(kinds: Iterable[Scalar]) -> str:
    return " or ".join(map(str, kinds)).replace(" or ".join(_KINDS["number"]), "a number")


def _kinds(field: Field) -> tuple[str, ...] | None:
    """Return the types of values that a field accepts, in which an integer is also a number; None: any."""
    if not field.type:
        return None
    return tuple(dict.fromkeys(kind for name in field.type for kind in _KINDS.get(name, (_with_article(name),))))


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _bound(pair: _FieldPair, keys: tuple[str, str]) -> Change | None:
    """Return the change of one end of the range, under the key that sets it now."""
    old, new = (_read_bound(field, keys) for field in (pair.old, pair.new))
    if same(old, new):
        return None
    key = (new or old or _Bound(keys[0], 0, is_open=False)).key
    same_key = old is None or new is None or old.key == new.key
    shown = [bound and (bound.value if same_key else {bound.key: bound.value}) for bound in (old, new)]
    upper = keys[0] == "max"
    gone, gained = _outside(pair.path, new, old, upper=upper), _outside(pair.path, old, new, upper=upper)
    if _begins(pair.old, pair.new, keys):
        gone += _NO_NUMBER
    if _begins(pair.new, pair.old, keys):
        gained += _NO_NUMBER
    effect = rejection_and_acceptance(gone and f"requests sending {gone}", gained and f"requests sending {gained}")
    return change(("fields", pair.path, key), shown[0], shown[1], effect)


_NO_NUMBER: Final = ", or what is no number,"
_ENDS: Final = (("min", "above"), ("max", "below"))


def _begins(without: Field, ranged: Field, keys: tuple[str, str]) -> bool:
    """Return whether a rule has a range, another has none, and this is the first end of it."""
    ends = [end for end in _ENDS if _read_bound(ranged, end) is not None]
    return not any(_read_bound(without, end) for end in _ENDS) and ends[:1] == [keys]


def _read_bound(field: Field, keys: tuple[str, str]) -> _Bound | None:
    for key in keys:
        value = getattr(field, key)
        if value is not None:
            return _Bound(key, value, key in {"above", "below"})
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


def _count(pair: _FieldPair, key: str) -> ConstraintEffect:
    old, new = getattr(pair.old, key), getattr(pair.new, key)
    if key == "min_items":
        return constraints.at_least(old, new, lambda counts: f"requests whose items in {pair.path} number {counts}")
    if key == "max_items":
        return constraints.at_most(old, new, lambda counts: f"requests whose items in {pair.path} number {counts}")
    return constraints.at_most(old, new, lambda counts: f"requests sending a text of {counts} bytes in {pair.path}")


def _edits(pair: _FieldPair) -> Iterator[Change]:
    path, old, new = pair
    for attribute, key in (("sources", "from"), ("map", "map")):
        yield from _if_differs(pair, key, _translated(pair, key), attribute)
    yield from _if_differs(pair, "floor", ConstraintEffect(_limited(path, old.floor, new.floor, "below", "raised")))
    lowered = _limited(path, old.ceiling, new.ceiling, "above", "lowered")
    yield from _if_differs(pair, "ceiling", _ceiling(pair, lowered))
    yield from _if_differs(pair, "force", _unclear_of_budgets(path, _forced(pair)))
    dropped = f"the engine will {'not get' if new.drop else 'get'} {path}{'' if new.drop else ' again'}"
    yield from _if_differs(pair, "drop", _unclear_of_budgets(path, dropped))
    instead = "the engine's default" if new.default is None else text_of(new.default)
    was = "" if old.default is None else f" instead of {text_of(old.default)}"
    yield from _if_differs(pair, "default", ConstraintEffect(f"requests without {path} will get {instead}{was}"))


def _translated(pair: _FieldPair, key: str) -> ConstraintEffect:
    path, new = pair.path, pair.new
    if key == "map":
        pairs = [f"{text_of(value)} for {sent}" for sent, value in new.map.items()]
        words = (
            f"the engine will get {listed_words(pairs)}" if pairs else "the engine will get the values that are sent"
        )
        return _unclear_of_budgets(path, f"{words} in {path}")
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


def _ceiling(pair: _FieldPair, words: str) -> ConstraintEffect:
    old, new = pair.old.ceiling, pair.new.ceiling
    if pair.path not in BUDGET_FIELDS:
        return ConstraintEffect(words)
    tightens = old is None or (new is not None and new < old)
    return ConstraintEffect(words, tightens=tightens, loosens=not tightens)


def _forced(pair: _FieldPair) -> str:
    old, new = pair.old.force, pair.new.force
    if new is None:
        return f"the engine will get {pair.path} as it is sent instead of {text_of(old)}"
    was = "" if old is None else f" instead of {text_of(old)}"
    return f"the engine will get {text_of(new)} for {pair.path}{was}, whatever is sent"


def _unclear_of_budgets(path: str, words: str) -> ConstraintEffect:
    """Return the effect of an edit; whether it lowers an output budget cannot be determined."""
    return ConstraintEffect(words, None, None) if path in BUDGET_FIELDS else ConstraintEffect(words)
