"""What the schema of the profile language is made of: rules of single values, of lists and of maps with free keys."""

from typing import Any, Final

Rules = dict[str, Any]

LARGEST_WHOLE: Final = 2**53 - 1
"""Largest whole number in a profile: the largest that every JSON reader keeps exactly."""

MAX_TEXT: Final = 200
MAX_SOURCE: Final = 1000
MAX_MESSAGE: Final = 2000
MAX_VALUES: Final = 1000
"""Most items of a list, and most keys of a map with free keys."""

BYTE_UNITS: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
"""Units of a size in bytes, spelled exactly like this."""

BYTE_SIZE: Final = r"([0-9]{1,16}) *(B|KiB|MiB|GiB) *\Z"
"""A size in bytes: digits, then a unit; `\\Z` because Cerberus would add a `$`, which lets a newline pass."""

BODY_BYTES: Final = "a whole number of bytes, at least 1, or digits and a unit B, KiB, MiB or GiB, as in 100MiB"

MAX_SEGMENTS: Final = 10
FIELD_PATH: Final = r"[^.\x00-\x1f\x7f-\x9f]+(\.[^.\x00-\x1f\x7f-\x9f]+){0,9}\Z"
"""A dotted path of a request field: at most 10 segments, none of them empty."""

_PRINTABLE: Final = r"[^\x00-\x1f\x7f-\x9f]*\Z"
_PRINTABLE_LINES: Final = r"[^\x00-\x08\x0b-\x1f\x7f-\x9f]*\Z"


def text(expected: str, maximum: int = MAX_TEXT, **meta: Any) -> Rules:  # noqa: ANN401 - whatever people read
    """Return the rules of a text of one line."""
    return {
        "type": "string",
        "minlength": 1,
        "maxlength": maximum,
        "regex": _PRINTABLE,
        "meta": {"expected": f"{expected}: 1 to {maximum} characters, no control characters", **meta},
    }


