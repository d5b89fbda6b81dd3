"""What the rules of a contract do, each in a few words: the tables of presets on the reference page."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from compiler.artifact.to_profile import check_of, field_of, when_of
from compiler.language.constraints import CONSTRAINTS
from compiler.language.schema import BYTE_UNITS
from compiler.source.yaml_writer import in_one_line
from router.contract.rules.field_tests import expectation
from router.contract.schema.model import Case, Contract, Sections
from router.contract.schema.rule_list import (
    BodyLimit,
    Budget,
    CheckRule,
    Const,
    FieldRule,
    PartLimit,
    Range,
    Rule,
    UnknownFieldsRule,
)
from router.contract.schema.sections import Alias, Errors, Field

TableRow = tuple[str, str]

_TEXTS = ("error", "source")
"""Members of a rule that the table leaves out: its error texts and its evidence."""


def rows_of(contract: Contract) -> Iterator[TableRow]:
    """Yield the active keys of a contract, each with its effect, then those of its cases."""
    yield from _of_names(contract)
    if contract.mode.default is not None:
        modes = dict.fromkeys((contract.mode.default, *(reading.mode for reading in contract.mode.match)))
        yield "`mode`", f"a request is in the mode {_or(modes)}, by default {contract.mode.default}"
    base = [*_of_rules(contract, contract.rules)]
    yield from base
    own = {case.name: [*_of_case(case, contract, base)] for case in contract.cases}
    for case in contract.cases:
        of_parts = [row for part in case.parts for row in own[part]]
        rows = [row for row in own[case.name] if row not in of_parts]
        if rows or not case.parts:
            yield f"`cases.{case.name}`", _requests_of(case)
            yield from ((f"`cases.{case.name}.{key[1:]}", words) for key, words in rows)


def _requests_of(case: Case) -> str:
    if case.parts:
        return f"for requests of {_and([*case.parts])}: what differs from both"
    group = f"; group `{case.group}`" if case.group else ""
    return f"for requests of `{in_one_line(when_of(case.when))}`{group}"


def _of_case(case: Case, contract: Contract, base: list[TableRow]) -> Iterator[TableRow]:
    """Yield what is active in a case and not in the base, and what is not active any more."""
    rows = [*_of_rules(case.sections, contract.case_rules[case.name])]
    yield from (row for row in rows if row not in base)
    left = {key for key, _ in rows}
    yield from ((key, "not active") for key, _ in base if key not in left)


def _of_names(contract: Contract) -> Iterator[TableRow]:
    aliases = contract.models.aliases
    plain = [name for name, alias in aliases.items() if alias.model is None and not alias.implies]
    if plain:
        names = ", ".join(f"`{name}`" for name in plain)
        yield "`models.aliases`", f"{names} are accepted; responses have the {contract.models.respond_as} name"
    if contract.models.default is not None:
        yield "`models.default`", f"a request without a model is for `{contract.models.default}`"
    yield from ((f"`models.aliases.{name}`", _alias(alias)) for name, alias in aliases.items() if name not in plain)


def _alias(alias: Alias) -> str:
    routed = "accepted" if alias.model is None else f"routed as `{alias.model}`"
    return f"{routed}, and implies `{in_one_line(alias.implies)}`" if alias.implies else routed


def _of_rules(sections: Sections, rules: tuple[Rule, ...]) -> Iterator[TableRow]:
    yield from ((f"`{rule.rule}`", words_of(rule)) for rule in rules)
    usage = sections.response.stream.usage
    if usage != "as_asked":
        where = "the frame that ends the response" if usage == "end_frame" else "a frame of its own"
        yield "`response.stream.usage`", f"a streamed response reports its usage in {where}"
    yield from _of_errors(sections.errors)


def _of_errors(errors: Errors) -> Iterator[TableRow]:
    if errors.bad_request_type is not None:
        yield "`errors.bad_request_type`", f"every 400 carries the type `{errors.bad_request_type}`"
    if errors.body is not None:
        yield "`errors.body`", f"errors have the envelope `{in_one_line(errors.body)}`"
    if errors.codes:
        yield "`errors.codes`", f"the vendor's error texts for {_and(sorted(errors.codes))}"
    if errors.engine_400 is not None:
        yield "`errors.engine_400`", "an engine's 400 has the vendor's error text"


def words_of(rule: Rule) -> str:
    """Say what a rule does."""
    return WORDS[type(rule)](rule)


def _of_const(rule: Const) -> str:
    other = "rejected" if rule.conflict == "reject" else "passed on"
    return f"`{rule.value}` is injected, any other value is {other}"


def _of_budget(rule: Budget) -> str:
    above = "rejected" if rule.on_exceed == "reject" else "lowered to it"
    injected = "nothing" if rule.default is None else f"`{rule.default}`"
    return f"a budget above {rule.cap} is {above}, {injected} is injected"


def _of_check(rule: CheckRule) -> str:
    settings = {key: value for key, value in check_of(rule.check).items() if key not in _TEXTS}
    return f"the check is made: `{in_one_line(settings)}`" if settings else "the check is made"


def _of_unknown_fields(rule: UnknownFieldsRule) -> str:
    becomes = "rejected" if rule.unknown_fields.policy == "reject" else "not sent to the engine"
    what = f"members of `{rule.path}`" if rule.path else "fields"
    return f"{what} beyond {len(rule.known)} known ones are {becomes}"


def _field(field: Field) -> str:
    settings: dict[str, Any] = {key: value for key, value in field_of(field).items() if key not in _TEXTS}
    if settings.keys() == {"reject"}:
        return "sending it is rejected"
    if settings.keys() == {"fixed"}:
        return f"{_code(settings['fixed'])} is injected, any other value is rejected"
    known = {constraint.key for constraint in CONSTRAINTS if constraint.is_expected}
    words = [f"{expectation(field)}, any other value is rejected"] if known & settings.keys() else []
    others = {key: value for key, value in settings.items() if key not in known}
    words += [f"`{in_one_line(others)}`"] if others else []
    return "; ".join(words) or "a known field"


def _code(value: object) -> str:
    return f"`{in_one_line(value)}`"


def _or(names: Any) -> str:  # noqa: ANN401 - any iterable of names
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else str(last)


def _and(names: list[str]) -> str:
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} and {last}" if others else last


def _size(count: int) -> str:
    unit = next(unit for unit, size in reversed(BYTE_UNITS.items()) if count % size == 0)
    return f"{count // BYTE_UNITS[unit]} {unit}"


WORDS: Final[dict[type, Callable[[Any], str]]] = {
    BodyLimit: lambda rule: f"a body over {_size(rule.max_bytes)} is rejected",
    Const: _of_const,
    Range: lambda rule: f"a value outside `{rule.min}` to `{rule.max}` is rejected, nothing is injected",
    PartLimit: lambda rule: f"more than {rule.max} {rule.modality}s are rejected",
    Budget: _of_budget,
    FieldRule: lambda rule: _field(rule.field),
    CheckRule: _of_check,
    UnknownFieldsRule: _of_unknown_fields,
}
"""What says in words what each kind of rule does."""
