"""What a client can observe of a rule: what it accepts and rejects, and nothing of the engine's request."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from compiler.artifact.to_profile import check_of, error_of, field_of
from compiler.diff.change import Change
from compiler.diff.changes import compare_sections
from compiler.diff.client_view import VisibleResponse
from compiler.diff.fields import compare_fields
from compiler.diff.values import Value
from compiler.language.constraints import CONSTRAINTS
from router.contract.schema.model import Sections
from router.contract.schema.rule_list import UNKNOWN_WITHIN, UnknownFieldsRule
from router.contract.schema.sections import Errors, Field, Interval, MaxTokens, Output, Sampling, UnknownFields
from router.contract.schema.types import RuleBase

Setting = tuple[str, ...]
"""The position of a setting in a profile, by its keys."""

_NOTHING: Final = Field()
_AT_THE_ENGINE: Final[dict[str, Any]] = {
    member: getattr(_NOTHING, member) for member in (*(each.member for each in CONSTRAINTS if not each.part), "source")
}
"""Members of a field's rule that concern the engine's request, or the source of the rule."""


def setting_of(rule: str) -> Setting:
    """Return the position of a rule in a profile."""
    if rule.startswith("fields."):
        return "fields", rule.removeprefix("fields.")
    if rule.startswith(f"{UNKNOWN_WITHIN}."):
        return (*UNKNOWN_WITHIN.split("."), rule.removeprefix(f"{UNKNOWN_WITHIN}."))
    return tuple(rule.split("."))


def subject_of(rule: str) -> Setting:
    """Return the subject of a rule: a sampling parameter is the field of that name, in either section."""
    setting = setting_of(rule)
    return ("fields", setting[-1]) if setting[0] == "sampling" else setting


def changes_of(old: Sections, new: Sections, setting: Setting) -> Iterator[Change]:
    """Yield what differs in a rule, of what clients can observe, all else being equal."""
    if setting[0] in {"fields", "sampling"}:
        rules = ({} if (field := _field(each, setting)) is None else {setting[-1]: field} for each in (old, new))
        for change in compare_fields(*rules):
            yield replace(change, at=(*setting, *change.at[2:]))
        return
    for change in compare_sections(_visible(old), _visible(new)):
        if change.at == setting == ("output", "max_tokens"):
            yield _without_default(change)
        elif change.at[: len(setting)] == setting:
            yield change


def _without_default(change: Change) -> Change:
    """Return the change of an added or removed budget rule without its effect on requests that name no budget."""
    before, after = (_budget(each) if isinstance(each, MaxTokens) else None for each in (change.before, change.after))
    return replace(change, before=before, after=after, consequence=change.consequence.partition(_UNNAMED)[0])


_UNNAMED: Final = "; those naming no budget"


def _budget(budget: MaxTokens) -> Value:
    return {"cap": budget.cap, "on_exceed": budget.on_exceed}


def stated(response: VisibleResponse, setting: Setting) -> Value:
    """Return the value of a setting for a request, as a profile writes it; None: clients cannot observe it."""
    sections, name = response.sections, setting[-1]
    match setting[0]:
        case "fields" | "sampling":
            field = _field(sections, setting)
            return None if field is None else field_of(field)
        case "checks":
            check = sections.checks.get(name)
            return None if check is None else check_of(_plain(check))
        case "output":
            budget = sections.output.max_tokens
            return None if budget is None else _budget(budget)
        case "limits":
            value: Value = getattr(sections.limits, name)
            return value
        case "unknown_fields":
            rules = (rule for rule in response.rules if isinstance(rule, UnknownFieldsRule))
            rule = next((rule for rule in rules if setting_of(rule.rule) == setting), None)
            rejects = rule is not None and rule.unknown_fields.policy == "reject"
            return {"policy": "reject", "known": list(rule.known)} if rule is not None and rejects else None
        case "order":
            return sections.order
    return None


def own_words(response: VisibleResponse, setting: Setting) -> Value:
    """Return the rule's own error texts, None if it has none."""
    unknown = response.sections.unknown_fields
    holders: dict[str, Any] = {
        "fields": response.sections.fields,
        "checks": response.sections.checks,
        "unknown_fields": unknown.within,
    }
    holder = holders.get(setting[0], {})
    rule: Any = unknown if setting == ("unknown_fields",) else holder.get(setting[-1])
    return error_of(rule) if isinstance(rule, RuleBase | Field) else None


def words_for_all(sections: Sections) -> Errors:
    """Return the settings for the errors of all rejections by the router."""
    return msgspec.structs.replace(sections.errors, source=None, engine_400=None)


def _field(sections: Sections, setting: Setting) -> Field | None:
    """Return the constraint on a field's value by its rule, or else by its sampling parameter; None: any value."""
    by_rule, by_parameter = _by_rule(sections, setting[-1]), _by_parameter(sections, setting[-1])
    return (by_parameter or by_rule) if setting[0] == "sampling" else (by_rule or by_parameter)


def _by_rule(sections: Sections, path: str) -> Field | None:
    field = sections.fields.get(path)
    if field is None:
        return None
    plain = msgspec.structs.replace(field, **_AT_THE_ENGINE, error=None, parts={})
    return None if plain == Field() else plain


def _by_parameter(sections: Sections, name: str) -> Field | None:
    expected = sections.sampling.params.get(name)
    if isinstance(expected, Interval):
        return Field(min=expected.min, max=expected.max)
    return None if expected is None or sections.sampling.conflict == "allow" else Field(allowed=(expected,))


def _visible(sections: Sections) -> Sections:
    """Return sections without what only engines see, and without the error texts, which are compared as sent."""
    budget = sections.output.max_tokens
    unknown = sections.unknown_fields
    return Sections(
        checks={name: _plain(check) for name, check in sections.checks.items()},
        limits=msgspec.structs.replace(sections.limits, source=None),
        order=sections.order,
        output=Output(None if budget is None else msgspec.structs.replace(budget, default=None, source=None)),
        sampling=Sampling(),
        unknown_fields=msgspec.structs.replace(
            UnknownFields() if unknown.policy != "reject" else _plain(unknown),
            within={path: _plain(each) for path, each in unknown.within.items() if each.policy == "reject"},
        ),
    )


def _plain(rule: Any) -> Any:  # noqa: ANN401 - a check or the rule of unknown fields, and the same comes back
    plain = msgspec.structs.replace(rule, source=None, error=None, parts={})
    unseen = {name: False for name in ("drop_without_tools", "wrap_bare_url") if hasattr(plain, name)}
    return msgspec.structs.replace(plain, **unseen)
