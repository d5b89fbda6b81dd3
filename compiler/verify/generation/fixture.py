"""The fixture of a rule: a request that reaches one case of the contract and that no rule rejects."""

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import Any, Final, NamedTuple

from compiler.verify.check import ChatRequest, Fields
from compiler.verify.generation.boundary_values import values_for
from compiler.verify.oracle.fields import fault_of_field
from compiler.verify.oracle.oracle import CaseMatch, ForwardedOutcome, Oracle, RejectedOutcome
from compiler.verify.oracle.values import at, copied, put
from router.contract.schema.model import Contract
from router.contract.schema.named_checks import PromptContains
from router.contract.schema.rule_list import FieldRule, Rule
from router.contract.schema.types import Condition

PLAIN: Final = "Say OK."
ANY_VALUE: Final = "verify"
"""The value of a field for a condition that only requires the field to be present."""


class Fixture(NamedTuple):
    """A request that is valid in one case of a contract; tests change one thing in it."""

    oracle: Oracle
    case_match: CaseMatch
    fields: Fields
    rules: tuple[Rule, ...]
    text: str

    @property
    def name(self) -> str | None:
        """The name of the case, None outside of all."""
        return None if self.case_match.case is None else self.case_match.case.name

    def request(self, changes: Fields | None = None) -> ChatRequest:
        """Return the request with other values for some fields, by dotted path."""
        fields = copied(self.fields)
        for path, value in (changes or {}).items():
            put(fields, path, copied(value))
        return ChatRequest.of(fields)

    def without(self, *paths: str) -> ChatRequest:
        """Return the request without some of its top-level fields."""
        return ChatRequest.of({name: value for name, value in self.fields.items() if name not in paths})

    def outcome(self, request: ChatRequest) -> RejectedOutcome | ForwardedOutcome:
        """Return the expected result of a request."""
        return self.oracle.outcome(request)

    def accepts(self, request: ChatRequest) -> bool:
        """Return whether a request is valid, so that an engine responds."""
        return isinstance(self.outcome(request), ForwardedOutcome)

    def rejects(self, request: ChatRequest, rule: str) -> bool:
        """Return whether a rule must reject a request."""
        outcome = self.outcome(request)
        return isinstance(outcome, RejectedOutcome) and outcome.rule == rule


def fixtures(oracle: Oracle, asked: Iterable[str]) -> Iterator[Fixture]:
    """Yield the situations of a contract: one for each requested name and each way to reach a mode or a case.

    `asked`: the names that requests may use. Only the first is combined with several conditions.
    """
    for case_match, name in enumerate(asked):
        for conditions in _conditions(oracle.contract, are_joined=case_match == 0):
            found = _fixture(oracle, name, conditions)
            if found is not None:
                yield found


def example_names(globs: Iterable[str]) -> Iterator[str]:
    """Yield for each glob a name that it matches."""
    for glob in globs:
        name = glob.removesuffix("*")
        name = f"some{name[1:]}" if name.startswith("*") else name
        yield name.replace("*", "-x-").replace("?", "x")


def first_values(condition: Condition) -> Fields:
    """Return fields by dotted path that meet a condition."""
    return {path: wanted[0] if wanted else ANY_VALUE for path, wanted in condition.items()}


def _conditions(contract: Contract, *, are_joined: bool) -> list[Fields]:
    """Return fields that bring a request into a mode or a case, and some that just fail to, nothing at all first."""
    of_modes = [each for reading in contract.mode.match if reading.when for each in _ways(reading.when)]
    of_cases = [each for case in contract.cases if case.when.fields for each in _ways(case.when.fields)]
    single = [{}, *of_modes, *of_cases]
    missed = [missing for each in single[1:] for missing in _missed(each)]
    single += [{**mode, **case} for mode in of_modes for case in of_cases]
    if not are_joined:
        return _distinct([*single, *missed])
    both = [{**other, **one} for one, other in combinations([*of_modes, *of_cases, *missed], 2)]
    return _distinct([*single, *missed, *both])


def _ways(condition: Condition) -> Iterator[Fields]:
    """Yield fields that meet a condition, each of its values at least once."""
    plain = first_values(condition)
    yield plain
    yield from ({**plain, path: value} for path, wanted in condition.items() for value in wanted[1:])


def _missed(conditions: Fields) -> Iterator[Fields]:
    """Yield conditions in which one value differs from the expected one."""
    for path, value in conditions.items():
        for other in _OTHERS.get(value, ()) if isinstance(value, str) else _next_to(value):
            yield {**conditions, path: other}


def _next_to(value: object) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value, ANY_VALUE)
    return (value + 0.5,) if isinstance(value, int | float) else ()


_OTHERS: Final = {"disabled": ("enabled",), "enabled": ("disabled",), "none": ("high", "low")}
"""Synonyms among vendors' keywords."""


def _distinct(found: list[Fields]) -> list[Fields]:
    return [each for case_match, each in enumerate(found) if each not in found[:case_match]]


def _fixture(oracle: Oracle, name: str, conditions: Fields) -> Fixture | None:
    """Return a situation of a request for a name with these fields, None where everything like it is rejected."""
    fields: Fields = {"model": name, "messages": [{"role": "user", "content": PLAIN}]}
    for path, value in conditions.items():
        put(fields, path, value)
    served = oracle.served_for(name)
    if served is None:
        return None
    case_match = oracle.case_match_of(oracle.with_implied(fields, served), served)
    _, rules = oracle.sections_of(case_match)
    text = _text_for(rules)
    for messages, budget in product(_conversations(text), _BUDGETS):
        candidate = copied({**fields, "messages": messages, **budget})
        _add_required(candidate, rules)
        outcome = oracle.outcome(ChatRequest.of(candidate))
        if isinstance(outcome, ForwardedOutcome) and outcome.case_match == case_match:
            return Fixture(oracle, case_match, candidate, rules, text)
    return None


_BUDGETS: Final[tuple[Fields, ...]] = ({"max_tokens": 1}, {"max_completion_tokens": 1}, {"max_tokens": 16}, {})


def _text_for(rules: tuple[Rule, ...]) -> str:
    words = [check.word for rule in rules if isinstance(check := getattr(rule, "check", None), PromptContains)]
    return f"Say OK as {', '.join(words)}." if words else PLAIN


def _conversations(text: str) -> Iterator[list[Any]]:
    yield [{"role": "user", "content": text}]
    yield [{"role": "system", "content": text}, {"role": "user", "content": text}]


def _add_required(fields: Fields, rules: tuple[Rule, ...]) -> None:
    for rule in rules:
        if isinstance(rule, FieldRule) and rule.field.required and at(fields, rule.path) is None:
            for value in values_for(rule):
                put(fields, rule.path, value)
                if fault_of_field(rule, fields) is None:
                    break
