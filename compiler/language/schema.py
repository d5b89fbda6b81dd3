"""The profile language, once: every key with its type, domain, meaning and example, as one Cerberus schema.

Where a value may be written in several ways, `anyof` lists them; validation picks the branch that fits what was written
(Cerberus itself would report all, and normalises nothing within `anyof`). `meta` holds what people read: `expected` is
what an error says; `meaning`, `default` (a value, as YAML) or else `absent` (what holds then, in words) and `example`
are for the reference and for editors. Maps whose keys a profile chooses have `keysrules` and `valuesrules`.
"""

from typing import Final

from compiler.language.checks import CHECKS
from compiler.language.fields import FIELDS
from compiler.language.sampling import SAMPLING_PARAMS
from compiler.language.values import (
    BODY_BYTES,
    BYTE_SIZE,
    BYTE_UNITS,
    LARGEST_WHOLE,
    MAX_TEXT,
    Rules,
    choice,
    condition,
    envelope,
    error,
    field_path,
    flag,
    free,
    many,
    mapping,
    one_or_many,
    scalar,
    size,
    source,
    text,
    whole,
    words,
)
from router.contract.errors import STATUS_OF
from router.contract.schema.sections import DEFAULT_MAX_BODY_BYTES

__all__ = ["BYTE_SIZE", "BYTE_UNITS", "CASE", "LARGEST_WHOLE", "MAX_TEXT", "SAMPLING_PARAMS", "SCHEMA", "Rules"]

MAX_ALIASES: Final = 1000
MAX_CASES: Final = 100

PARENT_PATH: Final = r"(?!.*\.json\Z).*(/|\.ya?ml\Z)"
"""An `extends` value that is a path and no artifact; any other is the name of a preset."""

ANSWER_CODES: Final = tuple(sorted({*STATUS_OF, "contract_violation", "unknown_field"}))
"""The router's error codes, for each of which a contract may have an error text."""


_ALIAS_LIST: Final[Rules] = {"type": "list", "maxlength": MAX_ALIASES, "schema": text("a model name")}
_ALIAS: Final = mapping(
    {
        "model": text(
            "a served model id",
            meaning="The served model id that the alias stands for.",
            absent="the first served id",
            example="v4-flash",
        ),
        "implies": free(
            field_path(),
            scalar(),
            "a mapping of request fields to values",
            meaning="Fields that a request for the alias has where it does not send them.",
            absent="none",
            example="{thinking.type: disabled}",
        ),
        "source": source(),
    },
    "What a request for this name means.",
)

_GLOBS: Final = "a name of a model, in which * stands for anything"

_MODE: Final = mapping(
    {
        "default": {"required": True}
        | text("the name of a mode", meaning="The mode of a request that nothing in `match` fits.", example="thinking"),
        "match": many(
            mapping(
                {
                    "mode": {"required": True}
                    | text(
                        "the name of a mode", meaning="The mode of a request that this matches.", example="thinking"
                    ),
                    "model": one_or_many(
                        text(_GLOBS),
                        _GLOBS,
                        meaning="Which models, by the served id or the name asked for.",
                        absent="any",
                        example='"*-thinking-*"',
                    ),
                    "when": condition(
                        meaning="Values of fields that must all hold.", absent="any", example="{thinking.type: enabled}"
                    ),
                },
                "Which requests have a mode.",
            ),
            "a list of mappings with mode, model, when",
            meaning="How the mode of a request is determined: the first that matches applies.",
            default="[]",
            example="[{mode: thinking, when: {thinking.type: enabled}}]",
        ),
        "source": source(),
    },
    "How the mode of a request is determined.",
)

