"""Tools, how they are chosen, formats of answers, and tools within messages: what of each is accepted."""

from collections.abc import Sequence
from typing import Any, Final

from compiler.probe.conversations import Checks
from compiler.probe.evidence import things_said, values_said
from compiler.probe.experiment import Base, Learning, Reply, asked, shown
from compiler.probe.texts import Texts, learn_texts, pattern_of
from compiler.verify.check import Fields
from compiler.verify.generation.boundary_values import FOREIGN, function
from compiler.verify.generation.conversations import holding, tools_named, user

_WORDS: Final = ("auto", "none", "required", "any")
_CHOSEN: Final[Fields] = {"type": "function", "function": {"name": "look"}}
_TYPES: Final = ("function", "web_search", "custom", FOREIGN)
_FORBIDDEN: Final = ("search", "web_search", "python")
_NAME_LENGTHS: Final = (1, 2, 3, 32, 63, 64, 65, 128, 255, 256, 257, 1024)
_WITH_WORD: Final = "Say OK as JSON."
_SCHEMA: Final[Fields] = {"type": "object", "properties": {}}


def learn_tool_choice(base: Base) -> Learning[Checks]:
    """Learn which values `tool_choice` takes, with tools and without."""
    about, tools = "checks.tool_choice", tools_named("look")
    choices: dict[str, Any] = {**{word: word for word in _WORDS}, "named": _CHOSEN}
    odd: tuple[Any, ...] = (FOREIGN, "AUTO", 1, ["auto"], {})
    beside = yield from asked(
        *(base.question(about, {"tools": tools, "tool_choice": choice}) for choice in (*choices.values(), *odd))
    )
    alone = yield from asked(*(base.question(about, {"tool_choice": choice}) for choice in choices.values()))
    unknown = {"type": "function", "function": {"name": "find"}}
    astray = yield from asked(base.question(about, {"tools": tools, "tool_choice": unknown}))
    kinds = beside[: len(choices)]
    allowed = [kind for kind, reply in zip(choices, kinds, strict=True) if reply.is_accepted]
    is_odd_refused = any(reply.is_refused for reply in beside[len(choices) :])
    lacking = [
        kind for kind, reply, lone in zip(choices, kinds, alone, strict=True) if reply.is_accepted and lone.is_refused
    ]
    if not allowed or (len(allowed) == len(choices) and not is_odd_refused and not lacking):
        return Checks({})
    section: Fields = {"allowed": allowed}
    if not is_odd_refused:
        refused = ", ".join(kind for kind in choices if kind not in allowed) or "a choice without tools"
        return Checks({}, (f"{about}: {refused} refused, and yet an unknown word accepted",))
    if lacking:
        section["requires_tools"] = lacking
    if "named" in allowed and astray[0].is_refused:
        section["known"] = True
    told = [*beside, *alone, *astray]
    return Checks({"tool_choice": {**section, "source": values_said(told, "tool_choice")}})


def learn_response_format(base: Base) -> Learning[Checks]:
    """Learn which formats are accepted, how a schema has to look, and whether the prompt must name the format."""
    about, said = "checks.response_format", {"messages": [user(_WITH_WORD)]}
    schema: Fields = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}}
    kinds: dict[str, Any] = {"text": {"type": "text"}, "json_object": {"type": "json_object"}, "json_schema": schema}
    odd: tuple[Any, ...] = ({"type": FOREIGN}, "text", {}, {"type": 1})
    replies = yield from asked(
        *(base.question(about, {**said, "response_format": value}) for value in (*kinds.values(), *odd))
    )
    lesser = yield from asked(
        *(
            base.question(about, {**said, "response_format": {"type": "json_schema", "json_schema": held}})
            for held in _LESSER
        )
    )
    wordless = yield from asked(base.question("checks.prompt_contains", {"response_format": kinds["json_object"]}))
    allowed = [kind for kind, reply in zip(kinds, replies, strict=False) if reply.is_accepted]
    rules: dict[str, Fields] = {}
    fields: dict[str, Fields] = {}
    untold: tuple[str, ...] = ()
    is_odd_refused = replies[len(kinds)].is_refused
    refused = [kind for kind in kinds if kind not in allowed]
    said_of = values_said([*replies, *lesser], "response_format.type")
    if allowed and is_odd_refused:
        rules["response_format"] = {"types": allowed, "source": said_of}
        if "json_schema" in allowed and lesser[0].is_refused:
            rules["response_format"]["named_schema"] = True
    elif refused and replies[len(kinds)].is_accepted:
        excluded = refused[0] if len(refused) == 1 else refused
        fields["response_format"] = {"excludes": {"response_format.type": excluded}, "source": said_of}
    elif refused and not allowed:
        fields["response_format"] = {"reject": True, "source": said_of}
    if "json_object" in allowed and wordless[0].is_refused:
        rules["prompt_contains"] = {
            "word": "json",
            "when": {"response_format.type": "json_object"},
            "source": things_said([shown(_WITH_WORD)], [shown(base.text)], wordless),
        }
        yield from _more_without_word(base)
    return Checks({**rules, **{f"fields.{name}": rule for name, rule in fields.items()}}, untold)


