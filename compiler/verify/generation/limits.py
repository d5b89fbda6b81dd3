"""Requests that test the output budget, the number of content parts, the size of the body and unknown fields."""

from collections.abc import Iterator
from typing import Any, Final

from compiler.language.samples import shown
from compiler.verify.check import ChatRequest, Fields, written
from compiler.verify.generation.fixture import Fixture
from compiler.verify.generation.request_variant import RequestVariant
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


def variants_of_budget(fixture: Fixture, rule: Budget) -> Iterator[RequestVariant]:
    """Yield requests that try the output budget under all its names."""
    cap = rule.cap
    yield RequestVariant("no budget", fixture.without(*BUDGETS))
    for name in BUDGET_FIELDS:
        yield from _of_budget(fixture, name, (1, cap, cap + 1), is_edge=True)
        yield from _of_budget(fixture, name, (None, 0), is_edge=True)
        yield from _of_budget(fixture, name, (-1, 1.0, 1.5, "1", True, [1]), is_edge=False)
        request = _with(fixture, {name: 1})
        yield RequestVariant(f"{name} of forty digits", request.replaced(name, "9" * 40), is_edge=False)
        yield RequestVariant(f"{name} twice", request.replaced(name, "1", "1"), is_edge=False)
    first, second = BUDGET_FIELDS
    for one, two in ((1, 1), (1, cap + 1), (cap + 1, 1), (2, 1)):
        description = f"{first} {one} and {second} {two}"
        yield RequestVariant(description, _with(fixture, {first: one, second: two}), is_edge=(one, two) != (2, 1))
    for name in BUDGETS:
        if name not in BUDGET_FIELDS:
            yield from _of_budget(fixture, name, (1, cap + 1, 0), is_edge=False)
            yield RequestVariant(f"{name} and {second}", _with(fixture, {second: 1, name: 2}), is_edge=False)
    if cap > 1:
        over = {second: cap + 1, "min_tokens": cap + 1}
        yield RequestVariant("min_tokens above the cap, too", _with(fixture, over), is_edge=False)
    if rule.default is not None and rule.default < cap:
        # Not min_tokens: an endpoint would have to write as much.
        thought = {"thinking_token_budget": rule.default + 1}
        yield RequestVariant("thinking_token_budget above the default", _with(fixture, thought), is_edge=False)


def _of_budget(fixture: Fixture, name: str, values: tuple[Any, ...], *, is_edge: bool) -> Iterator[RequestVariant]:
    for value in values:
        yield RequestVariant(f"{name}: {shown(value)}", _with(fixture, {name: value}), is_edge)


def _with(fixture: Fixture, budgets: Fields) -> ChatRequest:
    fields = fixture.without(*BUDGETS).fields()
    return ChatRequest.of({**fields, **budgets})


def part_of(kind: str, text: str) -> Fields:
    """Return a plausible content part of a type; `text`: the content of a text part."""
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


def variants_of_part_limit(fixture: Fixture, rule: PartLimit) -> Iterator[RequestVariant]:
    """Yield requests with as many parts of a modality as are allowed, and one more."""
    most, (kind, *others) = rule.max, KINDS_OF[rule.modality]

    def showing(count: int, kind: str = kind) -> Fields:
        parts = [part_of(kind, fixture.text)] * count
        return {"role": "user", "content": [{"type": "text", "text": fixture.text}, *parts]}

    def named(count: int) -> str:
        return f"{count} {rule.modality}{'' if count == 1 else 's'}"

    for count in dict.fromkeys((most, most + 1)):
        if count:
            yield RequestVariant(named(count), fixture.request({"messages": [showing(count)]}))
    if most:
        split = [showing(most), {"role": "assistant", "content": "OK."}, showing(1)]
        yield RequestVariant(
            f"{named(most + 1)} over two messages", fixture.request({"messages": split}), is_edge=False
        )
        split[0] = showing(most - 1) if most > 1 else {"role": "user", "content": fixture.text}
        yield RequestVariant(f"{named(most)} over two messages", fixture.request({"messages": split}), is_edge=False)
    for other in others:
        request = fixture.request({"messages": [showing(most + 1, other)]})
        yield RequestVariant(f"{named(most + 1)} of type {other}", request, is_edge=False)


KINDS_OF: Final = {
    "image": ("image_url", "input_image", "image"),
    "video": ("video_url", "video"),
    "audio": ("input_audio", "audio_url"),
    "file": ("file", "input_file", "file_url", "document_url"),
}
"""The types of parts that are tried for each modality, the usual one first."""


def variants_of_size(fixture: Fixture, rule: BodyLimit) -> Iterator[RequestVariant]:
    """Yield a body of the largest allowed size and one that is a byte larger."""
    for size in (rule.max_bytes, rule.max_bytes + 1):
        yield RequestVariant(f"a body of {size:,} bytes", fixture.request()._replace(length=size))


def variants_of_unknown(fixture: Fixture, rule: UnknownFieldsRule) -> Iterator[RequestVariant]:
    """Yield a request with an unknown field, and one with every known field."""
    if rule.path:
        yield from _unknown_members(fixture, rule)
        return
    for value in (1, None, {"a": 1}):
        request = fixture.request().replaced(UNKNOWN, written(value))
        yield RequestVariant(f"a field that is not known: {UNKNOWN}: {shown(value)}", request, is_edge=value == 1)
    nulls: Fields = {name: None for name in rule.known if name not in fixture.fields}
    yield RequestVariant("every known field, as null", ChatRequest.of({**fixture.fields, **nulls}))


def _unknown_members(fixture: Fixture, rule: UnknownFieldsRule) -> Iterator[RequestVariant]:
    for value in (1, None, {"a": 1}):
        member = f"{rule.path}.{UNKNOWN}"
        yield RequestVariant(f"a member that is not known: {member}: {shown(value)}", fixture.request({member: value}))
    for name in rule.known:
        member = f"{rule.path}.{name}"
        yield RequestVariant(f"a known member: {member}", fixture.request({member: None}), is_edge=False)
    yield RequestVariant(f"no object: {rule.path}", fixture.request({rule.path: UNKNOWN}), is_edge=False)
