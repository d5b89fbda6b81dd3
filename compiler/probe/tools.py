"""Learn which tools, tool choices, response formats, and tools within messages are accepted."""

from collections.abc import Sequence
from typing import Any, Final

from compiler.language.samples import FOREIGN, function
from compiler.probe.conversations import LearnedChecks
from compiler.probe.evidence import evidence_of, evidence_of_values
from compiler.probe.experiment import BaseRequest, ExperimentResult, Learner, ask_all, shown
from compiler.probe.texts import AcceptedTexts, learn_texts, pattern_of
from compiler.verify.check import Fields
from compiler.verify.generation.conversations import holding, tools_named, user

_WORDS: Final = ("auto", "none", "required", "any")
_CHOSEN: Final[Fields] = {"type": "function", "function": {"name": "look"}}
_TYPES: Final = ("function", "web_search", "custom", FOREIGN)
_FORBIDDEN: Final = ("search", "web_search", "python")
_NAME_LENGTHS: Final = (1, 2, 3, 32, 63, 64, 65, 128, 255, 256, 257, 1024)
_WITH_WORD: Final = "Say OK as JSON."
_SCHEMA: Final[Fields] = {"type": "object", "properties": {}}


def learn_tool_choice(base: BaseRequest) -> Learner[LearnedChecks]:
    """Learn which values `tool_choice` takes, with tools and without."""
    about, tools = "checks.tool_choice", tools_named("look")
    choices: dict[str, Any] = {**{word: word for word in _WORDS}, "named": _CHOSEN}
    odd: tuple[Any, ...] = (FOREIGN, "AUTO", 1, ["auto"], {})
    beside = yield from ask_all(
        *(base.experiment(about, {"tools": tools, "tool_choice": choice}) for choice in (*choices.values(), *odd))
    )
    alone = yield from ask_all(*(base.experiment(about, {"tool_choice": choice}) for choice in choices.values()))
    unknown = {"type": "function", "function": {"name": "find"}}
    astray = yield from ask_all(base.experiment(about, {"tools": tools, "tool_choice": unknown}))
    kinds = beside[: len(choices)]
    allowed = [kind for kind, result in zip(choices, kinds, strict=True) if result.is_accepted]
    is_odd_rejected = any(result.is_rejected for result in beside[len(choices) :])
    lacking = [
        kind
        for kind, result, lone in zip(choices, kinds, alone, strict=True)
        if result.is_accepted and lone.is_rejected
    ]
    if not allowed or (len(allowed) == len(choices) and not is_odd_rejected and not lacking):
        return LearnedChecks({})
    section: Fields = {"allowed": allowed}
    if not is_odd_rejected:
        rejected = ", ".join(kind for kind in choices if kind not in allowed) or "a choice without tools"
        return LearnedChecks({}, (f"{about}: {rejected} rejected, and yet an unknown word accepted",))
    if lacking:
        section["requires_tools"] = lacking
    if "named" in allowed and astray[0].is_rejected:
        section["known"] = True
    responses_seen = [*beside, *alone, *astray]
    return LearnedChecks({"tool_choice": {**section, "source": evidence_of_values(responses_seen, "tool_choice")}})


def learn_response_format(base: BaseRequest) -> Learner[LearnedChecks]:
    """Learn which formats are accepted, how a schema has to look, and whether the prompt must name the format."""
    about, said = "checks.response_format", {"messages": [user(_WITH_WORD)]}
    schema: Fields = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}}
    kinds: dict[str, Any] = {"text": {"type": "text"}, "json_object": {"type": "json_object"}, "json_schema": schema}
    odd: tuple[Any, ...] = ({"type": FOREIGN}, "text", {}, {"type": 1})
    results = yield from ask_all(
        *(base.experiment(about, {**said, "response_format": value}) for value in (*kinds.values(), *odd))
    )
    lesser = yield from ask_all(
        *(
            base.experiment(about, {**said, "response_format": {"type": "json_schema", "json_schema": held}})
            for held in _LESSER
        )
    )
    wordless = yield from ask_all(base.experiment("checks.prompt_contains", {"response_format": kinds["json_object"]}))
    allowed = [kind for kind, result in zip(kinds, results, strict=False) if result.is_accepted]
    rules: dict[str, Fields] = {}
    fields: dict[str, Fields] = {}
    undetermined: tuple[str, ...] = ()
    is_odd_rejected = results[len(kinds)].is_rejected
    rejected = [kind for kind in kinds if kind not in allowed]
    said_of = evidence_of_values([*results, *lesser], "response_format.type")
    if allowed and is_odd_rejected:
        rules["response_format"] = {"types": allowed, "source": said_of}
        if "json_schema" in allowed and lesser[0].is_rejected:
            rules["response_format"]["named_schema"] = True
    elif rejected and results[len(kinds)].is_accepted:
        excluded = rejected[0] if len(rejected) == 1 else rejected
        fields["response_format"] = {"excludes": {"response_format.type": excluded}, "source": said_of}
    elif rejected and not allowed:
        fields["response_format"] = {"reject": True, "source": said_of}
    if "json_object" in allowed and wordless[0].is_rejected:
        rules["prompt_contains"] = {
            "word": "json",
            "when": {"response_format.type": "json_object"},
            "source": evidence_of([shown(_WITH_WORD)], [shown(base.text)], wordless),
        }
        yield from _more_without_word(base)
    return LearnedChecks({**rules, **{f"fields.{name}": rule for name, rule in fields.items()}}, undetermined)


