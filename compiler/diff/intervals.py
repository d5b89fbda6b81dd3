"""Compare two rules for one sampling parameter: the values that only one accepts, and the injected value."""

from dataclasses import dataclass

from compiler.diff.values import same, span
from router.contract.jsonbytes.numbers import show
from router.contract.rules.sampling import expectation
from router.contract.schema.fields import WHOLE_NUMBER_FIELDS
from router.contract.schema.rule_list import Const, Range
from router.contract.schema.sections import Interval

Rule = Const | Range | None


@dataclass(frozen=True, slots=True)
class NumberInterval:
    """The numbers between two ends; an open end is excluded."""

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False

    def words(self, field: str) -> str:
        """Describe values of a field in words."""
        if field in WHOLE_NUMBER_FIELDS:
            return span(int(self.low) + self.low_open, int(self.high) - self.high_open)
        if self.low == self.high:
            return show(self.low)
        below, above = ("<" if is_open else "≤" for is_open in (self.low_open, self.high_open))
        return f"{show(self.low)} {below} {field} {above} {show(self.high)}"


def accepted(rule: Rule) -> Interval | None:
    """Return the values that pass a rule, None where any does."""
    if isinstance(rule, Range):
        return Interval(rule.min, rule.max)
    if rule is None or rule.conflict == "allow":
        return None
    return Interval(rule.value, rule.value)


def only_in(these: Interval, those: Interval) -> tuple[NumberInterval, ...]:
    """Return the numbers of one interval that are not in the other."""
    if these.max < those.min or those.max < these.min:
        return (NumberInterval(these.min, these.max),)
    below = (NumberInterval(these.min, those.min, high_open=True),) if these.min < those.min else ()
    above = (NumberInterval(those.max, these.max, low_open=True),) if those.max < these.max else ()
    return below + above


def passing_only(field: str, rule: Rule, other: Rule) -> str:
    """Describe the values of a field that only the first of two rules accepts; an empty string if there are none."""
    these, those = accepted(rule), accepted(other)
    if other is None or those is None:
        return ""
    if these is None:
        return f"anything but {expectation(other)}"
    return " or ".join(stretch.words(field) for stretch in only_in(these, those))


def injected(rule: Rule) -> float | None:
    """Return the value for a request without the parameter, None if none is injected."""
    return rule.value if isinstance(rule, Const) else None


def injection(before: Rule, after: Rule) -> str:
    """Describe how the injected value changes; an empty string if it does not."""
    old, new = injected(before), injected(after)
    if same(old, new):
        return ""
    if old is None:
        return f"requests without it will get {new!r}"
    instead = "the engine's default" if new is None else repr(new)
    note = ", the same number" if old == new else ""
    return f"requests without it will get {instead} instead of {old!r}{note}"
