"""Named checks about tools: how they are defined, chosen, called and answered."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from router.contract.rules.evaluation import EvaluationContext
from router.contract.rules.field_tests import Fields, Violation, listed
from router.contract.rules.messages import messages_of
from router.contract.rules.patterns import full_match_of
from router.contract.schema import named_checks as named
from router.contract.schema.rule_list import CheckRule
from router.contract.templates import display

Check = Callable[[Fields], Violation | None]

NAMED: Final = "named"
"""Stands in a contract for a `tool_choice` that is an object naming a function."""
_SAID: Final = {NAMED: "an object that names a function"}
SPECIFIED: Final = "specified"
"""What a message calls such a `tool_choice`."""


def _tool_results(check: named.ToolResults) -> Check:
    def find(fields: Fields) -> Violation | None:
        called: set[str] = set()
        for index, message in messages_of(fields):
            called.update(_call_ids(message))
            if message.get("role") != "tool":
                continue
            answered = message.get("tool_call_id")
            if not isinstance(answered, str) or not answered:
                said = f"messages[{index}] has the role tool and no tool_call_id"
                return Violation("tool_call_id", said, {"index": index})
            if check.known_call and answered not in called:
                said = f"messages[{index}] answers {display(answered)}, which no message before it calls"
                return Violation("known_call", said, {"index": index, "value": display(answered)})
        return None

    return find


def _tool_calls_answered(_: named.ToolCallsAnswered) -> Check:
    def find(fields: Fields) -> Violation | None:
        # A dict, so that many calls are not searched for each tool message.
        open_calls: dict[str, None] = {}
        asked_at = 0
        for index, message in messages_of(fields):
            if message.get("role") == "tool":
                answered = message.get("tool_call_id")
                if isinstance(answered, str):
                    open_calls.pop(answered, None)
                continue
            if open_calls:
                break
            open_calls, asked_at = dict.fromkeys(_call_ids(message)), index
        if not open_calls:
            return None
        unanswered = ", ".join(open_calls)
        said = f"messages[{asked_at}] calls tools, and no tool message right behind it answers {display(unanswered)}"
        return Violation("tool_calls_answered", said, {"value": display(unanswered), "index": asked_at})

    return find


def _tools(check: named.Tools) -> Check:
    validator = _ToolValidator(check, check.forbidden_names)

    def find(fields: Fields) -> Violation | None:
        tools = fields.get("tools")
        return None if tools is None else validator.wrong_tool("tools", tools, set())

    return find


def _message_tools(check: named.MessageTools) -> Check:
    validator = _ToolValidator(check)

    def find(fields: Fields) -> Violation | None:
        names = {name for tool in _listed_tools(fields.get("tools")) if (name := _name_of(tool)) is not None}
        for index, message in messages_of(fields):
            tools = message.get("tools")
            if tools is None:
                continue
            place = f"messages[{index}]"
            if check.roles and message.get("role") not in check.roles:
                said = f"{place} has the role {display(message.get('role'))} and tools: expected {listed(check.roles)}"
                return Violation("roles", said, {"value": display(message.get("role")), "index": index})
            if check.empty_content and message.get("content"):
                return Violation("content", f"{place} has both content and tools", {"index": index})
            wrong = validator.wrong_tool(f"{place}.tools", tools, names)
            if wrong is not None:
                return wrong
        return None

    return find


class _ToolValidator:
    """Validates lists of tools."""

    def __init__(self, check: named.Tools | named.MessageTools, forbidden: tuple[str, ...] = ()) -> None:
        self._check = check
        self._forbidden = frozenset(forbidden)
        self._matches = None if check.name_pattern is None else full_match_of(check.name_pattern)

    def wrong_tool(self, place: str, tools: object, names: set[str]) -> Violation | None:
        """Return the first violation in a list of tools. Adds the names of its functions to the known ones."""
        if not isinstance(tools, list):
            return Violation("shape", f"{place} is not an array", {"value": display(tools)})
        types = self._check.types
        for index, tool in enumerate(tools):
            at = f"{place}[{index}]"
            kind = tool.get("type") if isinstance(tool, dict) else None
            if not isinstance(kind, str):
                return Violation("shape", f"{at} is not an object with a type", {"index": index})
            if types and kind not in types:
                said = f"{at} is of type {display(kind)}: expected {listed(types)}"
                return Violation("types", said, {"value": display(kind), "allowed": listed(types), "index": index})
            if kind != "function":
                continue
            name = _name_of(tool)
            if name is None:
                return Violation("shape", f"{at}.function is not an object with a name", {"index": index})
            wrong = self._wrong_name(at, name, names)
            if wrong is not None:
                return wrong
            names.add(name)
        return None

    def _wrong_name(self, at: str, name: str, names: set[str]) -> Violation | None:
        value = display(name)
        if self._matches is not None and not self._matches(name):
            pattern = self._check.name_pattern
            said = f"{at} has the name {value}: expected one that matches {pattern}"
            return Violation("name", said, {"value": value, "expected": pattern})
        if name in self._forbidden:
            return Violation("forbidden", f"{at} has the name {value}, which is not allowed", {"value": value})
        if self._check.unique and name in names:
            return Violation("unique", f"{at} has the name {value}, as another tool does", {"value": value})
        return None


def _tool_choice(check: named.ToolChoice) -> Check:
    words = listed(check.allowed)
    expected = listed(tuple(_SAID.get(each, each) for each in check.allowed))

    def find(fields: Fields) -> Violation | None:
        choice = fields.get("tool_choice")
        if choice is None:
            return None
        name = _chosen(choice)
        kind = NAMED if name is not None else choice if isinstance(choice, str) and choice != NAMED else "other"
        value = SPECIFIED if name is not None else display(choice)
        if kind not in check.allowed:
            part = kind if kind in _WORDS else "other"
            said = f"tool_choice is {value}: expected {expected}, or omit the field"
            return Violation(part, said, {"value": value, "allowed": words})
        tools = _all_tools(fields)
        if kind in check.requires_tools and not tools:
            return Violation("requires_tools", f"tool_choice is {value}, and there are no tools", {"value": value})
        if check.known and name is not None and name not in map(_name_of, tools):
            said = f"tool_choice names {display(name)}, which is not among the tools"
            return Violation("known", said, {"value": display(name)})
        return None

    return find


def transforms_of(rule: CheckRule) -> Iterator[Callable[[EvaluationContext], None]]:
    """Yield the transforms that a check of tools needs for a valid request."""
    if not isinstance(rule.check, named.ToolChoice) or not rule.check.drop_without_tools:
        return

    def drop_without_tools(context: EvaluationContext) -> None:
        fields = context.request.fields
        if fields.get("tool_choice") is not None and not _all_tools(fields):
            context.drop(rule.rule, ("tool_choice",))

    yield drop_without_tools


_WORDS: Final = frozenset({"auto", "none", "required", NAMED, "any"})


def _chosen(choice: object) -> str | None:
    """Return the name of the function that a `tool_choice` names; None where it is no such object."""
    return _name_of(choice) if isinstance(choice, dict) else None


def _all_tools(fields: Fields) -> list[Any]:
    """Return the tools of a request and those in its messages."""
    in_messages = (_listed_tools(message.get("tools")) for _, message in messages_of(fields))
    return [*_listed_tools(fields.get("tools")), *chain.from_iterable(in_messages)]


def _listed_tools(tools: object) -> list[Any]:
    return tools if isinstance(tools, list) else []


def _name_of(tool: object) -> str | None:
    function = tool.get("function") if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def _call_ids(message: dict[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        identity = call.get("id") if isinstance(call, dict) else None
        if isinstance(identity, str):
            yield identity


MADE_BY: Final[dict[type, Callable[[Any], Check]]] = {
    named.ToolResults: _tool_results,
    named.ToolCallsAnswered: _tool_calls_answered,
    named.Tools: _tools,
    named.MessageTools: _message_tools,
    named.ToolChoice: _tool_choice,
}