def message(expected: str, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of a text that may have several lines."""
    return text(expected, MAX_MESSAGE, **meta) | {"regex": _PRINTABLE_LINES}


def source() -> Rules:
    """Return the rules of the evidence that stands beside what it is for."""
    return text(
        "evidence",
        MAX_SOURCE,
        meaning="The vendor's statement that this rule is based on.",
        absent="nothing",
        example='"docs: https://example.com/api, 2026-08"',
    )


def whole(minimum: int, expected: str, maximum: int = LARGEST_WHOLE, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of a whole number."""
    meta = {"expected": expected, **meta}
    return {"type": "number", "whole": True, "min": minimum, "max": maximum, "meta": meta}


def number(above: float | None = None, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of any finite number, or of any above a limit."""
    meta = {"expected": "a number", **meta}
    least = {"min": -LARGEST_WHOLE} if above is None else {"above": above}
    return {"type": "number", "finite": True, **least, "max": LARGEST_WHOLE, "meta": meta}


def size(expected: str, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of a number of bytes, with or without a unit."""
    return {
        "anyof": [
            {"type": "number", "whole": True, "min": 1, "max": LARGEST_WHOLE},
            {"type": "string", "regex": BYTE_SIZE, "byte_size": [1, LARGEST_WHOLE]},
        ],
        "meta": {"expected": expected, **meta},
    }


def keys_of_sizes(rules: object) -> set[str]:
    """Return the keys of a schema, at any depth, whose values are numbers of bytes."""
    if not isinstance(rules, dict):
        return set()
    found = {key for key, inner in rules.items() if isinstance(inner, dict) and _is_size(inner)}
    deeper = [*rules.values(), *rules.get("anyof", ())]
    return found.union(*map(keys_of_sizes, deeper))


def _is_size(rules: Rules) -> bool:
    return any("byte_size" in branch for branch in rules.get("anyof", ()))


def flag(meaning: str) -> Rules:
    """Return the rules of what holds or does not."""
    meta = {"expected": "true or false", "default": "false", "meaning": meaning, "example": "true"}
    return {"type": "boolean", "meta": meta}


def choice(*allowed: str, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of one of these words; the first is the default where nothing else is said."""
    expected = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    default = {} if "absent" in meta else {"default": allowed[0]}
    return {
        "type": "string",
        "allowed": list(allowed),
        "meta": {"expected": expected, **default, "example": allowed[-1], **meta},
    }


VALUE: Final = "a number, true, false or a string"


def scalar(**meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of a value of a request field that is no object and no array."""
    return {
        "type": ["string", "number", "boolean"],
        "finite": True,
        "min": -LARGEST_WHOLE,
        "max": LARGEST_WHOLE,
        "maxlength": MAX_TEXT,
        "regex": _PRINTABLE,
        "meta": {"expected": f"a number, true, false, or a string of at most {MAX_TEXT} characters", **meta},
    }


def mapping(schema: Rules, meaning: str, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of a mapping with known keys."""
    keys = ", ".join(schema)
    expected = f"a mapping with {keys}" if schema else "a mapping"
    return {"type": "dict", "schema": schema, "meta": {"expected": expected, "meaning": meaning, **meta}}


def free(keys: Rules, values: Rules, expected: str, maximum: int = MAX_VALUES, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of a mapping whose keys the profile chooses."""
    return {
        "type": "dict",
        "maxlength": maximum,
        "keysrules": keys,
        "valuesrules": values,
        "meta": {"expected": expected, **meta},
    }


def many(item: Rules, expected: str, maximum: int = MAX_VALUES, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of a list."""
    return {"type": "list", "maxlength": maximum, "schema": item, "meta": {"expected": expected, **meta}}


def one_or_many(item: Rules, expected: str, **meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of a value that may stand for a list of one."""
    return {
        "anyof": [
            {key: rule for key, rule in item.items() if key != "meta"},
            {"type": "list", "minlength": 1, "maxlength": MAX_VALUES, "schema": item},
        ],
        "meta": {"expected": f"{expected}, or a list of them", **meta},
    }


def field_path() -> Rules:
    """Return the rules of the name of a request field."""
    expected = f"a dotted path of a request field, of at most {MAX_SEGMENTS} segments, none of them empty"
    return {"type": "string", "maxlength": MAX_TEXT, "regex": FIELD_PATH, "meta": {"expected": expected}}


def condition(**meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of fields, each with the values that it may have."""
    return free(field_path(), one_or_many(scalar(), VALUE), "a mapping of request fields to values", **meta)


def words(**meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of an error text: a text, which is the message, or a mapping of its members."""
    return _message_or_members(members_of_words(), definition="words", **meta)


def error(*parts: str) -> Rules:
    """Return the rules of a rule's error texts, whole and by its parts."""
    schema = {
        **members_of_words(),
        **{
            part: words(meaning=f"The error text of the part {part}.", absent="that of the rule", example=EXAMPLE)
            for part in parts
        },
    }
    return _message_or_members(schema, meaning="The error text of a rejection.", absent="the router's", example=EXAMPLE)


EXAMPLE: Final = '"{param} must be {allowed}, not {value}"'


def members_of_words() -> Rules:
    """Return the schema of the members of words."""
    return {
        "status": whole(
            400, "a whole number from 400 to 599", 599, meaning="The HTTP status.", absent="the code's", example="422"
        ),
        "type": text(
            "an error type", meaning="`type` in the body.", absent="the code's", example="invalid_request_error"
        ),
        "code": {
            "anyof": [
                {key: rule for key, rule in text("").items() if key != "meta"},
                {"type": "number", "whole": True, "min": -LARGEST_WHOLE, "max": LARGEST_WHOLE},
            ],
            "meta": {
                "expected": f"a text of 1 to {MAX_TEXT} characters, or a whole number",
                "meaning": "`code` in the body.",
                "absent": "the router's code",
                "example": '"1210"',
            },
        },
        "param": text("a name", meaning="`param` in the body.", absent="the field", example="temperature"),
        "message": message(
            "a message", meaning="The message, with placeholders.", absent="the router's", example=EXAMPLE
        ),
        "body": envelope(meaning="The whole body of this error.", absent="`errors.body`"),
    }


def envelope(**meta: Any) -> Rules:  # noqa: ANN401
    """Return the rules of the body of an error: any JSON object; its content is checked elsewhere."""
    example = '{error: {message: "{message}", type: "{type}"}}'
    return {
        "type": "dict",
        "meta": {"expected": "a mapping: the JSON body, with placeholders", "example": example, **meta},
    }


def _message_or_members(schema: Rules, **meta: Any) -> Rules:  # noqa: ANN401
    message_rules = {key: rule for key, rule in message("").items() if key != "meta"}
    expected = f"a message of 1 to {MAX_MESSAGE} characters, or a mapping with {', '.join(schema)}"
    return {"anyof": [message_rules, {"type": "dict", "schema": schema}], "meta": {"expected": expected, **meta}}
