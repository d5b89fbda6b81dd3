"""A text with what it is about replaced by placeholders: the template that gives every text of some examples."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Any, Final

from router.contract.templates import filled

Example = tuple[str, Mapping[str, Any]]
"""A text, and what is known of the error that it tells: what stands for each placeholder."""

_NAMES: Final = (
    "message",
    "model",
    "value",
    "param",
    "allowed",
    "expected",
    "min",
    "max",
    "count",
    "index",
    "models",
    "request_id",
)
_MOST: Final = 6


def template_of(examples: Sequence[Example]) -> tuple[str, int]:
    """Return the template that gives most of the texts, the one with the fewest placeholders, and how many it gives."""
    best, most = _escaped(examples[0][0]), 0
    for text, details in _richest(examples):
        for template in islice(_templates(text, details, prefers_names=len(examples) == 1), _MOST_TEMPLATES):
            count = sum(filled(template, known) == said for said, known in examples)
            if count > most:
                best, most = template, count
            if most == len(examples):
                return best, most
    return best, most


def _richest(examples: Sequence[Example]) -> list[Example]:
    """Return the examples in which most of what is known of the error is told."""

    def told(example: Example) -> int:
        text, details = example
        return sum(said in text for name in _NAMES if (said := _said(details.get(name))))

    return sorted(examples, key=told, reverse=True)[:_MOST_RICH]


_MOST_RICH: Final = 2
_MOST_TEMPLATES: Final = 500


def _templates(text: str, details: Mapping[str, Any], *, prefers_names: bool) -> Iterator[str]:
    """Yield templates that give a text, those with the fewest placeholders first, or those with the most."""
    found = {name: said for name in _NAMES if (said := _said(details.get(name))) and said in text}
    fixed: dict[str, int | None] = {
        name: None for name in ("request_id", "message") if name in found and len(found[name]) > _MOST
    }
    free = [name for name in found if name not in fixed][:_MOST]
    sizes = range(len(free) + 1)
    for always in (fixed, {}) if fixed else ({},):
        for size in reversed(sizes) if prefers_names else sizes:
            for names in combinations(free, size):
                ways = product(*(_occurrences(text, found[name]) for name in names))
                for which in islice(ways, _MOST_WAYS):
                    yield _replaced(text, found, {**always, **dict(zip(names, which, strict=True))})


_MOST_WAYS: Final = 32


def _occurrences(text: str, said: str) -> tuple[int | None, ...]:
    """Return which occurrences of something may be meant: all (None), or one of a few; short ones are rather one."""
    count = text.count(said)
    single = tuple(range(min(count, _MOST))) if count > 1 else ()
    return (*single, None) if len(said) <= _SHORT else (None, *single)


_SHORT: Final = 2


def _said(value: object) -> str:
    return "" if value is None else filled("{value}", {"value": value})


def _replaced(text: str, said: Mapping[str, str], which: Mapping[str, int | None]) -> str:
    """Return a text in which what is said, in all places or in one, stands as placeholders, longer ones first."""
    pieces: list[tuple[str, bool]] = [(text, False)]
    for name in sorted(which, key=lambda each: -len(said[each])):
        pieces = list(_cut(pieces, name, said[name], which[name]))
    return "".join(piece if is_placeholder else _escaped(piece) for piece, is_placeholder in pieces)


def _cut(pieces: list[tuple[str, bool]], name: str, said: str, which: int | None) -> Iterator[tuple[str, bool]]:
    seen = 0
    for piece, is_placeholder in pieces:
        if is_placeholder:
            yield piece, True
            continue
        first, *others = piece.split(said)
        yield first, False
        for part in others:
            yield (f"{{{name}}}", True) if which in (None, seen) else (said, False)
            yield part, False
            seen += 1


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def escaped(text: str) -> str:
    """Return a text as a template that means just it."""
    return _escaped(text)
