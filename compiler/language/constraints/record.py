"""What is known of one kind of constraint: the record that every phase and command reads."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compiler.diagnostics import Code
from compiler.language.samples import BoundaryValue
from compiler.language.values import Rules
from router.contract.schema.sections import ValueRule, is_stated

Form = Literal["plain", "fixed", "types", "texts", "scalars", "whole", "size", "condition", "rule"]
"""How a profile writes a value, and so how it enters the artifact: see `compiler.artifact`."""

ComparisonKind = Literal[
    "flag",
    "types",
    "accepted",
    "narrower",
    "lower end",
    "upper end",
    "at least",
    "at most",
    "pattern",
    "demands",
    "exclusions",
    "item",
    "sources",
    "map",
    "floor",
    "ceiling",
    "force",
    "drop",
    "default",
]
"""How two values are compared: see `compiler.diff.fields`."""

KindOfRule = Literal[
    "sets",
    "ranges",
    "required, rejected, types",
    "defaults",
    "lengths",
    "cross-field",
    "mapped, forced, dropped",
]
"""The row that a constraint counts as in the tables of what presets enforce."""


@dataclass(frozen=True, slots=True)
class ConstraintComparison:
    """How a change is described. `requests` are those that certain values concern: {path} is the field, {} the values.

    For the kind "narrower": `values` are those that one value accepts, {} is it, and `implies` returns whether a value
    accepts nothing that another rejects.
    """

    kind: ComparisonKind
    requests: str = ""
    values: str = ""
    implies: Callable[[Any, Any], bool] | None = None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The error where two constraints of one field are both stated."""

    code: Code
    message: str


def _no_values(_path: str, _rule: ValueRule) -> Iterable[BoundaryValue]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One kind of constraint, or of change, that the rule of a field may state.

    key: its name in a profile. schema: type, help and example. kind: what it counts as in tables.
    json_schema: the names that mean it in JSON Schema.
    form: how it is written. attribute: the member of `Field` that holds it, where that has another name.
    part, wider: the part of a rule that a violation has, and the wider part whose error text it takes.
    comparison: how a change is described; None: by the constraint that it shares an end of a range with.
    boundary_values: test values for a field with it, at and next to its edges.
    contradicts: constraints that cannot be stated beside it. not_below: those whose values it must not be below.
    is_open: whether its own value is excluded. of_value: whether the value of the field alone keeps or violates it.
    names_values: whether it names values of the field. is_of_numbers: whether it accepts nothing but numbers.
    settles_types: whether it makes values of other types unremarkable as tests.
    is_expected: whether the text of what a rule expects includes it.
    holds_for_messages: whether `messages` may have it.
    """

    key: str
    schema: Rules
    kind: KindOfRule
    form: Form = "plain"
    attribute: str = ""
    json_schema: tuple[str, ...] = ()
    part: str = ""
    wider: str = ""
    comparison: ConstraintComparison | None = None
    boundary_values: Callable[[str, Any], Iterable[BoundaryValue]] = _no_values
    contradicts: Mapping[str, Contradiction] = field(default_factory=dict)
    not_below: tuple[str, ...] = ()
    is_open: bool = False
    of_value: bool = False
    names_values: bool = False
    is_of_numbers: bool = False
    settles_types: bool = False
    is_expected: bool = False
    holds_for_messages: bool = False

    @property
    def member(self) -> str:
        """The member of `Field` that holds it."""
        return self.attribute or self.key


def stated_in(constraints: Iterable[Constraint], rule: ValueRule) -> Iterator[Constraint]:
    """Yield the constraints that the rule of a field, or of its items, states, each member once."""
    known = (each for each in constraints if each.form != "fixed" and hasattr(rule, each.member))
    return (each for each in known if is_stated(rule, each.member))


def boundary_values_of(constraints: Iterable[Constraint], path: str, rule: ValueRule) -> Iterator[BoundaryValue]:
    """Yield the test values of the constraints that a rule states, but for those that name values."""
    found: dict[str, BoundaryValue] = {}
    for constraint in stated_in(constraints, rule):
        for boundary in constraint.boundary_values(path, rule):
            found.setdefault(boundary.description, boundary)
    yield from found.values()


def values_named_in(constraints: Iterable[Constraint], rule: ValueRule) -> list[Any]:
    """Return the values that a rule names, each once."""
    values = [getattr(rule, each.member) for each in stated_in(constraints, rule) if each.names_values]
    each_of = [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
    return list({repr(each): each for each in each_of}.values())
