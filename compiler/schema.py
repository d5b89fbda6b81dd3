"""The profile language, once: every key with its type, domain, meaning and example, as one Cerberus schema.

Where a value may be written in two ways, `anyof` lists both; validation picks the branch that fits what was written
(Cerberus itself would report both, and normalises nothing within `anyof`). `meta` holds what people read: `expected` is
what an error says; `meaning`, `default` (a value, as YAML) or else `absent` (what holds then, in words) and `example`
are for the reference and for editors.
"""

from typing import Any, Final

from router.contract.fields import WHOLE_NUMBER_FIELDS
from router.contract.sections import DEFAULT_MAX_BODY_BYTES

Rules = dict[str, Any]

LARGEST_WHOLE: Final = 2**53 - 1
"""Largest whole number in a profile: the largest that every JSON reader keeps exactly."""

MAX_ALIASES: Final = 1000
MAX_TEXT: Final = 200

BYTE_UNITS: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
"""Units of a size in bytes, spelled exactly like this."""

BYTE_SIZE: Final = r"([0-9]{1,16}) *(B|KiB|MiB|GiB) *\Z"
"""A size in bytes: digits, then a unit; `\\Z` because Cerberus would add a `$`, which lets a newline pass."""

PARENT_PATH: Final = r"(?!.*\.json\Z).*(/|\.ya?ml\Z)"
"""An `extends` value that is a path and no artifact; any other is the name of a preset."""

_PRINTABLE = r"[^\x00-\x1f\x7f-\x9f]*\Z"


def _text(expected: str, **meta: str) -> Rules:
    return {
        "type": "string",
        "minlength": 1,
        "maxlength": MAX_TEXT,
        "regex": _PRINTABLE,
        "meta": {"expected": f"{expected}: 1 to {MAX_TEXT} characters, no control characters", **meta},
    }


def _whole(minimum: int, expected: str, **meta: str) -> Rules:
    meta = {"expected": expected, **meta}
    return {"type": "number", "whole": True, "min": minimum, "max": LARGEST_WHOLE, "meta": meta}


def _choice(*allowed: str, meaning: str) -> Rules:
    expected = " or ".join(allowed)
    return {
        "type": "string",
        "allowed": list(allowed),
        "meta": {"expected": expected, "default": allowed[0], "meaning": meaning, "example": allowed[-1]},
    }


def _mapping(schema: Rules, meaning: str) -> Rules:
    keys = ", ".join(schema)
    return {"type": "dict", "schema": schema, "meta": {"expected": f"a mapping with {keys}", "meaning": meaning}}


def _parameter(name: str, domain: str, example: str, pin: Rules, edge: tuple[str, Rules] | None = None) -> Rules:
    """Return the rules of a sampling parameter: a pin, or a band with edges in the same domain or in their own."""
    edge_domain, edge_rules = edge or (domain, pin)
    kind = "a whole number" if name in WHOLE_NUMBER_FIELDS else "a number"
    common = {"type": "number", "finite": True, **({"whole": True} if name in WHOLE_NUMBER_FIELDS else {})}
    at_edge = {**common, **edge_rules, "required": True}
    edge_meta = {"expected": f"{kind}, {edge_domain}", "when_missing": "a band needs both min and max"}
    band = {
        "type": "dict",
        "schema": {
            "min": {**at_edge, "meta": {**edge_meta, "meaning": "The least value that is accepted."}},
            "max": {**at_edge, "meta": {**edge_meta, "meaning": "The largest value that is accepted."}},
        },
        "meta": {"expected": "a band {min: ..., max: ...}"},
    }
    meta = {
        "expected": f"{kind}, {domain}; or a band {{min: ..., max: ...}}",
        "pin": f"{kind}, {domain}",
        "meaning": "A number pins the parameter; {min, max} accepts a band, both ends included.",
        "absent": "any value",
        "example": example,
    }
    return {"anyof": [{**common, **pin}, band], "meta": meta}


