"""Raising: turns a contract into the values of a profile that compiles to it; reverses `from_profile`."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

import msgspec

from compiler.artifact.sizes import size_of
from compiler.language.constraints import stated
from compiler.language.constraints.record import Form
from router.artifact.differences import difference_from, merged_values
from router.artifact.format import Artifact
from router.contract.schema.model import Contract, Sections, When
from router.contract.schema.named_checks import CHECKS, Check, ContentParts, Images, PromptContains
from router.contract.schema.rule_list import PART_LIMITS
from router.contract.schema.sections import (
    Alias,
    Errors,
    Field,
    Interval,
    Mode,
    Models,
    ModeMatch,
    Output,
    Sampling,
    UnknownFields,
    ValueRule,
)
from router.contract.schema.types import Condition, ErrorText, RuleBase, Scalar

NO_DEFAULT: Final = "none"
"""The value in a profile for: no output budget is injected."""

_SIZES_OF_IMAGES: Final = ("max_bytes", "max_url_bytes", "max_total_bytes")


def profile_of(artifact: Artifact) -> dict[str, Any]:
    """Return the bare values of a profile that compiles to the contract and the name of an artifact.

    A case has only what differs from the base; a null in it deletes a value of the base.
    """
    contract = artifact.contract
    base = _sections(contract)
    changes = _changes_of_cases(contract, base)
    cases = {
        case.name: {**_present(group=case.group or None), "when": when_of(case.when), **changes[case.name]}
        for case in contract.cases
        if not case.parts
    }
    values = {
        "models": _models(contract.models),
        "mode": mode_of(contract.mode),
        **base,
        "case_groups": list(contract.case_groups),
        "cases": cases,
    }
    return {"name": artifact.name, **{section: value for section, value in values.items() if value}}


def _changes_of_cases(contract: Contract, base: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what each case changes: in the base, and beyond that in what cases of earlier groups made of it."""
    single = {case.name: case for case in contract.cases if not case.parts}
    changes = {name: difference_from(base, _sections(case.sections)) for name, case in single.items()}
    for case in sorted(contract.cases, key=lambda case: len(case.parts)):
        if case.parts and single.keys() >= {*case.parts}:
            merged = reduce(merged_values, (changes[name] for name in case.parts), base)
            last = case.parts[-1]
            changes[last] = _joined(changes[last], difference_from(merged, _sections(case.sections)))
    return changes


def _joined(changes: dict[str, Any], further: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that have the effect of two; their nulls are kept."""
    joined = dict(changes)
    for key, value in further.items():
        inner = joined.get(key)
        joined[key] = _joined(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return joined


def with_defaults(profile: dict[str, Any], artifact: Artifact) -> dict[str, Any]:
    """Return the bare values of a profile, and beside them every default that the artifact made of it spells out.

    Only what holds for a section that is not written is a default: a field, a check or a case is all that is written.
    """
    defaults = profile_of(artifact)
    for section in ("mode", "fields", "checks", "order", "cases"):
        defaults.pop(section, None)
    filled: dict[str, Any] = _filled(profile, defaults)
    if "cases" in filled and "default" not in profile.get("output", {}).get("max_tokens", {}):
        filled["cases"] = {name: _with_budget_default(case) for name, case in filled["cases"].items()}
    return filled


def _with_budget_default(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case with a cap whose default is stated: otherwise it would inherit the default of the base."""
    budget = (case.get("output") or {}).get("max_tokens") or {}
    if "cap" not in budget or "default" in budget:
        return case
    return {**case, "output": {**case["output"], "max_tokens": {**budget, "default": budget["cap"]}}}


def field_of(field: Field) -> dict[str, Any]:
    """Return the rule of a field as a profile writes it."""
    values = _without_defaults(field) | _written(field)
    if field.default is not None and field.allowed is not None and repr(field.allowed) == repr((field.default,)):
        del values["allowed"], values["default"]
        values = {"fixed": field.default, **values}
    return values


def value_rule_of(rule: ValueRule) -> dict[str, Any]:
    """Return the rule of the items of an array as a profile writes it."""
    values: dict[str, Any] = msgspec.to_builtins(rule)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()} | _written(rule)


def _written(rule: ValueRule) -> dict[str, Any]:
    """Return the constraints of a rule that a profile writes in another way than the artifact."""
    constraints = (each for each in stated(rule) if each.form in _WRITTEN)
    return {each.key: _WRITTEN[each.form](getattr(rule, each.member)) for each in constraints}


def check_of(check: Check) -> dict[str, Any]:
    """Return the rule of a check as a profile writes it."""
    values = _without_defaults(check)
    del values["check"]
    if isinstance(check, Images):
        values |= {key: size_of(values[key]) for key in _SIZES_OF_IMAGES if key in values}
    if isinstance(check, PromptContains):
        values |= _present(when=_values(check.when))
    if isinstance(check, ContentParts):
        values |= _present(by_role=_values(check.by_role))
    return values


def words_of(words: ErrorText) -> dict[str, Any] | str:
    """Return the words of an error as a profile writes them: a text where they are but a message."""
    values: dict[str, Any] = msgspec.to_builtins(words)
    return values["message"] if values.keys() == {"message"} else values


