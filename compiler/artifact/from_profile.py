"""Lowering: turns the values of a validated profile into a contract, normalised and with every default."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, Final

import msgspec

from compiler.artifact.sizes import bytes_of
from compiler.language.constraints import BY_KEY
from compiler.language.constraints.record import Form
from router.artifact.differences import merged_values
from router.contract.schema.combinations import SEPARATOR, combinations
from router.contract.schema.fields import SAMPLING_FIELDS, WHOLE_NUMBER_FIELDS
from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.named_checks import CHECK_TYPES, CHECKS, Check
from router.contract.schema.rule_list import PART_LIMITS
from router.contract.schema.sections import (
    Alias,
    Errors,
    Field,
    Interval,
    Limits,
    MaxTokens,
    Mode,
    Models,
    ModeMatch,
    Output,
    Response,
    Sampling,
    Stream,
    UnknownFields,
    UnknownMembers,
    ValueRule,
    plain_aliases,
)
from router.contract.schema.types import Condition, ErrorText, RuleBase, Scalar

Values = dict[str, Any]

_WORDS = frozenset(ErrorText.__struct_fields__)


def contract_of(profile: Values) -> Contract:
    """Return the contract that a merged and validated profile means, given as its bare values."""
    return Contract(
        **_sections(profile),
        case_groups=tuple(profile.get("case_groups", ())),
        cases=tuple(_cases(profile)),
        mode=mode_of(profile.get("mode", {})),
        models=_models(profile.get("models", {})),
    )


def _cases(profile: Values) -> Iterator[Case]:
    """Yield the cases of a profile, with the combinations of cases of several groups."""
    cases: Values = profile.get("cases", {})
    for names, when in _combinations(profile):
        sections = Sections(**_sections(reduce(merged_values, (cases[name] for name in names), profile)))
        if len(names) == 1:
            yield Case(names[0], when, sections, group=cases[names[0]].get("group", ""))
        else:
            yield Case(SEPARATOR.join(names), when, sections, parts=names)


def combined_names(profile: Values) -> Iterator[tuple[str, ...]]:
    """Yield the names of the cases of each combination, single cases included; conditions must be valid."""
    return (names for names, _ in _combinations(profile))


def _combinations(profile: Values) -> Iterator[tuple[tuple[str, ...], When]]:
    cases: Values = profile.get("cases", {})
    whens = {name: when_of(merged_values({}, case["when"])) for name, case in cases.items()}
    group_of = {name: case.get("group", "") for name, case in cases.items()}
    return combinations(whens, group_of, profile.get("case_groups", ()))


def when_of(section: Values) -> When:
    """Return which requests a case is for, given as its bare values."""
    return When(
        model=_texts(section.get("model", ())),
        mode=_texts(section.get("mode", ())),
        fields=_condition(section.get("fields", {})),
    )


def _sections(profile: Values) -> dict[str, Any]:
    checks = profile.get("checks", {})
    return {
        "checks": {name: _check(name, checks[name]) for name in CHECKS if name in checks},
        "errors": _errors(profile.get("errors", {})),
        "fields": {path: field_of(field) for path, field in profile.get("fields", {}).items()},
        "limits": _limits(profile.get("limits", {})),
        "order": tuple(profile.get("order", ())),
        "output": _output(profile.get("output", {})),
        "sampling": _sampling(profile.get("sampling", {})),
        "response": Response(Stream(**profile.get("response", {}).get("stream", {}))),
        "unknown_fields": _unknown_fields(profile.get("unknown_fields", {})),
    }


def mode_of(section: Values) -> Mode:
    """Return how the mode of a request is found, given as its bare values."""
    match = (
        ModeMatch(reading["mode"], _texts(reading.get("model", ())), _condition(reading.get("when", {})))
        for reading in section.get("match", ())
    )
    return Mode(**{**section, "match": tuple(match)})


def _models(section: Values) -> Models:
    aliases = section.get("aliases", ())
    named = plain_aliases(*aliases) if isinstance(aliases, list | tuple) else {}
    if isinstance(aliases, dict):
        named = {name: Alias(**alias) for name, alias in aliases.items()}
    return Models(**{**section, "aliases": named})


def _limits(section: Values) -> Limits:
    limits = dict(section)
    if "max_body_bytes" in limits:
        limits["max_body_bytes"] = _size(limits["max_body_bytes"])
    for limit in PART_LIMITS.values():
        if limit in limits:
            limits[limit] = int(limits[limit])
    return Limits(**limits)


def _output(section: Values) -> Output:
    budget = section.get("max_tokens")
    if budget is None:
        return Output()
    cap = int(budget["cap"])
    default = budget.get("default", cap)
    return Output(MaxTokens(**{**budget, "cap": cap, "default": None if default == "none" else int(default)}))


def _sampling(section: Values) -> Sampling:
    written = section.get("params", {})
    params = {name: _expected(name, written[name]) for name in SAMPLING_FIELDS if name in written}
    return Sampling(**{**section, "params": params})


def _expected(name: str, value: Any) -> int | float | Interval:  # noqa: ANN401 - a number, or a dict of two
    if isinstance(value, dict):
        return Interval(_number(name, value["min"]), _number(name, value["max"]))
    return _number(name, value)


def _number(name: str, value: float) -> int | float:
    return int(value) if name in WHOLE_NUMBER_FIELDS else value


def field_of(section: Values) -> Field:
    """Return the rule of a field that the values of its section mean."""
    return Field(**_constraints(_rule_values(section)))


def _value_rule(section: Values) -> ValueRule:
    return ValueRule(**_constraints(section))


def _constraints(section: Values) -> Values:
    """Return the members of a rule that the values of its section mean."""
    members: Values = {}
    for key, value in section.items():
        constraint = BY_KEY.get(key)
        if constraint is None:
            members[key] = value
        elif constraint.form == "fixed":
            members |= {"allowed": (value,), "default": value}
        else:
            members[constraint.member] = _NORMAL[constraint.form](value)
    return members


def _check(name: str, section: Values) -> Check:
    values = _rule_values(section)
    for key, value in values.items():
        if key in {"max", "max_data_urls"}:
            values[key] = int(value)
        elif key in {"max_bytes", "max_url_bytes", "max_total_bytes"}:
            values[key] = _size(value)
        elif key in _LISTS:
            values[key] = _texts(value)
        elif key == "when":
            values[key] = _condition(value)
        elif key == "by_role":
            values[key] = {role: _texts(value[role]) for role in sorted(value)}
    return CHECK_TYPES[name](**values)  # type: ignore[return-value]


_LISTS = frozenset({"allowed", "any_of", "roles", "types", "forbidden_names", "requires_tools", "sources"})
"""Members of checks that are several texts."""


def _unknown_fields(section: Values) -> UnknownFields:
    values = {
        **_rule_values(section),
        "known": tuple(section.get("known", ())),
        "within": {path: _unknown_members(members) for path, members in sorted(section.get("within", {}).items())},
    }
    return UnknownFields(**_without_defaults(UnknownFields, values))


def _unknown_members(section: Values) -> UnknownMembers:
    values = {**_rule_values(section), "known": tuple(section.get("known", ()))}
    return UnknownMembers(**_without_defaults(UnknownMembers, values))


def _without_defaults(kind: type[RuleBase], values: Values) -> Values:
    """Return values without those that are the defaults: msgspec leaves these out of JSON only by their identity."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    return {key: value for key, value in values.items() if repr(value) != repr(defaults.get(key, ...))}


