"""Templates of error texts and bodies: text with placeholders in braces, filled from what is known of an error."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

PLACEHOLDERS: Final = frozenset(
    {
        "message",
        "type",
        "code",
        "param",
        "status",
        "request_id",
        "value",
        "allowed",
        "min",
        "max",
        "count",
        "model",
        "models",
        "expected",
        "index",
        "role",
        "null",
    }
)
"""The names of placeholders. A string that is only `{null}` is a null in a body."""

MAX_SHOWN: Final = 200
"""Longest value in characters that is put into a text whole."""

_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([a-z_]+)\}")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_ALONE: Final = re.compile(r"\{([a-z_]+)\}")


def problem_of(template: str) -> str | None:
    """Return the first unknown placeholder or unpaired brace of a template; None if it is valid."""
    unknown = [found[1] for found in _TOKEN.finditer(template) if found[1] and found[1] not in PLACEHOLDERS]
    if unknown:
        return unknown[0]
    return next(iter(re.findall(r"[{}]", _TOKEN.sub("", template))), None)


def filled(template: str, details: Mapping[str, Any]) -> str:
    """Return a text with its placeholders replaced; a placeholder without value becomes empty."""

    def fill(found: re.Match[str]) -> str:
        value = details.get(found[1])
        if not found[1]:
            return found[0][0]
        return "" if value is None else _text(value)

    return _TOKEN.sub(fill, template)


def filled_body(template: Any, details: Mapping[str, Any], *, omit_null: bool = False) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON template with all its texts filled; a text that is one placeholder becomes the bare value.

    `omit_null` leaves out members that become null.
    """
    if isinstance(template, str):
        alone = _ALONE.fullmatch(template)
        return details.get(alone[1]) if alone else filled(template, details)
    if isinstance(template, list | tuple):
        return [filled_body(item, details, omit_null=omit_null) for item in template]
    if not isinstance(template, dict):
        return template
    members = {key: filled_body(value, details, omit_null=omit_null) for key, value in template.items()}
    return {key: value for key, value in members.items() if not (omit_null and value is None)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def display(value: object) -> str:
    """Return a value for a text, strings without quotes, cut to a bearable length."""
    text = value if isinstance(value, str) else _beginning(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def raw_value(value: object) -> object:
    """Return a value for a body: as it is, unless it is long, and then as a cut text."""
    text = display(value)
    return text if isinstance(value, str) or text.endswith("…") else value


def _beginning(value: object) -> str:
    """Return a value as JSON, of a long one only more than is shown."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > MAX_SHOWN:
            break
    return text


def _pieces(value: object) -> Iterator[str]:
    """Yield a value as JSON, piece by piece.

    `JSONEncoder.iterencode` leaves a cycle of functions, which holds the value where not all of it was asked for.
    """
    if isinstance(value, dict):
        yield "{"
        for place, (key, member) in enumerate(value.items()):
            yield f"{', ' if place else ''}{_ENCODER.encode(key)}: "
            yield from _pieces(member)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for place, item in enumerate(value):
            yield ", " if place else ""
            yield from _pieces(item)
        yield "]"
    else:
        yield _ENCODER.encode(value)
