"""The oracle for the named checks, implemented from their documentation."""

import re
from collections.abc import Callable, Container, Iterator
from typing import Any, Final

from compiler.verify.check import size_of
from compiler.verify.oracle.fields import Fault, words_of_part
from compiler.verify.oracle.tools import fault_of_choice, fault_of_message_tools, fault_of_tools, messages_in
from compiler.verify.oracle.values import Fields, at, choices, is_among
from router.contract.schema import named_checks as named
from router.contract.schema.fields import IMAGE_PART_TYPES, PART_TYPES
from router.contract.schema.rule_list import CheckRule, PartLimit

Found = tuple[str, dict[str, Any]] | None
"""The violated part of a check, and the values of placeholders."""

_PARAMS: Final = {"tools": "tools", "tool_choice": "tool_choice", "response_format": "response_format"}


def fault_of_check(rule: CheckRule, fields: Fields) -> Fault | None:
    """Return the fault of a request under a named check."""
    found = _FOUND_BY[type(rule.check)](rule.check, fields)
    if found is None:
        return None
    part, details = found
    param = _PARAMS.get(rule.rule.removeprefix("checks."), "messages")
    words = words_of_part(rule.check.parts, part, rule.check.error)
    return Fault("contract_violation", param, part, details, words)


def fault_of_part_limit(rule: PartLimit, fields: Fields) -> Fault | None:
    """Return the fault of a request that has more parts of a modality than are allowed."""
    count = sum(1 for _ in parts_of_types(fields, PART_TYPES[rule.modality]))
    if count <= rule.max:
        return None
    return Fault(f"too_many_{rule.modality}s", "messages", "count", {"count": count, "max": rule.max})


def parts_of_types(fields: Fields, types: Container[str]) -> Iterator[dict[str, Any]]:
    """Yield the content parts of all messages that are of certain types."""
    for _, message in messages_in(fields):
        for part in _parts_in(message.get("content")):
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in types:
                yield part


def _parts_in(content: object) -> Iterator[Any]:
    """Yield the parts of a content, and those inside of them."""
    if content is None or isinstance(content, str):
        return
    for part in content if isinstance(content, list) else [content]:
        yield part
        if isinstance(part, dict):
            yield from _parts_in(part.get("content"))


def _roles(check: named.Roles, fields: Fields) -> Found:
    for index, message in messages_in(fields):
        if message.get("role") not in check.allowed:
            return "roles", {**_word(message.get("role")), "allowed": choices(check.allowed), "index": index}
    return None


def _system_messages(check: named.SystemMessages, fields: Fields) -> Found:
    count = _roles_of(fields).count("system")
    return ("system_messages", {"count": count, "max": check.max}) if count > check.max else None


def _first_role(check: named.FirstRole, fields: Fields) -> Found:
    return _edge_role("first_role", check.allowed, _roles_of(fields)[:1], 0)


def _last_role(check: named.LastRole, fields: Fields) -> Found:
    roles = _roles_of(fields)
    return _edge_role("last_role", check.allowed, roles[-1:], len(roles) - 1)


def _edge_role(part: str, allowed: tuple[str, ...], roles: list[Any], index: int) -> Found:
    if not roles or roles[0] in allowed:
        return None
    return part, {"value": roles[0], "allowed": choices(allowed), "index": index}


def _required_role(check: named.RequiredRole, fields: Fields) -> Found:
    if set(_roles_of(fields)) & set(check.any_of):
        return None
    return "required_role", {"allowed": choices(check.any_of)}


def _alternation(_: named.Alternation, fields: Fields) -> Found:
    roles = _roles_of(fields)
    first = next((index for index, role in enumerate(roles) if role not in {"system", "developer"}), len(roles))
    is_users_turn = True
    for index, role in list(enumerate(roles))[first:]:
        is_assistant = role == "assistant"
        if is_assistant is is_users_turn and role != "tool":
            return "alternation", {"value": role, "index": index}
        is_users_turn = is_assistant
    return None


def _string_content(check: named.StringContent, fields: Fields) -> Found:
    for index, message in messages_in(fields):
        if message.get("role") in check.roles and not isinstance(message.get("content"), str):
            return "string_content", {"value": message["role"], "index": index}
    return None


def _content_parts(check: named.ContentParts, fields: Fields) -> Found:
    for index, message in messages_in(fields):
        role = message.get("role")
        allowed = check.by_role.get(role, check.allowed) if isinstance(role, str) else check.allowed
        for part in _parts_in(message.get("content")):
            kind = part.get("type") if isinstance(part, dict) else None
            details = {"allowed": choices(allowed), "index": index}
            if isinstance(role, str):
                details["role"] = role
            if not isinstance(kind, str):
                return "shape", details
            if kind not in allowed:
                return "types", {"value": kind, **details}
    return None


def _tool_results(check: named.ToolResults, fields: Fields) -> Found:
    made: list[str] = []
    for index, message in messages_in(fields):
        made += _calls(message)
        answered = message.get("tool_call_id")
        if message.get("role") != "tool":
            continue
        if not (isinstance(answered, str) and answered):
            return "tool_call_id", {"index": index}
        if check.known_call and answered not in made:
            return "known_call", {"index": index, "value": answered}
    return None


