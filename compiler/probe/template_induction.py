"""Find the template of error messages: a text with placeholders that reproduces every example."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Any, Final, NamedTuple

from compiler.probe.sent_values import SentValues, is_same_text, places_of, repeated
from router.contract.templates import PLACEHOLDERS, filled


class Example(NamedTuple):
    """A message, the details of its error (the value of each placeholder), and the sent values."""

    text: str
    details: Mapping[str, Any]
    sent: SentValues = frozenset()

    def is_given_by(self, template: str) -> bool:
        """Return whether a template gives the text, numbers by value."""
        return is_same_text(filled(template, self.details), self.text)


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
    "role",
    "models",
    "request_id",
)
_MOST: Final = 6


def template_of(examples: Sequence[Example]) -> tuple[str, int]:
    """Return the template that gives most of the texts, the one with the fewest placeholders, and how many it gives.

    None that repeats what was sent counts; where each does, the template is empty and gives none.
    """
    best, most = "", 0
    for example in _richest(examples):
        for template in islice(_templates(example, prefers_names=len(examples) == 1), _MOST_TEMPLATES):
            given = [each for each in examples if each.is_given_by(template)]
            if len(given) > most and not _repeats(template, given):
                best, most = template, len(given)
            if most == len(examples):
                return best, most
    return _without_quotes(best, most, examples)


def _without_quotes(template: str, given: int, examples: Sequence[Example]) -> tuple[str, int]:
    """Return a template without the quotes around its value if values of more types are shown without them.

    Endpoints that show values as JSON have quotes around strings alone, which no placeholder does.
    """
    plain = template.replace('"{value}"', "{value}")
    unquoted = [example for example in examples if example.is_given_by(plain)]
    if plain == template or len({type(each.details.get("value")) for each in unquoted}) <= 1:
        return template, given
    return plain, len(unquoted)


def _repeats(template: str, given: Sequence[Example]) -> bool:
    """Return whether a template repeats a value that was sent in each of the examples."""
    sent = frozenset.intersection(*(each.sent for each in given))
    return bool(sent) and bool(repeated(filled(template, _BLANK), sent))


_BLANK: Final = dict.fromkeys(PLACEHOLDERS, "\0")
"""Values that fill a template so that only its own words remain."""


def _richest(examples: Sequence[Example]) -> list[Example]:
    """Return the examples whose text contains most of the known details."""

    def count(example: Example) -> int:
        return sum(said in example.text for name in _NAMES if (said := _said(example.details.get(name))))

    return sorted(examples, key=count, reverse=True)[:_MOST_RICH]


_MOST_RICH: Final = 2
_MOST_TEMPLATES: Final = 500


def _templates(example: Example, *, prefers_names: bool) -> Iterator[str]:
    """Yield templates that give a text, those with the fewest placeholders first, or those with the most."""
    text = example.text
    found = {
        name: places
        for name in _NAMES
        if (said := _said(example.details.get(name))) and (places := places_of(text, said))
    }
    fixed: dict[str, int | None] = {
        name: None for name in ("request_id", "message") if name in found and _length(found[name]) > _MOST
    }
    free = [name for name in found if name not in fixed][:_MOST]
    sizes = range(len(free) + 1)
    for always in (fixed, {}) if fixed else ({},):
        for size in reversed(sizes) if prefers_names else sizes:
            for names in combinations(free, size):
                ways = product(*(_occurrences(found[name]) for name in names))
                for which in islice(ways, _MOST_WAYS):
                    yield _replaced(text, found, {**always, **dict(zip(names, which, strict=True))})


_MOST_WAYS: Final = 32

TemplatePlaces = Sequence[tuple[int, int]]
"""The start positions of a value in a text."""


def _length(places: TemplatePlaces) -> int:
    return places[0][1] - places[0][0]


def _occurrences(places: TemplatePlaces) -> tuple[int | None, ...]:
    """Return the occurrences to try as placeholders; None: all. For a short value single ones come first."""
    single = tuple(range(min(len(places), _MOST))) if len(places) > 1 else ()
    return (*single, None) if _length(places) <= _SHORT else (None, *single)


_SHORT: Final = 2


def _said(value: object) -> str:
    return "" if value is None else filled("{value}", {"value": value})


def _replaced(text: str, found: Mapping[str, TemplatePlaces], which: Mapping[str, int | None]) -> str:
    """Return texts in which values are replaced by placeholders, at all positions or one; longer values first."""
    taken: list[tuple[int, int, str]] = []
    for name in sorted(which, key=lambda each: -_length(found[each])):
        for number, (begin, end) in enumerate(found[name]):
            is_free = all(end <= other or begin >= end_of_other for other, end_of_other, _ in taken)
            if is_free and which[name] in (None, number):
                taken.append((begin, end, name))
    pieces, at = [], 0
    for begin, end, name in sorted(taken):
        pieces += [_escaped(text[at:begin]), f"{{{name}}}"]
        at = end
    return "".join([*pieces, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def escaped(text: str) -> str:
    """Return a text as a template without placeholders."""
    return _escaped(text)
