"""Texts that match a regular expression, as short and as long as it lets them be, and texts next to those."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

# The standard library's own reading of patterns, which has no public name.
constants: Final[Any] = import_module("re._constants")
parser: Final[Any] = import_module("re._parser")

_MOST_REPEATED: Final = 300
_UNBOUNDED: Final = 3
_LETTERS: Final = "aB3_-. ~é/"


def texts_for(pattern: str) -> Iterator[str]:
    """Yield texts that match and texts that nearly do; which is which is for the pattern to tell."""
    parsed = parser.parse(pattern)
    shortest, longest = _text(parsed, longest=False), _text(parsed, longest=True)
    texts = [shortest, longest, shortest[:-1], longest + longest[-1:], longest[:-1]]
    texts += [f"{shortest[:1]}{letter}{shortest[1:]}" for letter in _LETTERS]
    texts += [f"{letter}{shortest[1:]}" for letter in _LETTERS]
    texts += [f"{longest[:-1]}{letter}" for letter in _LETTERS]
    yield from dict.fromkeys(texts)


def _text(parsed: Any, *, longest: bool) -> str:  # noqa: ANN401 - the standard library keeps the type to itself
    return "".join(_piece(op, argument, longest=longest) for op, argument in parsed)


def _piece(op: Any, argument: Any, *, longest: bool) -> str:  # noqa: ANN401
    if op is constants.LITERAL:
        return chr(argument)
    if op is constants.IN:
        return _of_class(argument)
    if op is constants.ANY or op is constants.NOT_LITERAL:
        return "a"
    if op in {constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT}:
        least, most, inner = argument
        times: int = (
            least if not longest else min(most, max(least, _MOST_REPEATED if most < _MOST_REPEATED else _UNBOUNDED))
        )
        return _text(inner, longest=longest) * times
    if op is constants.SUBPATTERN:
        return _text(argument[-1], longest=longest)
    if op is constants.BRANCH:
        return _text(argument[1][-1 if longest else 0], longest=longest)
    return ""


def _of_class(items: Any) -> str:  # noqa: ANN401
    letters = "".join(re.escape(chr(code)) if op is constants.LITERAL else "" for op, code in items)
    for op, argument in items:
        if op in {constants.LITERAL, constants.RANGE}:
            first: int = argument if op is constants.LITERAL else argument[0]
            return chr(first)
    return next((letter for letter in "a1 _-" if letter not in letters), "a")