_LIMITS: Final[Rules] = {
    "max_body_bytes": size(
        BODY_BYTES,
        default=f"{DEFAULT_MAX_BODY_BYTES // BYTE_UNITS['MiB']}MiB",
        meaning="The largest request body.",
        example="100MiB",
    ),
    "max_images": whole(
        0,
        "a whole number, at least 0",
        meaning="The most image parts in one request, over its whole history.",
        absent="any number",
        example="20",
    ),
    **{
        f"max_{name}s": whole(
            0,
            "a whole number, at least 0",
            meaning=f"The most {name} parts in one request, over its whole history.",
            absent="any number",
            example="1",
        )
        for name in ("video", "audio", "file")
    },
    "source": source(),
}

_MAX_TOKENS: Final[Rules] = {
    "cap": {"required": True}
    | whole(1, "a whole number of tokens, at least 1", meaning="The largest output budget in tokens.", example="32768"),
    "on_exceed": choice("reject", "clamp", meaning="What happens to a request above the cap."),
    "default": {
        "anyof": [
            {"type": "number", "whole": True, "min": 1, "max": LARGEST_WHOLE},
            {"type": "string", "allowed": ["none"]},
        ],
        "meta": {
            "expected": "a whole number of tokens, from 1 to the cap, or none",
            "meaning": "The budget of a request without one; `none` injects nothing.",
            "absent": "the cap",
            "example": "8192",
        },
    },
    "source": source(),
}

_ERRORS: Final[Rules] = {
    "bad_request_type": text(
        "an error type",
        meaning="Replaces `type` in the body of every 400.",
        absent="each 400 keeps its own",
        example="invalid_request_error",
    ),
    "body": envelope(meaning="The body of every error of the router.", absent="the router's own"),
    "omit_null": flag("Members of a body that are null are left out."),
    "codes": mapping(
        {
            code: words(meaning=f"The error text of {code}.", absent="the router's", example="{status: 400}")
            for code in ANSWER_CODES
        },
        "Error texts by the router's error code; bad_request applies to every other 400, too.",
    ),
    "engine_400": words(
        meaning="The error text of a 400 of the engine.", absent="the engine's", example='{message: "{message}"}'
    ),
    "source": source(),
}

_SECTIONS: Final[Rules] = {
    "limits": mapping(_LIMITS, "How large a request may be."),
    "output": mapping(
        {"max_tokens": mapping(_MAX_TOKENS, "The output budget of a request.")}, "What a request may ask for."
    ),
    "sampling": mapping(
        {
            "conflict": choice("reject", "allow", meaning="What happens to a request that sends another value."),
            "params": mapping(
                SAMPLING_PARAMS, "Each parameter: a number pins it, {min: ..., max: ...} accepts a band."
            ),
            "source": source(),
        },
        "The sampling contract.",
    ),
    "fields": FIELDS,
    "checks": mapping(CHECKS, "What is verified about messages, tools and formats."),
    "unknown_fields": mapping(
        {
            "policy": choice("pass", "drop", "reject", meaning="What happens to unknown top-level fields."),
            "known": many(
                text("a field"),
                "a list of request fields",
                meaning="Known fields besides those that have rules.",
                default="[]",
                example="[seed, user]",
            ),
            "within": free(
                field_path(),
                mapping(
                    {
                        "policy": choice("reject", "drop", meaning="What happens to unknown members of the object."),
                        "known": many(
                            text("a member"),
                            "a list of members",
                            meaning="Known members besides those that have rules.",
                            default="[]",
                            example="[type]",
                        ),
                        "error": error(),
                        "source": source(),
                    },
                    "What happens to unknown members of this object.",
                ),
                "a mapping of paths of objects to their rules",
                meaning="What happens to unknown members of objects within the request, by the object's dotted path.",
                absent="they pass",
                example="{thinking: {known: [type, budget_tokens]}}",
            ),
            "error": error(),
            "source": source(),
        },
        "What happens to unknown fields.",
    ),
    "response": mapping(
        {
            "stream": mapping(
                {
                    "usage": choice(
                        "as_asked", "end_frame", "tail_frame", meaning="Where a streamed response reports its usage."
                    ),
                    "source": source(),
                },
                "What streamed responses look like.",
            )
        },
        "What responses look like.",
    ),
    "errors": mapping(_ERRORS, "Error texts and the shape of error bodies."),
    "order": many(
        text("the id of a rule"),
        "a list of ids of rules",
        meaning="Rules that are evaluated first, in this order.",
        unique=True,
        default="[]",
        example="[unknown_fields]",
    ),
}

