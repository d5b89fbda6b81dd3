r"""Patterns of a contract, in the syntax of RE2 and matched by it.

RE2 (https://github.com/google/re2/wiki/Syntax) matches in time linear in the text: no text of a client can keep a
worker busy, whatever the pattern. `\d`, `\w`, `\s` and `\b` are about ASCII alone, `$` is the end of the text.
"""

import re
from collections.abc import Callable
from typing import Final

import re2

MAX_MATCHED_CHARACTERS: Final = 1024
"""Longest text that can match a pattern of a contract; the time of a match grows with it."""

MAX_REPEATS: Final = 1000
"""Most repeats that a count may ask for, those of nested counts multiplied; RE2 sets it."""

_MAX_MEMORY: Final = 2 * 1024 * 1024
"""Most bytes that RE2 takes for one pattern, its caches included: four Unicode classes repeated 64 times fit."""

_CLASS: Final = r"\[\^?\]?(?:\\.|\[:[^:\]]*:\]|[^\]\\])*\]"
_COUNT: Final = r"(?:0|[1-9][0-9]{0,7})"
_PIECE: Final = re.compile(
    rf"\\Q.*?(?:\\E|\Z)|\\[pPx]\{{[^}}]*\}}|\\.|{_CLASS}|\{{{_COUNT}(?:,{_COUNT}?)?\}}|[^\\\[{{]++|.", re.DOTALL
)
"""The pieces that may contain braces: quoted texts, escapes, classes and counts. Any other brace is a piece itself."""


class PatternError(ValueError):
    """A pattern is invalid. `start` and `end` are the offsets of the invalid piece, in characters from 0.

    `kind` and `found` come from RE2: the kind of error and the piece of the pattern.
    """

    def __init__(self, kind: str, found: str, start: int, end: int) -> None:
        super().__init__(f"{kind}: {found}" if found else kind)
        self.kind = kind
        self.found = found
        self.start = start
        self.end = end


def full_match_of(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns whether the whole of a text matches a pattern. Raises PatternError.

    A text beyond MAX_MATCHED_CHARACTERS matches none, nor does one with half of a surrogate pair: it is not Unicode.
    """
    matches = _compiled(pattern).fullmatch

    def is_match(text: str) -> bool:
        if len(text) > MAX_MATCHED_CHARACTERS:
            return False
        try:
            return matches(text.encode()) is not None
        except UnicodeEncodeError:
            return False

    return is_match


def _compiled(pattern: str) -> "re2._Regexp":
    problem = _problem(pattern)
    if problem is not None:
        kind, found = problem
        start, end = _place(pattern, problem)
        raise PatternError(kind, found, start, end)
    brace = _lone_brace(pattern)
    if brace is not None:
        # RE2 takes it for itself, which is hardly meant: Python reads {,n} as {0,n}.
        raise PatternError("this brace begins no count", "{", brace, brace + 1)
    return re2.compile(pattern, _OPTIONS)


def _problem(pattern: str) -> tuple[str, str] | None:
    """Return RE2's error for an invalid pattern and the piece that it is about; None for a valid pattern."""
    try:
        re2.compile(pattern, _OPTIONS)
    except UnicodeEncodeError:
        return "half of a surrogate pair, which is no character", ""
    except re2.error as error:
        kind, _, found = error.args[0].decode(errors="replace").partition(": ")
        return kind, found
    return None


def _place(pattern: str, problem: tuple[str, str]) -> tuple[int, int]:
    """Return where the piece stands that RE2 finds wrong: it ends the shortest part from which on the problem stays."""
    _, found = problem
    if not found or pattern == found:
        return 0, len(pattern)
    end = len(pattern)
    while end > 1 and _problem(pattern[: end - 1]) == problem:
        end -= 1
    start = pattern.rfind(found, 0, end)
    return (start, start + len(found)) if start >= 0 else (0, len(pattern))


def _lone_brace(pattern: str) -> int | None:
    return next((piece.start() for piece in _PIECE.finditer(pattern) if piece[0] == "{"), None)


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    return options


_OPTIONS: Final = _options()
