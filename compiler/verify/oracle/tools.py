"""The oracle for the named checks on tools."""

from collections.abc import Iterator
from typing import Any, Final

from compiler.verify.oracle.values import Fields, at, choices, display, is_match
from router.contract.schema import named_checks as named

Found = tuple[str, dict[str, Any]] | None

NAMED: Final = "named"
"""Stands in a contract for a `tool_choice` that names a function."""

_WORDS: Final = ("auto", "none", "required", "named", "any")


def messages_in(fields: Fields) -> Iterator[tuple[int, Fields]]:
    """Yield the messages of a request with their places."""
    messages = fields.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            yield index, message


def tools_in(fields: Fields) -> list[Any]:
    """Return the tools of a request: its own, then those in its messages."""
    lists = [fields.get("tools"), *(message.get("tools") for _, message in messages_in(fields))]
    return [tool for tools in lists if isinstance(tools, list) for tool in tools]


def fault_of_tools(check: named.Tools, fields: Fields) -> Found:
    """Return what is wrong with the tools of a request."""
    return _fault(check, fields.get("tools"), [], check.forbidden_names)


def fault_of_message_tools(check: named.MessageTools, fields: Fields) -> Found:
    """Return what is wrong with the tools in messages."""
    own = fields.get("tools")
    names = [name for tool in (own if isinstance(own, list) else ()) if (name := name_of(tool)) is not None]
    for index, message in messages_in(fields):
        if message.get("tools") is None:
            continue
        if check.roles and message.get("role") not in check.roles:
            return "roles", {"value": message.get("role"), "index": index}
        if check.empty_content and message.get("content"):
            return "content", {"index": index}
        found = _fault(check, message["tools"], names, ())
        if found is not None:
            return found
    return None


def _fault(
    check: named.Tools | named.MessageTools, tools: object, names: list[str], forbidden: tuple[str, ...]
) -> Found:
    if tools is None:
        return None
    if not isinstance(tools, list):
        return "shape", {"value": display(tools)}
    for index, tool in enumerate(tools):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if not isinstance(kind, str):
            return "shape", {"index": index}
        if check.types and kind not in check.types:
            return "types", {"value": kind, "allowed": choices(check.types), "index": index}
        if kind != "function":
            continue
        name = name_of(tool)
        if name is None:
            return "shape", {"index": index}
        found = _fault_of_name(check, name, names, forbidden)
        if found is not None:
            return found
        names.append(name)
    return None


def _fault_of_name(
    check: named.Tools | named.MessageTools, name: str, names: list[str], forbidden: tuple[str, ...]
) -> Found:
    if check.name_pattern is not None and not is_match(check.name_pattern, name):
        return "name", {"value": display(name), "expected": check.name_pattern}
    if name in forbidden:
        return "forbidden", {"value": name}
    return ("unique", {"value": name}) if check.unique and name in names else None


def fault_of_choice(check: named.ToolChoice, fields: Fields) -> Found:
    """Return what is wrong with the choice of a tool."""
    choice = fields.get("tool_choice")
    if choice is None:
        return None
    name = name_of(choice)
    kind = NAMED if name is not None else choice if isinstance(choice, str) else "other"
    value = "specified" if name is not None else display(choice)
    if kind not in check.allowed:
        return (kind if kind in _WORDS else "other"), {"value": value, "allowed": choices(check.allowed)}
    if kind in check.requires_tools and not tools_in(fields):
        return "requires_tools", {"value": value}
    if check.known and name is not None and name not in [name_of(tool) for tool in tools_in(fields)]:
        return "known", {"value": name}
    return None


def name_of(tool: object) -> str | None:
    """Return the name of the function that an object defines or chooses."""
    name = at(tool, "function.name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) else None