def _tool_calls_answered(_: named.ToolCallsAnswered, fields: Fields) -> Found:
    messages = [message for _, message in messages_in(fields)]
    for index, message in enumerate(messages):
        responses: list[Any] = []
        for follower in messages[index + 1 :]:
            if follower.get("role") != "tool":
                break
            responses.append(follower.get("tool_call_id"))
        is_asking = message.get("role") != "tool"
        unanswered = [call for call in _calls(message) if call not in responses] if is_asking else []
        if unanswered:
            return "tool_calls_answered", {"value": ", ".join(unanswered), "index": index}
    return None


def _reasoning_passed_back(_: named.ReasoningPassedBack, fields: Fields) -> Found:
    for index, message in messages_in(fields):
        is_calling = message.get("role") == "assistant" and bool(message.get("tool_calls"))
        if is_calling and not isinstance(message.get("reasoning_content"), str):
            return "reasoning_passed_back", {"index": index}
    return None


def _response_format(check: named.ResponseFormat, fields: Fields) -> Found:
    asked = fields.get("response_format")
    if asked is None:
        return None
    kind = at(fields, "response_format.type")
    if kind not in check.types:
        return "types", {**_word(kind), "allowed": choices(check.types)}
    if not check.named_schema or kind != "json_schema":
        return None
    name, schema = at(asked, "json_schema.name"), at(asked, "json_schema.schema")
    strict = at(asked, "json_schema.strict")
    is_whole = isinstance(name, str) and name and isinstance(schema, dict) and isinstance(strict, bool | None)
    return None if is_whole else ("named_schema", {})


def _images(check: named.Images, fields: Fields) -> Found:
    data_urls = total = 0
    for url in _urls(fields):
        source = _source_of(url, check.file_prefix)
        if source not in check.sources:
            details = {"allowed": choices(check.sources)}
            return "sources", details | ({"value": url} if len(url) <= _SHOWN_URL else {})
        if source != "data":
            continue
        data_urls += 1
        if check.max_url_bytes is not None and size_of(url) > check.max_url_bytes:
            return "max_url_bytes", {"count": size_of(url), "max": check.max_url_bytes}
        size = size_of(url.partition(",")[2].rstrip("=")) * 3 // 4
        total += size
        if check.max_bytes is not None and size > check.max_bytes:
            return "max_bytes", {"count": size, "max": check.max_bytes}
    if check.max_data_urls is not None and data_urls > check.max_data_urls:
        return "max_data_urls", {"count": data_urls, "max": check.max_data_urls}
    if check.max_total_bytes is not None and total > check.max_total_bytes:
        return "max_total_bytes", {"count": total, "max": check.max_total_bytes}
    return None


def _urls(fields: Fields) -> Iterator[str]:
    for part in parts_of_types(fields, IMAGE_PART_TYPES):
        for holder in (value for key, value in part.items() if key in IMAGE_PART_TYPES):
            url = holder.get("url") if isinstance(holder, dict) else holder
            if isinstance(url, str):
                yield url


_SHOWN_URL: Final = 60


def _source_of(url: str, prefix: str | None) -> str | None:
    scheme = re.match(r"(data|https?):", url, re.IGNORECASE)
    if scheme is not None:
        return "data" if scheme[1].lower() == "data" else "http"
    return "file" if prefix is None or url.startswith(prefix) else None


def _prompt_contains(check: named.PromptContains, fields: Fields) -> Found:
    if not all(is_among(at(fields, path), wanted) for path, wanted in check.when.items()):
        return None
    text = "\n".join(_texts(fields)).casefold()
    return None if check.word.casefold() in text else ("prompt_contains", {"expected": check.word})


def _word(value: object) -> dict[str, Any]:
    """Return the detail for a string value; the detail of any other value is not fixed."""
    return {"value": value} if isinstance(value, str) else {}


def _texts(fields: Fields) -> Iterator[str]:
    for _, message in messages_in(fields):
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        yield from (part for part in parts if isinstance(part, str))
        yield from (part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _roles_of(fields: Fields) -> list[Any]:
    return [message.get("role") for _, message in messages_in(fields)]


def _calls(message: Fields) -> list[str]:
    calls = message.get("tool_calls")
    return [call["id"] for call in calls if isinstance(call.get("id"), str)] if isinstance(calls, list) else []


_FOUND_BY: Final[dict[type, Callable[[Any, Fields], Found]]] = {
    named.Roles: _roles,
    named.SystemMessages: _system_messages,
    named.FirstRole: _first_role,
    named.LastRole: _last_role,
    named.RequiredRole: _required_role,
    named.Alternation: _alternation,
    named.StringContent: _string_content,
    named.ContentParts: _content_parts,
    named.ToolResults: _tool_results,
    named.ToolCallsAnswered: _tool_calls_answered,
    named.ReasoningPassedBack: _reasoning_passed_back,
    named.Tools: fault_of_tools,
    named.MessageTools: fault_of_message_tools,
    named.ToolChoice: fault_of_choice,
    named.ResponseFormat: _response_format,
    named.Images: _images,
    named.PromptContains: _prompt_contains,
}