_LESSER: Final[tuple[Fields, ...]] = (
    {"schema": _SCHEMA},
    {"name": "", "schema": _SCHEMA},
    {"name": "answer"},
    {"name": "answer", "schema": _SCHEMA, "strict": "yes"},
)
"""What a schema may lack, the name first."""


def _more_without_word(base: Base) -> Learning[None]:
    other = [{"role": "system", "content": "Be brief."}, user(base.text)]
    yield from asked(
        base.question("checks.prompt_contains", {"response_format": {"type": "json_object"}, "messages": other})
    )


def learn_tools(base: Base) -> Learning[Checks]:
    """Learn how the tools of a request must look."""
    return (yield from _learn_tools(base, "checks.tools", lambda tools: {"tools": tools}))


def learn_message_tools(base: Base) -> Learning[Checks]:
    """Learn whether messages may hold tools, and how these must look."""
    about, asks = "checks.message_tools", user(base.text)

    def held(tools: object, role: str = "system", **more: object) -> Fields:
        return {"messages": [{**holding(tools, role), **more}, asks]}

    learnt = yield from _learn_tools(base, about, held)
    tools = tools_named("look")
    roles = ("system", "developer", "user", "assistant")
    by_role = yield from asked(*(base.question(about, held(tools, role)) for role in roles))
    beside = yield from asked(
        base.question(about, held(tools, content="Say OK.")), base.question(about, held(tools, content=""))
    )
    twice = yield from asked(
        base.question(about, {"tools": tools, **held(tools)}),
        base.question(about, {"tools": tools_named("find"), **held(tools)}),
    )
    if "message_tools" not in learnt.rules or not by_role[0].is_accepted:
        return Checks({}, learnt.untold)
    section = learnt.rules["message_tools"]
    if any(reply.is_refused for reply in by_role):
        section["roles"] = [role for role, reply in zip(roles, by_role, strict=True) if reply.is_accepted]
    if beside[0].is_refused and beside[1].is_accepted:
        section["empty_content"] = True
    if twice[0].is_refused and twice[1].is_accepted:
        section["unique"] = True
    return Checks({"message_tools": section}, learnt.untold)


def _learn_tools(base: Base, about: str, placed: Any) -> Learning[Checks]:  # noqa: ANN401 - tools → changes
    def question(tools: object) -> Any:  # noqa: ANN401 - a question
        return base.question(about, placed(tools))

    plain = yield from asked(question(tools_named("look")), question(tools_named("look", "find")), question([]))
    odd = yield from asked(*map(question, _SHAPES.values()))
    if not plain[0].is_accepted or not any(reply.is_refused for reply in odd):
        return Checks({})
    if not all(reply.is_refused for reply in odd):
        return Checks({}, (f"{about}: of tools that are not well formed some are refused and some are not",))
    of_types = yield from asked(*(question([function("look", kind)]) for kind in _TYPES))
    of_names = yield from asked(*(question(tools_named(name)) for name in _FORBIDDEN))
    twice = yield from asked(question(tools_named("look", "look")))
    texts = yield from learn_texts(lambda name: question(tools_named(str(name))), (0, *_NAME_LENGTHS))
    section: Fields = {}
    if any(reply.is_refused for reply in of_types) or about == "checks.message_tools":
        section["types"] = [kind for kind, reply in zip(_TYPES, of_types, strict=True) if reply.is_accepted]
    if texts.lengths.kind == "band" or not texts.takes_any_letter:
        section["name_pattern"] = pattern_of(texts)
    forbidden = [name for name, reply in zip(_FORBIDDEN, of_names, strict=True) if reply.is_refused]
    if forbidden and about == "checks.tools":
        section["forbidden_names"] = forbidden
    if twice[0].is_refused:
        section["unique"] = True
    replies = [*odd, *of_types, *of_names, *twice, *texts.replies]
    said = things_said(["tools that are well formed"], _refused_tools(odd, of_types, of_names, twice, texts), replies)
    return Checks({about.removeprefix("checks."): {**section, "source": said}})


_SHAPES: Final[dict[str, Any]] = {
    "a text": "look",
    "a number in the list": [1],
    "a tool without a type": [{"function": {"name": "look"}}],
    "a function that is not there": [{"type": "function"}],
    "the name 1": [function(1)],
}
"""What is no list of tools, in words."""


def _refused_tools(
    odd: Sequence[Reply], of_types: Sequence[Reply], of_names: Sequence[Reply], twice: Sequence[Reply], texts: Texts
) -> list[str]:
    """Return in words which tools were refused."""
    words = [f"type {kind}" for kind, reply in zip(_TYPES, of_types, strict=True) if reply.is_refused]
    words += [f"the name {name}" for name, reply in zip(_FORBIDDEN, of_names, strict=True) if reply.is_refused]
    words += ["a name twice"] if twice[0].is_refused else []
    words += ["some names by their letters or their length"] if any(each.is_refused for each in texts.replies) else []
    return [*words, *(shape for shape, reply in zip(_SHAPES, odd, strict=True) if reply.is_refused)]
