"""The request that the engine receives when the client's request is valid."""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from compiler.verify.oracle.fields import BUDGETS, names_of
from compiler.verify.oracle.tools import tools_in
from compiler.verify.oracle.values import Fields, at, copied, is_scalar, number_in, put, stands, take_away
from router.contract.schema.fields import BUDGET_FIELDS
from router.contract.schema.named_checks import Images, ToolChoice
from router.contract.schema.rule_list import Budget, CheckRule, Const, FieldRule, Range, Rule, UnknownFieldsRule
from router.contract.schema.sections import Field, Stream


def engine_fields(fields: Fields, rules: Sequence[Rule]) -> Fields:
    """Return the fields that an engine receives for a valid request with these fields."""
    got: Fields = copied(fields)
    for rule in rules:
        _act_at_once(got, rule)
    _act_on_fields(got, fields, [rule for rule in rules if isinstance(rule, FieldRule)])
    for rule in rules:
        if isinstance(rule, CheckRule) and isinstance(rule.check, ToolChoice) and rule.check.drop_without_tools:
            _drop_idle_choice(got, fields)
        if isinstance(rule, CheckRule) and isinstance(rule.check, Images) and rule.check.wrap_bare_url:
            _wrap_bare_urls(got)
    _make_room(got, fields, rules)
    return got


def _act_at_once(got: Fields, rule: Rule) -> None:
    """Apply the changes of a rule: drop unknown fields, inject sampling parameters, hold the budget."""
    if isinstance(rule, UnknownFieldsRule) and rule.unknown_fields.policy == "drop":
        _drop_unknown(got, rule)
    elif isinstance(rule, Const | Range):
        _supply_sampling(got, rule)
    elif isinstance(rule, Budget):
        _hold_budget(got, rule)


def _drop_unknown(got: Fields, rule: UnknownFieldsRule) -> None:
    holder = at(got, rule.path) if rule.path else got
    unknown = [name for name in holder if name not in rule.known] if isinstance(holder, dict) else []
    for name in unknown:
        del holder[name]
    if unknown and not holder:
        take_away(got, rule.path)


def _act_on_fields(got: Fields, sent: Fields, rules: list[FieldRule]) -> None:
    """Apply the rules of fields to a valid request: first all moves, then all changes, then missing values."""
    for rule in rules:
        _move(got, rule, sent)
    for rule in rules:
        _change(got, rule)
    for rule in rules:
        _supply_spelled(got, rule)
    for rule in rules:
        if rule.field.default is not None and at(got, rule.path) is None:
            put(got, rule.path, rule.field.default)


def _supply_sampling(got: Fields, rule: Const | Range) -> None:
    if got.get(rule.field) is not None:
        return
    for other in names_of(rule.field)[1:]:
        number = number_in(rule.field, got.get(other))
        if number is not None:
            got[rule.field] = number
            return
    if isinstance(rule, Const):
        got[rule.field] = rule.value


def _hold_budget(got: Fields, rule: Budget) -> None:
    sent = [name for name in BUDGETS if got.get(name) is not None]
    over = [name for name in sent if got[name] > rule.cap]
    for name in over:
        got[name] = rule.cap
    if not any(name in BUDGET_FIELDS for name in sent):
        granted = got[sent[0]] if sent else rule.default
        if granted is not None:
            got["max_tokens"] = granted


_ROOM: Final = {"min_tokens": 0, "min_new_tokens": 0, "thinking.budget_tokens": 1, "thinking_token_budget": 0}
"""Number of tokens of the budget that must remain beside the value of a field."""


def _make_room(got: Fields, sent: Fields, rules: Sequence[Rule]) -> None:
    """Fit the token amounts of other fields into the budget, unless the budget is the client's own."""
    amounts = {name: int(number) for name in _ROOM if (number := _whole_in(at(got, name))) is not None}
    budget = next((name for name in BUDGETS if _whole_in(got.get(name)) is not None), None)
    own = _own_budgets(sent, rules)
    if budget is None or not amounts or (own and all(got.get(name) in (None, own[name]) for name in own)):
        return
    tokens = int(_whole_in(got[budget]) or 0)
    rule = next((each for each in rules if isinstance(each, Budget)), None)
    if rule is not None and not own and tokens == rule.default:
        tokens = min(rule.cap, max(tokens, *(number + _ROOM[name] for name, number in amounts.items())))
        got[budget] = tokens
    for name, number in amounts.items():
        if number + _ROOM[name] > tokens:
            put(got, name, max(0, tokens - _ROOM[name]))


