"""Requests that test the named checks on tools and formats; `conversations` has those on messages."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from compiler.language.pattern_texts import texts_for
from compiler.language.samples import FOREIGN, function, shown
from compiler.verify.check import ChatRequest, Fields, run_of_letters
from compiler.verify.generation.conversations import TURNS_BY, Turn, holding, tools_named
from compiler.verify.generation.fixture import Fixture
from compiler.verify.generation.limits import PIXEL
from compiler.verify.generation.request_variant import RequestVariant
from router.contract.schema import named_checks as named
from router.contract.schema.rule_list import CheckRule

_DATA: Final = "data:image/png;base64,"


def variants_of_check(fixture: Fixture, rule: CheckRule) -> Iterator[RequestVariant]:
    """Yield requests that try a named check."""
    if isinstance(rule.check, named.Images):
        yield from _images(rule.check, fixture)
        return
    for description, fields in _TURNS_BY[type(rule.check)](rule.check, fixture):
        yield RequestVariant(description, fixture.request(fields))


def _tool_lists(check: named.Tools | named.MessageTools, forbidden: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    yield "one tool", tools_named("look")
    yield "two tools", tools_named("look", "find")
    yield "two tools of one name", tools_named("look", "look")
    yield "no array", "look"
    yield "a number among the tools", [1]
    yield "a tool without a type", [{"function": {"name": "look"}}]
    yield "a tool without a function", [{"type": "function"}]
    yield "a tool whose name is a number", [function(1)]
    yield "an empty list", []
    for kind in dict.fromkeys((*check.types, "web_search", "custom", FOREIGN)):
        tool = function("look", kind)
        yield f"a tool of type {kind}", [tool]
    for name in texts_for(check.name_pattern or ".+"):
        yield f"a tool named {shown(name)}", tools_named(name)
    for name in forbidden:
        yield f"a tool named {name}", tools_named(name)
        yield f"a tool named {name}x", tools_named(f"{name}x")


def _tools(check: named.Tools, _: Fixture) -> Iterator[Turn]:
    yield from ((description, {"tools": tools}) for description, tools in _tool_lists(check, check.forbidden_names))


def _message_tools(check: named.MessageTools, fixture: Fixture) -> Iterator[Turn]:
    role = check.roles[0] if check.roles else "system"
    asked = {"role": "user", "content": fixture.text}
    for description, tools in _tool_lists(check, ()):
        yield f"in a message: {description}", {"messages": [holding(tools, role), asked]}
    tools = tools_named("look")
    for other in dict.fromkeys((*check.roles, "system", "user", "assistant", "developer")):
        yield f"tools in a message of role {other}", {"messages": [holding(tools, other), asked]}
    yield "tools null in a user's message", {"messages": [{**asked, "tools": None}]}
    for content in ("Say OK.", "", None):
        message = {"role": role, "content": content, "tools": tools}
        yield f"tools beside the content {shown(content)}", {"messages": [message, asked]}
    twice = [holding(tools, role), asked]
    yield "a name in a message and in the request", {"tools": tools, "messages": twice}
    yield "another name in the request", {"tools": tools_named("find"), "messages": twice}
    yield "a name in two messages", {"messages": [holding(tools, role), *twice]}


def _tool_choice(check: named.ToolChoice, fixture: Fixture) -> Iterator[Turn]:
    tools = tools_named("look")
    chosen = {"type": "function", "function": {"name": "look"}}
    unknown = {"type": "function", "function": {"name": "find"}}
    words = dict.fromkeys(("auto", "none", "required", "any", *check.allowed, "AUTO", FOREIGN))
    choices: list[Any] = [*(word for word in words if word != "named"), chosen]
    for choice in choices:
        yield f"tool_choice {shown(choice)} with tools", {"tools": tools, "tool_choice": choice}
        yield f"tool_choice {shown(choice)} without tools", {"tool_choice": choice}
    odd: tuple[Any, ...] = (unknown, {"type": "function"}, 1, True, ["auto"], {})
    for other in odd:
        yield f"tool_choice {shown(other)}", {"tools": tools, "tool_choice": other}
    holder = [holding(tools), {"role": "user", "content": fixture.text}]
    for choice in ("required", chosen):
        yield f"tool_choice {shown(choice)} with tools in a message", {"messages": holder, "tool_choice": choice}
    yield "tool_choice null", {"tool_choice": None}


def _response_format(check: named.ResponseFormat, _: Fixture) -> Iterator[Turn]:
    schema: Fields = {"name": "answer", "schema": {"type": "object", "properties": {}}}
    for kind in dict.fromkeys(("text", "json_object", *check.types, FOREIGN)):
        if kind != "json_schema":
            yield f"response_format {kind}", {"response_format": {"type": kind}}
    for description, held in (
        ("", schema),
        (" that is strict", {**schema, "strict": True}),
        (" without a name", {"schema": schema["schema"]}),
        (" with an empty name", {**schema, "name": ""}),
        (" with a number for a name", {**schema, "name": 1}),
        (" without a schema", {"name": "answer"}),
        (" with a string for a schema", {**schema, "schema": "object"}),
        (' with strict "yes"', {**schema, "strict": "yes"}),
    ):
        yield f"a json_schema{description}", {"response_format": {"type": "json_schema", "json_schema": held}}
    yield "a json_schema of nothing", {"response_format": {"type": "json_schema"}}
    for value in ({}, "text", ["text"], {"type": 1}):
        yield f"response_format {shown(value)}", {"response_format": value}
    yield "response_format null", {"response_format": None}


def _images(check: named.Images, fixture: Fixture) -> Iterator[RequestVariant]:
    prefix = check.file_prefix or "file-"
    urls = [PIXEL, "http://127.0.0.1/a.png", "https://127.0.0.1/a.png", f"{prefix}0123", "other:0123", "DATA:,"]
    for url in urls:
        yield RequestVariant(f"an image at {shown(url)}", _showing(fixture, [{"url": url}]))
    yield RequestVariant("an image whose url is a bare string", _showing(fixture, [PIXEL]), is_edge=False)
    if check.max_url_bytes is not None:
        for size in (check.max_url_bytes, check.max_url_bytes + 1):
            url = f"{_DATA}{run_of_letters(size - len(_DATA))}"
            yield RequestVariant(f"a data URL of {size:,} bytes", _showing(fixture, [{"url": url}]))
    if check.max_bytes is not None:
        for size in (check.max_bytes, check.max_bytes + 1):
            url = f"{_DATA}{run_of_letters(-(-size * 4 // 3))}"
            yield RequestVariant(f"an image of {size:,} bytes", _showing(fixture, [{"url": url}]))
    if check.max_data_urls is not None:
        for count in (check.max_data_urls, check.max_data_urls + 1):
            yield RequestVariant(f"{count} images in data URLs", _showing(fixture, [{"url": f"{_DATA}AA=="}] * count))
    if check.max_total_bytes is not None:
        for size in (check.max_total_bytes, check.max_total_bytes + 1):
            parts = _images_of(size, check)
            yield RequestVariant(f"{len(parts)} images of {size:,} bytes together", _showing(fixture, parts))


def _images_of(size: int, check: named.Images) -> list[Any]:
    """Return images of some decoded bytes together, none larger than the limits of a single one."""
    of_url = None if check.max_url_bytes is None else (check.max_url_bytes - len(_DATA)) * 3 // 4
    most = min(limit for limit in (check.max_bytes, of_url, -(-size // 2)) if limit is not None and limit > 0)
    sizes = [min(most, size - start) for start in range(0, size, most)]
    return [{"url": f"{_DATA}{run_of_letters(-(-each * 4 // 3))}"} for each in sizes]


def _showing(fixture: Fixture, urls: list[Any]) -> ChatRequest:
    parts = [{"type": "image_url", "image_url": url} for url in urls]
    message = {"role": "user", "content": [{"type": "text", "text": fixture.text}, *parts]}
    return fixture.request({"messages": [message]})


_TURNS_BY: Final[dict[type, Callable[[Any, Fixture], Iterator[Turn]]]] = {
    **TURNS_BY,
    named.Tools: _tools,
    named.MessageTools: _message_tools,
    named.ToolChoice: _tool_choice,
    named.ResponseFormat: _response_format,
}