_WHEN: Final = {"required": True} | mapping(
    {
        "model": one_or_many(
            text(_GLOBS),
            _GLOBS,
            meaning="Which models, by the served id or the name asked for.",
            absent="any",
            example='"glm-5*"',
        ),
        "mode": one_or_many(
            text("the name of a mode"), "the name of a mode", meaning="Which modes.", absent="any", example="thinking"
        ),
        "fields": condition(meaning="Values of fields that must all hold.", absent="any", example="{do_sample: false}"),
    },
    "Which requests the case matches: all given conditions must hold.",
)


def _extends(meaning: str, example: str) -> Rules:
    return {
        "type": "string",
        "meta": {
            "expected": "the name of a preset, or a path that holds a / or ends in .yaml or .yml",
            "meaning": meaning,
            "absent": "nothing",
            "example": example,
        },
    }


CASE: Final = mapping(
    {
        "when": _WHEN,
        "extends": _extends(
            "The profile whose sections the case takes, merged with its own. It has only what a case may have.",
            "./small.yaml",
        ),
        "group": text(
            "the name of a group",
            meaning="The group of the case, one of `case_groups`: of each group the first case that matches applies.",
            absent="the first group, which has no name",
            example="mode",
        ),
        **_SECTIONS,
        "limits": mapping(
            {key: rules for key, rules in _LIMITS.items() if key != "max_body_bytes"}, "How large a request may be."
        ),
    },
    "Rules for some requests, merged with the rules for all.",
)

SCHEMA: Final[Rules] = {
    "name": text(
        "a name", meaning="The name shown in logs, metrics and /readyz.", absent="the file's name", example="my-kimi"
    ),
    "extends": _extends("The profile that this one builds on; a path is relative to this file.", "moonshot-kimi"),
    "models": mapping(
        {
            "aliases": {
                "anyof": [
                    _ALIAS_LIST,
                    {
                        "type": "dict",
                        "maxlength": MAX_ALIASES,
                        "keysrules": text("a model name"),
                        "valuesrules": _ALIAS,
                    },
                ],
                "meta": {
                    "expected": f"a list of at most {MAX_ALIASES} model names, or a mapping of them",
                    "unique": True,
                    "default": "[]",
                    "meaning": "Names accepted besides the served model id, as which they are routed unless they say "
                    "otherwise. A mapping adds to the inherited names, a list replaces them.",
                    "example": "{kimi-latest: {}}",
                },
            },
            "respond_as": choice(
                "requested", "served", meaning="Which model name a response to a request for an alias carries."
            ),
            "default": text(
                "a model name",
                meaning="The model of a request that names none: a served id, or an alias.",
                absent="such a request is rejected",
                example="kimi-k3",
            ),
        },
        "Which model names are accepted.",
    ),
    "mode": _MODE,
    **_SECTIONS,
    "case_groups": many(
        text("the name of a group"),
        "a list of names of groups",
        meaning=(
            "Groups of cases, each for another aspect of requests. They apply in this order, after the cases without a "
            "group; where cases of two groups set the same value, the later one holds."
        ),
        unique=True,
        default="[]",
        example="[mode]",
    ),
    "cases": free(
        text("the name of a case"),
        CASE,
        f"a mapping of at most {MAX_CASES} names of cases to their rules",
        MAX_CASES,
        meaning="Rules for some requests, by a name of your choice; of each group the first case that matches applies.",
        absent="none",
        example="{creative: {when: {fields: {do_sample: true}}, limits: {max_images: 1}}}",
    ),
}
