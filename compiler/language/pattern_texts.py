"""Texts that match a pattern, of the shortest and longest length, and texts that nearly match."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from router.contract.rules.patterns import full_match_of

_MOST_REPEATED: Final = 1000
"""The most that RE2 lets a count be."""
_UNBOUNDED: Final = 3
_LONGEST: Final = 2048
_LETTERS: Final = "aB3_-. ~é/"
_TOKEN: Final = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)"
    r"|(?P<code>\\x(?:\{[0-9A-Fa-f]+\}|[0-9A-Fa-f]{2}))"
    r"|(?P<empty>\\[bBAz]|[\^$]|\(\?[imsU-]+\))"
    r"|(?P<one>\[\^?\]?(?:\\[pP]\{[^}]*\}|\\.|\[:[^:\]]*:\]|[^\]\\])*\]|\\[pP]\{[^}]*\}|\\[pP].|\\[0-7]{1,3}|\\.|\.)"
    r"|(?P<open>\((?:\?(?:P?<[^>]*>|[imsU-]*:))?)"
    r"|(?P<close>\))"
    r"|(?P<bar>\|)"
    r"|(?P<count>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??)"
    r"|(?P<letter>.)",
    re.DOTALL,
)
_USUAL: Final = "a1 _-"
_LAST: Final = 0x20000


class _Texts(NamedTuple):
    """A shortest and a longest text that a piece of a pattern matches, and the least characters that any has."""

    short: str = ""
    long: str = ""
    least: int = 0


def texts_for(pattern: str) -> Iterator[str]:
    """Yield texts that match and texts that nearly match, unlabelled: the caller applies the pattern."""
    shortest, longest, _ = _alternatives(_TOKEN.finditer(pattern))
    texts = [shortest, longest, shortest[:-1], longest + longest[-1:], longest[:-1]]
    texts += [f"{shortest[:1]}{letter}{shortest[1:]}" for letter in _LETTERS]
    texts += [f"{letter}{shortest[1:]}" for letter in _LETTERS]
    texts += [f"{longest[:-1]}{letter}" for letter in _LETTERS]
    yield from dict.fromkeys(texts)


def least_length(pattern: str) -> int:
    """Return how many characters a text has at least that matches a pattern."""
    return _alternatives(_TOKEN.finditer(pattern)).least


def _alternatives(tokens: Iterator[re.Match[str]]) -> _Texts:
    """Return the shortest text of the first alternative and the longest of the last, up to the end of a group."""
    found: list[list[_Texts]] = [[]]
    for token in tokens:
        match token.lastgroup:
            case "close":
                break
            case "bar":
                found.append([])
            case "open":
                found[-1].append(_alternatives(tokens))
            case "count":
                found[-1][-1] = _repeated(found[-1][-1], token["count"])
            case _:
                found[-1].append(_piece(token))
    least = min(sum(each.least for each in pieces) for pieces in found)
    return _Texts("".join(each.short for each in found[0]), "".join(each.long for each in found[-1]), least)


def _piece(token: re.Match[str]) -> _Texts:
    match token.lastgroup:
        case "empty":
            text = ""
        case "code":
            text = chr(int(token["code"][2:].strip("{}"), 16))
        case "one":
            text = _one_of(token["one"])
        case _:
            text = token["quoted"] or token["letter"] or ""
    return _Texts(text, text, len(text))


def _one_of(piece: str) -> str:
    """Return a character that a class or an escape matches: a literal one, else a common one, else any."""
    written = piece[1:] if piece[0] != "[" else "" if "\\" in piece else piece[1:-1]
    matches = full_match_of(piece)
    candidates: Iterable[str] = chain(written, _USUAL, map(chr, range(_LAST)))
    return next((each for each in candidates if matches(each)), "a")


def _repeated(texts: _Texts, count: str) -> _Texts:
    least, most = _bounds(count)
    times = _UNBOUNDED if most is None else min(most, _MOST_REPEATED)
    long = (texts.long * max(least, times))[:_LONGEST]
    return _Texts((texts.short * least)[:_LONGEST], long, texts.least * least)


def _bounds(count: str) -> tuple[int, int | None]:
    count = count.rstrip("?") or "?"
    if count in _SIGNS:
        return _SIGNS[count]
    least, comma, most = count.strip("{}").partition(",")
    return int(least), (int(most) if most else None) if comma else int(least)


_SIGNS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