def error_of(rule: RuleBase | Field) -> dict[str, Any] | str | None:
    """Return the words of a rule's rejections, with those of their parts, as a profile writes them; None: none."""
    error = None if rule.error is None else words_of(rule.error)
    parts = {part: words_of(rule.parts[part]) for part in sorted(rule.parts)}
    if not parts:
        return error
    return ({"message": error} if isinstance(error, str) else error or {}) | parts


def alias_of(alias: Alias) -> dict[str, Any]:
    """Return what is said of one alias as a profile writes it."""
    values: dict[str, Any] = msgspec.to_builtins(alias)
    return values


def mode_of(mode: Mode) -> dict[str, Any]:
    """Return how modes are read as a profile writes it; empty where there are none."""
    if mode.default is None:
        return {}
    return _present(default=mode.default, match=[*map(_reading, mode.match)] or None, source=mode.source)


def when_of(when: When) -> dict[str, Any]:
    """Return which requests a case is for as a profile writes it."""
    return _present(model=_one_or_list(when.model), mode=_one_or_list(when.mode), fields=_values(when.fields))


def _filled(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    filled = {**defaults, **values}
    for key, value in values.items():
        below = defaults.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            filled[key] = _filled(value, below)
    return filled


def _sections(sections: Sections) -> dict[str, Any]:
    limits = sections.limits
    unknown = sections.unknown_fields
    stream = sections.response.stream
    return {
        "limits": _present(
            max_body_bytes=size_of(limits.max_body_bytes),
            **{name: getattr(limits, name) for name in PART_LIMITS.values()},
            source=limits.source,
        ),
        "output": _output(sections.output),
        "sampling": _sampling(sections.sampling),
        "fields": {path: field_of(sections.fields[path]) for path in sorted(sections.fields)},
        "checks": {name: check_of(sections.checks[name]) for name in CHECKS if name in sections.checks},
        "unknown_fields": _unknown_fields(unknown),
        "response": {"stream": _present(usage=stream.usage, source=stream.source)},
        "errors": _errors(sections.errors),
        "order": list(sections.order),
    }


def _unknown_fields(unknown: UnknownFields) -> dict[str, Any]:
    within = {
        path: {"policy": members.policy, **_without_defaults(members)} for path, members in unknown.within.items()
    }
    return {"policy": unknown.policy, **_without_defaults(unknown), **_present(within=within or None)}


def _models(models: Models) -> dict[str, Any]:
    plain = all(alias == Alias() for alias in models.aliases.values())
    aliases = {name: alias_of(alias) for name, alias in models.aliases.items()}
    return {
        "aliases": list(aliases) if plain else aliases,
        "respond_as": models.respond_as,
        **_present(default=models.default),
    }


def _reading(reading: ModeMatch) -> dict[str, Any]:
    return _present(mode=reading.mode, model=_one_or_list(reading.model), when=_values(reading.when))


def _output(output: Output) -> dict[str, Any]:
    budget = output.max_tokens
    if budget is None:
        return {}
    default = NO_DEFAULT if budget.default is None else budget.default
    return {
        "max_tokens": _present(cap=budget.cap, on_exceed=budget.on_exceed, default=default, source=budget.source),
    }


def _sampling(sampling: Sampling) -> dict[str, Any]:
    params = {
        name: {"min": value.min, "max": value.max} if isinstance(value, Interval) else value
        for name, value in sampling.params.items()
    }
    return _present(conflict=sampling.conflict, params=params, source=sampling.source)


def _errors(errors: Errors) -> dict[str, Any]:
    return _present(
        bad_request_type=errors.bad_request_type,
        body=errors.body,
        omit_null=errors.omit_null,
        codes={code: words_of(errors.codes[code]) for code in sorted(errors.codes)} or None,
        engine_400=None if errors.engine_400 is None else words_of(errors.engine_400),
        source=errors.source,
    )


def _without_defaults(rule: RuleBase | Field) -> dict[str, Any]:
    """Return what a rule states, the words of its rejections and of their parts in one `error`."""
    values: dict[str, Any] = msgspec.to_builtins(rule)
    values.pop("parts", None)
    if (error := error_of(rule)) is not None:
        values["error"] = error
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _condition(condition: Condition) -> dict[str, Any] | list[str] | None:
    """Return a condition as a profile writes it: a list of paths where each may have any value."""
    if condition and not any(condition.values()):
        return list(condition)
    return _values(condition)


def _values(condition: Mapping[str, tuple[Scalar, ...]]) -> dict[str, Scalar | list[Scalar]] | None:
    """Return the values of a condition: the one, or a list; an empty list stands for any."""
    return {path: _one_or_list(values) if values else [] for path, values in condition.items()} or None


def _one_or_list(values: tuple[Any, ...]) -> Any:  # noqa: ANN401 - what the tuple holds
    """Return the one value of a tuple, or all as a list; None where there is none."""
    return (values[0] if len(values) == 1 else list(values)) if values else None


def _present(**values: object) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


_WRITTEN: Final[dict[Form, Callable[[Any], Any]]] = {
    "types": _one_or_list,
    "condition": _condition,
    "rule": value_rule_of,
}
"""Form of a constraint → its value in a profile, where that is not the one in the artifact."""
