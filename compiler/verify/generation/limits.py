"""Requests that try the output budget, the number of content parts, the size of the body and unknown fields."""

from collections.abc import Iterator
from typing import Any, Final

from compiler.verify.check import Ask, Fields, written
from compiler.verify.generation.boundary_values import shown
from compiler.verify.generation.fixture import Situation
from compiler.verify.generation.trial import Probe
from compiler.verify.oracle.fields import BUDGETS
from router.contract.schema.fields import BUDGET_FIELDS, MODALITY_OF
from router.contract.schema.rule_list import BodyLimit, Budget, PartLimit, UnknownFieldsRule

UNKNOWN: Final = "verify_unknown"
"""A field that no contract knows."""

PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
"""An image of one pixel."""


def probes_of_budget(situation: Situation, rule: Budget) -> Iterator[Probe]:
    """Yield requests that try the output budget under all its names."""
    cap = rule.cap
    yield Probe("no budget", situation.without(*BUDGETS))
    for name in BUDGET_FIELDS:
        yield from _of_budget(situation, name, (1, cap, cap + 1), is_edge=True)
        yield from _of_budget(situation, name, (None, 0), is_edge=True)
        yield from _of_budget(situation, name, (-1, 1.0, 1.5, "1", True, [1]), is_edge=False)
        ask = _with(situation, {name: 1})
        yield Probe(f"{name} of forty digits", ask.replaced(name, "9" * 40), is_edge=False)
        yield Probe(f"{name} twice", ask.replaced(name, "1", "1"), is_edge=False)
    first, second = BUDGET_FIELDS
    for one, two in ((1, 1), (1, cap + 1), (cap + 1, 1), (2, 1)):
        shows = f"{first} {one} and {second} {two}"
        yield Probe(shows, _with(situation, {first: one, second: two}), is_edge=(one, two) != (2, 1))
    for name in BUDGETS:
        if name not in BUDGET_FIELDS:
            yield from _of_budget(situation, name, (1, cap + 1, 0), is_edge=False)
            yield Probe(f"{name} and {second}", _with(situation, {second: 1, name: 2}), is_edge=False)
    if cap > 1:
        over = {second: cap + 1, "min_tokens": cap + 1}
        yield Probe("min_tokens above the cap, too", _with(situation, over), is_edge=False)
    if rule.default is not None and rule.default < cap:
        # Not min_tokens: an endpoint would have to write as much.
        thought = {"thinking_token_budget": rule.default + 1}
        yield Probe("thinking_token_budget above the default", _with(situation, thought), is_edge=False)


def _of_budget(situation: Situation, name: str, values: tuple[Any, ...], *, is_edge: bool) -> Iterator[Probe]:
    for value in values:
        yield Probe(f"{name}: {shown(value)}", _with(situation, {name: value}), is_edge)


def _with(situation: Situation, budgets: Fields) -> Ask:
    fields = situation.without(*BUDGETS).fields()
    return Ask.of({**fields, **budgets})


def part_of(kind: str, text: str) -> Fields:
    """Return a content part of a type, as natural as it may be; text is what one of type text says."""
    modality = MODALITY_OF.get(kind)
    url = _URLS.get(modality or "", "data:,A")
    if modality is None:
        return {"type": kind, "text": text}
    if kind == "input_audio":
        return {"type": kind, kind: {"data": "AAAA", "format": "wav"}}
    if kind == "file":
        return {"type": kind, kind: {"filename": "a.pdf", "file_data": url}}
    return {"type": kind, kind: {"url": url}}


_URLS: Final = {
    "image": PIXEL,
    "video": "data:video/mp4;base64,AAAA",
    "audio": "data:audio/wav;base64,AAAA",
    "file": "data:application/pdf;base64,AAAA",
}


def probes_of_part_limit(situation: Situation, rule: PartLimit) -> Iterator[Probe]:
    """Yield requests with as many parts of a modality as are allowed, and one more."""
    most, (kind, *others) = rule.max, KINDS_OF[rule.modality]

    def showing(count: int, kind: str = kind) -> Fields:
        parts = [part_of(kind, situation.text)] * count
        return {"role": "user", "content": [{"type": "text", "text": situation.text}, *parts]}

    def named(count: int) -> str:
        return f"{count} {rule.modality}{'' if count == 1 else 's'}"

    for count in dict.fromkeys((most, most + 1)):
        if count:
            yield Probe(named(count), situation.ask({"messages": [showing(count)]}))
    if most:
        split = [showing(most), {"role": "assistant", "content": "OK."}, showing(1)]
        yield Probe(f"{named(most + 1)} over two messages", situation.ask({"messages": split}), is_edge=False)
        split[0] = showing(most - 1) if most > 1 else {"role": "user", "content": situation.text}
        yield Probe(f"{named(most)} over two messages", situation.ask({"messages": split}), is_edge=False)
    for other in others:
        ask = situation.ask({"messages": [showing(most + 1, other)]})
        yield Probe(f"{named(most + 1)} of type {other}", ask, is_edge=False)


KINDS_OF: Final = {
    "image": ("image_url", "input_image", "image"),
    "video": ("video_url", "video"),
    "audio": ("input_audio", "audio_url"),
    "file": ("file", "input_file", "file_url", "document_url"),
}
"""The types of parts that are tried for each modality, the usual one first."""


def probes_of_size(situation: Situation, rule: BodyLimit) -> Iterator[Probe]:
    """Yield a body of the size that is allowed and one a byte larger."""
    for size in (rule.max_bytes, rule.max_bytes + 1):
        yield Probe(f"a body of {size:,} bytes", situation.ask()._replace(length=size))


def probes_of_unknown(situation: Situation, rule: UnknownFieldsRule) -> Iterator[Probe]:
    """Yield requests with a field that is not known, and one with every field that is."""
    for value in (1, None, {"a": 1}):
        ask = situation.ask().replaced(UNKNOWN, written(value))
        yield Probe(f"a field that is not known: {UNKNOWN}: {shown(value)}", ask, is_edge=value == 1)
    nulls: Fields = {name: None for name in rule.known if name not in situation.fields}
    yield Probe("every known field, as null", Ask.of({**situation.fields, **nulls}))
