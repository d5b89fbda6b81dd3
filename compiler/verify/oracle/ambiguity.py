"""Whether a request is one that every OpenAI-compatible engine accepts.

A contract accepts every value that it does not mention. An engine may still reject an unusual one by itself. That does
not violate the contract; such a check is inconclusive.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from compiler.verify.check import ChatRequest
from compiler.verify.oracle.named_checks import parts_of_types
from compiler.verify.oracle.tools import messages_in, name_of
from compiler.verify.oracle.values import Fields
from router.contract.schema.fields import OTHER_SPELLINGS, PART_TYPES
from router.contract.schema.rule_list import FieldRule, Rule

_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})


def doubt_of(request: ChatRequest, rules: Iterable[Rule]) -> str | None:
    """Return why an engine may reject a request by itself; None if there is no reason."""
    names, fields = [name for name, _ in request.members], request.fields()
    for modality, types in PART_TYPES.items():
        if any(True for _ in parts_of_types(fields, types)):
            return f"an engine whose model takes no {modality}s rejects them by itself"
    odd = [name for name in names if names.count(name) > 1 or name in OTHER_SPELLINGS]
    stated = _stated(rules)
    odd += [name for name, value in fields.items() if not _is_usual(name, value, fields, stated)]
    return f"{odd[0]} is sent in an unusual way, which an engine may reject by itself" if odd else None


def _stated(rules: Iterable[Rule]) -> dict[str, list[FieldRule]]:
    """Return the rules of fields by the top-level names of their paths."""
    stated: dict[str, list[FieldRule]] = {}
    for rule in rules:
        if isinstance(rule, FieldRule):
            stated.setdefault(rule.path.partition(".")[0], []).append(rule)
            for source in rule.field.sources:
                stated.setdefault(source.partition(".")[0], []).append(rule)
    return stated


def _is_usual(name: str, value: Any, fields: Fields, stated: dict[str, list[FieldRule]]) -> bool:  # noqa: ANN401
    if value is None:
        return name != "messages"
    if name in _USUAL:
        return _USUAL[name](value, fields)
    if name in _NUMBERS:
        return _is_number(value)
    return name in stated and all(_is_as_stated(rule, name, value) for rule in stated[name])


def _is_as_stated(rule: FieldRule, name: str, value: object) -> bool:
    """Return whether a rule names values like this one, so that the contract accepts it on purpose."""
    if rule.path != name:
        return isinstance(value, dict) or name in rule.field.sources
    field = rule.field
    if any(bound is not None for bound in (field.min, field.above, field.max, field.below)):
        return _is_number(value)
    return bool(field.type) or (field.allowed is not None and not isinstance(value, list | dict))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_budget(value: object, _: Fields) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_text(value: object, _: Fields) -> bool:
    return isinstance(value, str)


def _is_truth(value: object, _: Fields) -> bool:
    return isinstance(value, bool)


def _are_messages(value: object, fields: Fields) -> bool:
    if not isinstance(value, list) or not value:
        return False
    roles = [message.get("role") for _, message in messages_in(fields)]
    talks = [message for _, message in messages_in(fields)]
    is_plain = all(isinstance(talk.get("content"), str | list) and "tools" not in talk for talk in talks)
    return len(roles) == len(value) and set(roles) <= _ROLES and is_plain and "user" in roles and _are_answers(talks)


def _are_answers(talks: list[Fields]) -> bool:
    made = {call["id"] for talk in talks for call in talk.get("tool_calls") or () if isinstance(call, dict)}
    answered = [talk.get("tool_call_id") for talk in talks if talk["role"] == "tool"]
    return sorted(made) == sorted(str(each) for each in answered)


def _are_tools(value: object, _: Fields) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(tool, dict) and tool.get("type") == "function" and _is_name(name_of(tool)) for tool in value)
    )


def _is_name(name: str | None) -> bool:
    return bool(name) and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in str(name))


def _is_choice(value: object, fields: Fields) -> bool:
    if not fields.get("tools"):
        return False
    names = [name_of(tool) for tool in fields["tools"] if isinstance(tool, dict)]
    return value in ("auto", "none", "required") or name_of(value) in (set(names) - {None})


def _is_stop(value: object, _: Fields) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _is_format(value: object, _: Fields) -> bool:
    if not isinstance(value, dict):
        return False
    held = value.get("json_schema")
    is_schema = isinstance(held, dict) and isinstance(held.get("schema"), dict) and isinstance(held.get("name"), str)
    return value.get("type") in ("text", "json_object") or (value.get("type") == "json_schema" and is_schema)


def _are_options(value: object, fields: Fields) -> bool:
    return isinstance(value, dict) and fields.get("stream") is True


_NUMBERS: Final = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "n", "presence_penalty", "frequency_penalty", "seed", "top_logprobs"}
)

_USUAL: Final[dict[str, Callable[[Any, Fields], bool]]] = {
    "model": _is_text,
    "messages": _are_messages,
    "max_tokens": _is_budget,
    "max_completion_tokens": _is_budget,
    "stream": _is_truth,
    "stream_options": _are_options,
    "logprobs": _is_truth,
    "stop": _is_stop,
    "tools": _are_tools,
    "tool_choice": _is_choice,
    "response_format": _is_format,
    "user": _is_text,
}
