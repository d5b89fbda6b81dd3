"""Requests that test the named checks on messages."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from compiler.language.samples import FOREIGN, function
from compiler.verify.check import Fields
from compiler.verify.generation.fixture import Fixture, first_values
from compiler.verify.generation.limits import part_of
from router.contract.schema import named_checks as named

Turn = tuple[str, Fields]
"""A description of the request, and its fields."""

ROLES: Final = ("system", "user", "assistant", "tool", "developer", "function", FOREIGN)


def user(text: Any) -> Fields:  # noqa: ANN401 - any content
    """Return a message of a user."""
    return {"role": "user", "content": text}


def calling(*ids: str, **fields: Any) -> Fields:  # noqa: ANN401 - any member
    """Return an assistant's message that calls a tool once for each id."""
    calls = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls, "reasoning_content": "So.", **fields}


def result(answered: Any, content: Any = "Seen.") -> Fields:  # noqa: ANN401 - any value
    """Return a tool message with the result of a call."""
    return {"role": "tool", "tool_call_id": answered, "content": content}


ASSISTANT: Final[Fields] = {"role": "assistant", "content": "OK.", "reasoning_content": "So."}


def turn_of(role: str, text: str) -> list[Fields]:
    """Return a plausible conversation with a message of a role."""
    if role == "tool":
        return [user(text), calling("call_1"), result("call_1")]
    if role == "assistant":
        return [user(text), ASSISTANT, user(text)]
    return [{"role": role, "content": text}] if role == "user" else [{"role": role, "content": text}, user(text)]


def _roles(check: named.Roles, fixture: Fixture) -> Iterator[Turn]:
    text = fixture.text
    for role in dict.fromkeys((*ROLES, *check.allowed)):
        yield f"a message of role {role}", {"messages": turn_of(role, text)}
    yield "a message without a role", {"messages": [user(text), {"content": text}]}
    yield "a message of role USER", {"messages": [{"role": "USER", "content": text}]}


def _system_messages(check: named.SystemMessages, fixture: Fixture) -> Iterator[Turn]:
    for count in dict.fromkeys((max(check.max - 1, 0), check.max, check.max + 1)):
        system = [{"role": "system", "content": fixture.text}] * count
        yield f"{count} system messages", {"messages": [*system, user(fixture.text)]}


def _first_role(check: named.FirstRole, fixture: Fixture) -> Iterator[Turn]:
    for role in dict.fromkeys((*ROLES, *check.allowed)):
        first = {**turn_of(role, fixture.text)[0], "role": role}
        yield f"role {role} first", {"messages": [first, user(fixture.text)]}


def _last_role(check: named.LastRole, fixture: Fixture) -> Iterator[Turn]:
    text = fixture.text
    for role in dict.fromkeys((*ROLES, *check.allowed)):
        messages = [user(text), ASSISTANT] if role == "assistant" else turn_of(role, text)
        if messages[-1]["role"] != role:
            messages = [user(text), {"role": role, "content": text}]
        yield f"role {role} last", {"messages": messages}


def _required_role(check: named.RequiredRole, fixture: Fixture) -> Iterator[Turn]:
    for role in dict.fromkeys((*ROLES, *check.any_of)):
        only = [each for each in turn_of(role, fixture.text) if each["role"] == role]
        yield f"nothing but role {role}", {"messages": only}
        spoken = [{"role": "system", "content": fixture.text}, *only]
        yield f"nothing but roles system and {role}", {"messages": spoken}


def _alternation(_: named.Alternation, fixture: Fixture) -> Iterator[Turn]:
    text = fixture.text
    system, developer = ({"role": role, "content": text} for role in ("system", "developer"))
    conversations: dict[str, list[Fields]] = {
        "user, assistant, user": [user(text), ASSISTANT, user(text)],
        "user, user": [user(text), user(text)],
        "user, assistant, assistant, user": [user(text), ASSISTANT, ASSISTANT, user(text)],
        "assistant first": [ASSISTANT, user(text)],
        "two system messages first": [system, system, user(text)],
        "a developer first": [developer, user(text)],
        "a system message between": [user(text), ASSISTANT, system, user(text)],
        "two results of tools": [user(text), calling("call_1", "call_2"), result("call_1"), result("call_2")],
        "a user behind the result of a tool": [user(text), calling("call_1"), result("call_1"), user(text)],
    }
    yield from ((description, {"messages": messages}) for description, messages in conversations.items())


def _string_content(check: named.StringContent, fixture: Fixture) -> Iterator[Turn]:
    parts = [{"type": "text", "text": fixture.text}]
    for role in dict.fromkeys((*check.roles, "system", "user", "assistant", "tool")):
        for content in (parts, None):
            messages = holding_content(role, fixture.text, content)
            yield f"content of role {role} that is {'null' if content is None else 'a list'}", {"messages": messages}