SAMPLING_PARAMS: Final[Rules] = {
    "temperature": _parameter("temperature", "from 0 to 2", "{min: 0, max: 1}", {"min": 0, "max": 2}),
    "top_p": _parameter("top_p", "above 0 and at most 1", "0.95", {"above": 0, "max": 1}),
    "top_k": _parameter(
        "top_k",
        "at least 1, or exactly -1 for all",
        "1000",
        {"min": -1, "forbidden": [0], "max": LARGEST_WHOLE},
        ("at least 1", {"min": 1, "max": LARGEST_WHOLE}),
    ),
    "min_p": _parameter("min_p", "from 0 to 1", "0.05", {"min": 0, "max": 1}),
    "repetition_penalty": _parameter("repetition_penalty", "above 0 and at most 2", "1.05", {"above": 0, "max": 2}),
    "frequency_penalty": _parameter("frequency_penalty", "from -2 to 2", "0", {"min": -2, "max": 2}),
    "presence_penalty": _parameter("presence_penalty", "from -2 to 2", "0", {"min": -2, "max": 2}),
    "n": _parameter("n", "from 1 to 128", "1", {"min": 1, "max": 128}),
}

_BODY_BYTES: Final = "a whole number of bytes, at least 1, or digits and a unit B, KiB, MiB or GiB, as in 100MiB"

SCHEMA: Final[Rules] = {
    "name": _text(
        "a name", meaning="The name shown in logs, metrics and /readyz.", absent="the file's name", example="my-kimi"
    ),
    "extends": {
        "type": "string",
        "meta": {
            "expected": "the name of a preset, or a path that holds a / or ends in .yaml or .yml",
            "meaning": "The profile that this one builds on; a path is relative to this file.",
            "absent": "nothing",
            "example": "moonshot-kimi",
        },
    },
    "models": _mapping(
        {
            "aliases": {
                "type": "list",
                "maxlength": MAX_ALIASES,
                "schema": _text("a model name"),
                "meta": {
                    "expected": f"a list of at most {MAX_ALIASES} model names",
                    "unique": True,
                    "default": "[]",
                    "meaning": "Names accepted besides the served model id, and routed as it.",
                    "example": "[kimi-k3, kimi-latest]",
                },
            },
            "answer_as": _choice(
                "requested", "served", meaning="Which name an answer to a request for an alias carries."
            ),
        },
        "Which model names are answered.",
    ),
    "limits": _mapping(
        {
            "max_body_bytes": {
                "anyof": [
                    {"type": "number", "whole": True, "min": 1, "max": LARGEST_WHOLE},
                    {"type": "string", "regex": BYTE_SIZE, "byte_size": [1, LARGEST_WHOLE]},
                ],
                "meta": {
                    "expected": _BODY_BYTES,
                    "default": f"{DEFAULT_MAX_BODY_BYTES // BYTE_UNITS['MiB']}MiB",
                    "meaning": "The largest request body.",
                    "example": "100MiB",
                },
            },
            "max_images": _whole(
                0,
                "a whole number, at least 0",
                meaning="The most image parts in one request, over its whole history.",
                absent="any number",
                example="20",
            ),
        },
        "How large a request may be.",
    ),
    "output": _mapping(
        {
            "max_tokens": _mapping(
                {
                    "cap": {"required": True}
                    | _whole(
                        1,
                        "a whole number of tokens, at least 1",
                        meaning="The largest output budget in tokens.",
                        example="32768",
                    ),
                    "on_exceed": _choice("reject", "clamp", meaning="What happens to a request above the cap."),
                    "default": _whole(
                        1,
                        "a whole number of tokens, from 1 to the cap",
                        meaning="The budget of a request that names none.",
                        absent="the cap",
                        example="8192",
                    ),
                },
                "The output budget of a request.",
            ),
        },
        "What a request may ask for.",
    ),
    "sampling": _mapping(
        {
            "conflict": _choice("reject", "allow", meaning="What happens to a request that sends another value."),
            "params": _mapping(
                SAMPLING_PARAMS, "Each parameter: a number pins it, {min: ..., max: ...} accepts a band."
            ),
        },
        "The sampling contract.",
    ),
    "errors": _mapping(
        {
            "bad_request_type": _text(
                "an error type",
                meaning="Replaces `type` in the body of every 400.",
                absent="each 400 keeps its own",
                example="invalid_request_error",
            ),
        },
        "How refusals are told.",
    ),
}
