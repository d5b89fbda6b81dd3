"""The values of an experiment that a response may repeat, and whether a text repeats them. Keywords are left out."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from compiler.language.samples import FOREIGN
from compiler.probe.experiment import Experiment

SentValues = frozenset[str | float]
"""Texts and numbers of a request."""

_FREE: Final = frozenset({"id", "name", "tool_call_id", "content", "text", "url", "reasoning_content", "arguments"})
"""Members whose values the client chooses; the values of others, such as `role` and `type`, are protocol keywords."""

_SHORTEST: Final = 2
_NUMBER: Final = r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?"
_NUMBERS: Final = re.compile(rf"(?<![A-Za-z0-9_.]){_NUMBER}(?![A-Za-z0-9_]|\.[0-9])")


def sent_by(experiment: Experiment) -> SentValues:
    """Return the values that an experiment changed in the base request and that the client chooses."""
    found: set[str | float] = set()
    for value in experiment.changes.values():
        found |= set(_scalars(value))
        if isinstance(value, list):
            found.add(float(len(value)))
        if isinstance(value, dict | list):
            found |= set(_made_up(value))
    return frozenset(found)


def _scalars(value: Any) -> Iterator[str | float]:  # noqa: ANN401 - any JSON value
    if isinstance(value, str) and len(value) >= _SHORTEST:
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _made_up(value: Any, key: str = "") -> Iterator[str | float]:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _made_up(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _made_up(inner, key)
    elif isinstance(value, str) and (key in _FREE or value == FOREIGN):
        yield from _scalars(value)


def repeated(text: str, sent: SentValues) -> SentValues:
    """Return the sent values that occur in a text; numbers in any notation."""
    numbers = {float(found) for found in _NUMBERS.findall(text)}
    return frozenset(each for each in sent if (_has_word(text, each) if isinstance(each, str) else each in numbers))


def _has_word(text: str, word: str) -> bool:
    return word in text and re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", text) is not None


def places_of(text: str, said: str) -> list[tuple[int, int]]:
    """Return the positions of a value in a text; a number is not found within another number."""
    if not re.fullmatch(_NUMBER, said):
        before, behind = (r"\b" if re.match(r"\w", end, re.ASCII) else "" for end in (said[0], said[-1]))
        return [found.span() for found in re.finditer(f"{before}{re.escape(said)}{behind}", text, re.ASCII)]
    return [found.span() for found in _NUMBERS.finditer(text) if float(found[0]) == float(said)]


def is_same_text(one: str, other: str) -> bool:
    """Return whether two texts are the same, numbers by value: 2 is 2.0."""
    return one == other or _by_value(one) == _by_value(other)


@lru_cache(maxsize=4096)
def _by_value(text: str) -> str:
    return _NUMBERS.sub(lambda found: repr(float(found[0])), text)