def _whole_in(value: object) -> float | None:
    return number_in("n", value)


def _own_budgets(sent: Fields, rules: Sequence[Rule]) -> Fields:
    """Return the budgets in the client's request, under every name that engines or the contract know."""
    known = [rule.field.sources for rule in rules if isinstance(rule, FieldRule) and rule.path in BUDGET_FIELDS]
    names = (*BUDGETS, *chain.from_iterable(known))
    return {name: value for name in names if (value := at(sent, name)) is not None}


def _move(got: Fields, rule: FieldRule, sent: Fields) -> None:
    names = [name for source in rule.field.sources for name in names_of(source)]
    given = next((name for name in names if at(sent, name) is not None), None)
    value: Any = None if given is None else at(sent, given)
    for name in names:
        take_away(got, name)
    if given is not None and at(got, rule.path) is None:
        put(got, rule.path, value)


def _change(got: Fields, rule: FieldRule) -> None:
    field, names = rule.field, [name for name in names_of(rule.path) if stands(got, name)]
    if field.drop:
        for name in names:
            take_away(got, name)
    elif field.force is not None:
        for name in {rule.path, *(name for name in names if at(got, name) is not None)}:
            put(got, name, field.force)
    else:
        for name in names:
            _map_and_confine(got, name, rule.field)


def _map_and_confine(got: Fields, name: str, field: Field) -> None:
    value = at(got, name)
    if not isinstance(value, list | dict):
        value = next((to for key, to in field.map.items() if _is_key(key, value)), value)
    number = number_in("", value)
    if field.floor is not None and number is not None and number < field.floor:
        value = field.floor
    elif field.ceiling is not None and number is not None and number > field.ceiling:
        value = field.ceiling
    if not is_same(value, at(got, name)):
        put(got, name, value)


def _is_key(key: str, value: object) -> bool:
    """Return whether a key of a map is a value spelled as JSON; a string is spelled without quotes, too."""
    if isinstance(value, str) or value is None:
        return key == value
    try:
        return is_scalar(value, json.loads(key))
    except ValueError:
        return False


def _supply_spelled(got: Fields, rule: FieldRule) -> None:
    for other in names_of(rule.path)[1:]:
        value = at(got, other)
        if rule.path != "reasoning_effort":
            value = number_in(rule.path, value)
        if isinstance(value, str | int | float) and at(got, rule.path) is None:
            put(got, rule.path, value)


def _drop_idle_choice(got: Fields, sent: Fields) -> None:
    if sent.get("tool_choice") is not None and not tools_in(sent):
        got.pop("tool_choice", None)


def _wrap_bare_urls(got: Fields) -> None:
    messages = got.get("messages")
    contents = [message.get("content") for message in messages or () if isinstance(message, dict)]
    for part in chain.from_iterable(content for content in contents if isinstance(content, list)):
        if isinstance(part, dict) and part.get("type") == "image_url" and isinstance(part.get("image_url"), str):
            part["image_url"] = {"url": part["image_url"]}


def ask_for_usage(got: Fields, stream: Stream) -> str | None:
    """Request usage in a streamed request if the contract says so; return where the stream reports it.

    None: the engine decides where.
    """
    if stream.usage == "as_asked":
        return None
    asked = at(got, "stream_options.include_usage")
    if asked is None:
        put(got, "stream_options.include_usage", value=True)
    elif asked is not True:
        return None
    if stream.usage == "tail_frame":
        return "tail_frame"
    return "end_frame" if asked is None else "both"


def is_same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal: numbers by value, everything else exactly."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, bool | int | float | str) and isinstance(other, bool | int | float | str):
        return is_scalar(one, other)
    return one is None and other is None