def _content_parts(check: named.ContentParts, fixture: Fixture) -> Iterator[Turn]:
    text = fixture.text
    listed = {kind for kinds in (check.allowed, *check.by_role.values()) for kind in kinds}
    # With a role that has no list of its own, whichever have one.
    for role in dict.fromkeys((*_USUAL_ROLES, *check.by_role, *(("function",) if check.by_role else ()))):
        for kind in dict.fromkeys((*sorted(listed), *_USUAL_KINDS)):
            messages = holding_content(role, text, content_with(kind, text))
            yield f"a part of type {kind} in a message of role {role}", {"messages": messages}
    odd: dict[str, Any] = {
        "a part without a type": {"text": text},
        "a part whose type is null": {"type": None, "text": text},
        "a part whose type is a list": {"type": ["text"], "text": text},
        "a part that is a string": text,
    }
    for description, part in odd.items():
        yield description, {"messages": [user([part])]}
    yield "content that is no list", {"messages": [user({"type": FOREIGN})]}
    yield "an empty list of parts", {"messages": [user([]), user(text)]}


def content_with(kind: str, text: str) -> list[Any]:
    """Return a content with a text part and a part of a type."""
    return [{"type": "text", "text": text}, *([] if kind == "text" else [part_of(kind, text)])]


def holding_content(role: str, text: str, content: object) -> list[Fields]:
    """Return a conversation in which the messages of a role have a content."""
    return [{**each, "content": content} if each["role"] == role else each for each in turn_of(role, text)]


_USUAL_ROLES: Final = ("user", "system", "assistant", "tool")
_USUAL_KINDS: Final = ("text", "image_url", "video_url", "input_audio", "file", FOREIGN)


def _tool_results(_: named.ToolResults, fixture: Fixture) -> Iterator[Turn]:
    asked = [user(fixture.text), calling("call_1")]
    conversations: dict[str, list[Fields]] = {
        "a result that answers a call": [*asked, result("call_1")],
        "a result without tool_call_id": [*asked, {"role": "tool", "content": "Seen."}],
        "a result with an empty tool_call_id": [*asked, result("")],
        "a result with a number for tool_call_id": [*asked, result(1)],
        "a result that answers no call": [*asked, result("call_1"), result("call_9")],
        "a result where nothing was called": [user(fixture.text), result("call_1")],
    }
    yield from ((description, {"messages": messages}) for description, messages in conversations.items())


def _tool_calls_answered(_: named.ToolCallsAnswered, fixture: Fixture) -> Iterator[Turn]:
    question, asked = user(fixture.text), calling("call_1", "call_2")
    one, two = result("call_1"), result("call_2")
    conversations: dict[str, list[Fields]] = {
        "two calls and both results": [question, asked, one, two],
        "two calls and both results the other way round": [question, asked, two, one],
        "two calls and one result": [question, asked, one],
        "two calls and no result, a user behind": [question, asked, question],
        "calls at the very end": [question, calling("call_1")],
        "a user between the results": [question, asked, one, question, two],
        "two rounds of calls": [question, calling("call_1"), one, calling("call_2"), two],
    }
    yield from ((description, {"messages": messages}) for description, messages in conversations.items())


def _reasoning_passed_back(_: named.ReasoningPassedBack, fixture: Fixture) -> Iterator[Turn]:
    asked = calling("call_1")
    del asked["reasoning_content"]
    for description, given in (
        ("with reasoning_content", {"reasoning_content": "So."}),
        ("with empty reasoning_content", {"reasoning_content": ""}),
        ("without reasoning_content", {}),
        ("with reasoning_content null", {"reasoning_content": None}),
    ):
        yield f"calls {description}", {"messages": [user(fixture.text), {**asked, **given}, result("call_1")]}
    plain = {"role": "assistant", "content": "OK."}
    yield "no calls and no reasoning_content", {"messages": [user(fixture.text), plain, user(fixture.text)]}


def _prompt_contains(check: named.PromptContains, _: Fixture) -> Iterator[Turn]:
    when, lacking = first_values(check.when), "Say OK."
    conversations: dict[str, list[Fields]] = {
        "the word": [user(f"Say OK in {check.word}.")],
        "the word in capitals": [user(f"Say OK in {check.word.upper()}.")],
        "the word in a text part": [user([{"type": "text", "text": f"Say OK in {check.word}."}])],
        "the word in a system message": [{"role": "system", "content": check.word}, user(lacking)],
        "no such word": [user(lacking)],
    }
    yield from ((description, {**when, "messages": messages}) for description, messages in conversations.items())
    for path, wanted in check.when.items():
        for value in (*wanted[1:], "text", FOREIGN):
            yield f"no such word with {path} {value}", {**when, path: value, "messages": [user(lacking)]}
    yield "no such word where none is asked for", {"messages": [user(lacking)]}


def holding(tools: Any, role: str = "system") -> Fields:  # noqa: ANN401 - any value
    """Return a message with tools; it has content, because many engines reject a message without any."""
    return {"role": role, "content": "", "tools": tools}


def tools_named(*names: str) -> list[Any]:
    """Return tools with these names."""
    return [function(name) for name in names]


TURNS_BY: Final[dict[type, Callable[[Any, Fixture], Iterator[Turn]]]] = {
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
    named.PromptContains: _prompt_contains,
}
"""The generator of conversations for each check about messages."""
