"""The rules of `checks`: rules about messages, tools and formats beyond single fields."""

from typing import Any, Final

from compiler.language.values import (
    BODY_BYTES,
    Rules,
    condition,
    error,
    flag,
    free,
    mapping,
    one_or_many,
    size,
    source,
    text,
    whole,
)

CHOICES: Final = ("auto", "none", "required", "named", "any")
"""The values of `tool_choice` that a contract can name."""

IMAGE_SOURCES: Final = ("data", "http", "file")


def _check(meaning: str, schema: Rules, *parts: str) -> Rules:
    return mapping({**schema, "error": error(*parts), "source": source()}, meaning)


def _texts(what: str, **meta: Any) -> Rules:  # noqa: ANN401 - whatever people read
    return one_or_many(text(what), what, **meta)


def _words(allowed: tuple[str, ...], **meta: Any) -> Rules:  # noqa: ANN401
    expected = f"one of {', '.join(allowed)}"
    return one_or_many({"type": "string", "allowed": list(allowed), "meta": {"expected": expected}}, expected, **meta)


def _count(meaning: str, example: str, **meta: Any) -> Rules:  # noqa: ANN401
    return whole(0, "a whole number, at least 0", meaning=meaning, example=example, **meta)


def _pattern() -> Rules:
    return text(
        "a regular expression in the syntax of RE2",
        meaning="What the whole name of a function must match.",
        absent="any name",
        example='"[a-zA-Z_][a-zA-Z0-9_-]{0,63}"',
    )


def _needed(rules: Rules) -> Rules:
    return {"required": True, **rules}


_TYPES: Final = _texts("a type of tool", meaning="The types that a tool may have.", absent="any", example="[function]")
_UNIQUE: Final = flag("Refuse tools of the same name.")

CHECKS: Final[Rules] = {
    "roles": _check(
        "Which roles messages may have.",
        {
            "allowed": _needed(
                _texts("a role", meaning="The roles that are accepted.", example="[system, user, assistant, tool]")
            )
        },
    ),
    "system_messages": _check(
        "How many messages may have the role system.",
        {"max": _needed(_count("The most messages of role system.", "1"))},
    ),
    "first_role": _check(
        "Which roles the first message may have.",
        {"allowed": _needed(_texts("a role", meaning="The roles that are accepted.", example="[system, user]"))},
    ),
    "last_role": _check(
        "Which roles the last message may have.",
        {"allowed": _needed(_texts("a role", meaning="The roles that are accepted.", example="[user, tool]"))},
    ),
    "required_role": _check(
        "Which roles some message must have.",
        {"any_of": _needed(_texts("a role", meaning="Some message has one of these roles.", example="[user]"))},
    ),
    "alternation": _check("Messages of users or tools and of the assistant alternate.", {}),
    "string_content": _check(
        "Which messages have a string for their content.",
        {"roles": _needed(_texts("a role", meaning="The roles of these messages.", example="[tool]"))},
    ),
    "content_parts": _check(
        "Which types the parts of a content may have.",
        {
            "allowed": _needed(
                _texts("a type of part", meaning="The types that are accepted.", example="[text, image_url]")
            ),
            "by_role": free(
                text("a role"),
                one_or_many(text("a type of part"), "a type of part"),
                "a mapping of roles to types of parts",
                meaning="The types that are accepted in messages of single roles, instead of `allowed`.",
                absent="none",
                example="{tool: [text], system: [text]}",
            ),
        },
        "types",
        "shape",
    ),
    "tool_results": _check(
        "Messages of role tool name the call whose result they are.",
        {"known_call": flag("Reject the result of a call that no earlier message made.")},
        "tool_call_id",
        "known_call",
    ),
    "tool_calls_answered": _check("The results of every call of an assistant message follow directly after it.", {}),
    "reasoning_passed_back": _check("Assistant messages that call tools carry their reasoning.", {}),
    "tools": _check(
        "The request's tools are well formed.",
        {
            "types": _TYPES,
            "name_pattern": _pattern(),
            "forbidden_names": _texts(
                "a name", meaning="Names that no function may have.", absent="none", example="[search]"
            ),
            "unique": _UNIQUE,
        },
        *("shape", "types", "name", "forbidden", "unique"),
    ),
    "message_tools": _check(
        "Tools within messages are well formed and in allowed places.",
        {
            "roles": _texts(
                "a role", meaning="The roles whose messages may hold tools.", absent="any", example="[system]"
            ),
            "empty_content": flag("A message with tools has no content."),
            "types": _texts(
                "a type of tool", meaning="The types that a tool may have.", default="[function]", example="[function]"
            ),
            "name_pattern": _pattern(),
            "unique": _UNIQUE,
        },
        *("roles", "content", "shape", "types", "name", "unique"),
    ),
    "tool_choice": _check(
        "What `tool_choice` may be.",
        {
            "allowed": _needed(
                _words(
                    CHOICES,
                    meaning="The values that are accepted; `named` is an object that names a function.",
                    example="[auto, none, required, named]",
                )
            ),
            "requires_tools": _words(
                CHOICES, meaning="The values that need a tool.", absent="none", example="[required, named]"
            ),
            "drop_without_tools": flag("Do not send it to the engine when there are no tools."),
            "known": flag("Refuse the name of a function that is not among the tools."),
        },
        *(*CHOICES, "other", "requires_tools", "known"),
    ),
    "response_format": _check(
        "What `response_format` may be.",
        {
            "types": _needed(
                _texts("a type of format", meaning="The types that are accepted.", example="[text, json_object]")
            ),
            "named_schema": flag("A JSON schema has a name."),
        },
        "types",
        "named_schema",
    ),
    "images": _check(
        "What image parts may refer to.",
        {
            "sources": _words(
                IMAGE_SOURCES,
                meaning="What an image may be: a data URL, an http(s) URL, the id of a file.",
                default="[data, http, file]",
                example="[data, file]",
            ),
            "file_prefix": text(
                "a prefix", meaning="What the id of a file begins with.", absent="any", example='"ms://"'
            ),
            "max_bytes": size(
                BODY_BYTES, meaning="The most bytes of a decoded image.", absent="any number", example="20MiB"
            ),
            "max_url_bytes": size(
                BODY_BYTES, meaning="The most bytes of a data URL as sent.", absent="any number", example="20MiB"
            ),
            "max_data_urls": _count("The most data URLs in one request.", "250", absent="any number"),
            "max_total_bytes": size(
                BODY_BYTES,
                meaning="The most bytes of all decoded images of data URLs in one request.",
                absent="any number",
                example="50MiB",
            ),
            "wrap_bare_url": flag("Bring an `image_url` that is a string into the form `{url: …}` for the engine."),
        },
        *("sources", "max_bytes", "max_url_bytes", "max_data_urls", "max_total_bytes"),
    ),
    "prompt_contains": _check(
        "A word that the messages must contain.",
        {
            "word": _needed(
                text("a word", meaning="What some text must contain, in upper or lower case.", example="json")
            ),
            "when": condition(
                meaning="Which requests are checked, by values of fields.",
                absent="all",
                example="{response_format.type: json_object}",
            ),
        },
    ),
}