_LESSER: Final[tuple[Fields, ...]] = (
    {"schema": _SCHEMA},
    {"name": "", "schema": _SCHEMA},
    {"name": "answer"},
    {"name": "answer", "schema": _SCHEMA, "strict": "yes"},
)
"""Schemas that lack a member, the name first."""


def _more_without_word(base: BaseRequest) -> Learner[None]:
    other = [{"role": "system", "content": "Be brief."}, user(base.text)]
    yield from ask_all(
        base.experiment("checks.prompt_contains", {"response_format": {"type": "json_object"}, "messages": other})
    )


def learn_tools(base: BaseRequest) -> Learner[LearnedChecks]:
    """Learn how the tools of a request must look."""
    return (yield from _learn_tools(base, "checks.tools", lambda tools: {"tools": tools}))


def learn_message_tools(base: BaseRequest) -> Learner[LearnedChecks]:
    """Learn whether messages may contain tools, and the rules for these."""
    about, question = "checks.message_tools", user(base.text)

    def held(tools: object, role: str = "system", **more: object) -> Fields:
        return {"messages": [{**holding(tools, role), **more}, question]}

    learned = yield from _learn_tools(base, about, held)
    tools = tools_named("look")
    roles = ("system", "developer", "user", "assistant")
    by_role = yield from ask_all(*(base.experiment(about, held(tools, role)) for role in roles))
    beside = yield from ask_all(
        base.experiment(about, held(tools, content="Say OK.")), base.experiment(about, held(tools, content=""))
    )
    twice = yield from ask_all(
        base.experiment(about, {"tools": tools, **held(tools)}),
        base.experiment(about, {"tools": tools_named("find"), **held(tools)}),
    )
    if "message_tools" not in learned.rules or not by_role[0].is_accepted:
        return LearnedChecks({}, learned.undetermined)
    section = learned.rules["message_tools"]
    if any(result.is_rejected for result in by_role):
        section["roles"] = [role for role, result in zip(roles, by_role, strict=True) if result.is_accepted]
    if beside[0].is_rejected and beside[1].is_accepted:
        section["empty_content"] = True
    if twice[0].is_rejected and twice[1].is_accepted:
        section["unique"] = True
    return LearnedChecks({"message_tools": section}, learned.undetermined)


def _learn_tools(base: BaseRequest, about: str, placed: Any) -> Learner[LearnedChecks]:  # noqa: ANN401 - tools → changes
    def experiment(tools: object) -> Any:  # noqa: ANN401 - a question
        return base.experiment(about, placed(tools))

    plain = yield from ask_all(experiment(tools_named("look")), experiment(tools_named("look", "find")), experiment([]))
    odd = yield from ask_all(*map(experiment, _SHAPES.values()))
    if not plain[0].is_accepted or not any(result.is_rejected for result in odd):
        return LearnedChecks({})
    if not all(result.is_rejected for result in odd):
        return LearnedChecks({}, (f"{about}: of tools that are not well formed some are rejected and some are not",))
    of_types = yield from ask_all(*(experiment([function("look", kind)]) for kind in _TYPES))
    of_names = yield from ask_all(*(experiment(tools_named(name)) for name in _FORBIDDEN))
    twice = yield from ask_all(experiment(tools_named("look", "look")))
    texts = yield from learn_texts(lambda name: experiment(tools_named(str(name))), (0, *_NAME_LENGTHS))
    section: Fields = {}
    if any(result.is_rejected for result in of_types) or about == "checks.message_tools":
        section["types"] = [kind for kind, result in zip(_TYPES, of_types, strict=True) if result.is_accepted]
    if texts.lengths.kind == "band" or not texts.takes_any_letter:
        section["name_pattern"] = pattern_of(texts)
    forbidden = [name for name, result in zip(_FORBIDDEN, of_names, strict=True) if result.is_rejected]
    if forbidden and about == "checks.tools":
        section["forbidden_names"] = forbidden
    if twice[0].is_rejected:
        section["unique"] = True
    results = [*odd, *of_types, *of_names, *twice, *texts.results]
    said = evidence_of(["tools that are well formed"], _rejected_tools(odd, of_types, of_names, twice, texts), results)
    return LearnedChecks({about.removeprefix("checks."): {**section, "source": said}})


_SHAPES: Final[dict[str, Any]] = {
    "a text": "look",
    "a number in the list": [1],
    "a tool without a type": [{"function": {"name": "look"}}],
    "a function that is not there": [{"type": "function"}],
    "the name 1": [function(1)],
}
"""Values that are no list of tools, with their descriptions."""


def _rejected_tools(
    odd: Sequence[ExperimentResult],
    of_types: Sequence[ExperimentResult],
    of_names: Sequence[ExperimentResult],
    twice: Sequence[ExperimentResult],
    texts: AcceptedTexts,
) -> list[str]:
    """Return a text on the tools that were rejected."""
    words = [f"type {kind}" for kind, result in zip(_TYPES, of_types, strict=True) if result.is_rejected]
    words += [f"the name {name}" for name, result in zip(_FORBIDDEN, of_names, strict=True) if result.is_rejected]
    words += ["a name twice"] if twice[0].is_rejected else []
    words += ["some names by their letters or their length"] if any(each.is_rejected for each in texts.results) else []
    return [*words, *(shape for shape, result in zip(_SHAPES, odd, strict=True) if result.is_rejected)]