def _errors(section: Values) -> Errors:
    errors = dict(section)
    if "codes" in errors:
        errors["codes"] = {code: _words(words) for code, words in errors["codes"].items()}
    if "engine_400" in errors:
        errors["engine_400"] = _words(errors["engine_400"])
    return Errors(**errors)


def _rule_values(section: Values) -> Values:
    """Return a section with the words of its rejections, and those of their parts."""
    if "error" not in section:
        return dict(section)
    error = section["error"]
    if isinstance(error, str):
        return {**section, "error": _words(error)}
    whole = {key: value for key, value in error.items() if key in _WORDS}
    parts = {key: _words(value) for key, value in error.items() if key not in _WORDS}
    return {**section, "error": _words(whole) if whole else None, "parts": parts}


def _words(error: str | Values) -> ErrorText:
    if isinstance(error, str):
        return ErrorText(message=error)
    words = dict(error)
    for key in ("status", "code"):
        if _is_number(words.get(key)):
            words[key] = int(words[key])
    return ErrorText(**words)


def _condition(written: Any) -> Condition:  # noqa: ANN401 - a path, paths, or paths with values
    if isinstance(written, dict):
        return {path: _scalars(values) for path, values in written.items()}
    return dict.fromkeys(_texts(written), ())


def _texts(written: Any) -> tuple[str, ...]:  # noqa: ANN401 - one or many
    return (written,) if isinstance(written, str) else tuple(written)


def _scalars(written: Any) -> tuple[Scalar, ...]:  # noqa: ANN401 - one or many
    return tuple(written) if isinstance(written, list | tuple) else (written,)


def _size(size: Any) -> int | None:  # noqa: ANN401 - a number, or a text with a unit
    return bytes_of(size) if isinstance(size, str) else int(size)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_NORMAL: Final[dict[Form, Callable[[Any], Any]]] = {
    "plain": lambda value: value,
    "types": _texts,
    "texts": _texts,
    "scalars": _scalars,
    "whole": int,
    "size": _size,
    "condition": _condition,
    "rule": _value_rule,
}
"""Form of a constraint → its value in the artifact."""
