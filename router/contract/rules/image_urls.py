"""Brings an `image_url` that is a bare string into the form of an object, as OpenAI has it: `{"url": …}`."""

from collections.abc import Iterator
from typing import Any

from router.contract.jsonbytes.members import find_members, item_spans
from router.contract.jsonbytes.parsing import ParsedRequest
from router.contract.jsonbytes.splice import JsonEdit
from router.contract.rules.evaluation import PARTS, EvaluationContext
from router.contract.rules.transforms import Transform
from router.contract.schema.named_checks import Images
from router.contract.schema.rule_list import CheckRule

_MESSAGES = "messages"
_IMAGE_URL = "image_url"
_Span = tuple[int, int]


def transforms_of(rule: CheckRule) -> Iterator[Transform]:
    """Yield the transform of a rule that wraps bare URLs; of any other none."""
    if not isinstance(rule.check, Images) or not rule.check.wrap_bare_url:
        return

    def wrap_bare_urls(context: EvaluationContext) -> None:
        # Nearly all conversations are of texts alone.
        spans = [*_bare_urls(context.request)] if PARTS in context.features() else []
        if spans:
            written = _wrapped(context.request, spans)
            context.edits.append(JsonEdit(rule.rule, "set", (_MESSAGES,), written))

    yield wrap_bare_urls


def _bare_urls(request: ParsedRequest) -> Iterator[_Span]:
    """Yield where the bare URLs stand in the body, in their order."""
    found = dict(_places(request.fields.get(_MESSAGES)))
    if not found:
        return
    messages = request.members[_MESSAGES][-1]
    for place, (start, end) in enumerate(item_spans(request.body, messages.start, messages.end)):
        if place in found:
            content = item_spans(request.body, *_value_span(request.body, (start, end), "content"))
            for part in found[place]:
                yield _value_span(request.body, content[part], _IMAGE_URL)


def _places(messages: Any) -> Iterator[tuple[int, list[int]]]:  # noqa: ANN401 - any JSON
    """Yield the place of each message with bare URLs, and those of the parts within it."""
    for place, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        parts = [number for number, part in enumerate(content if isinstance(content, list) else ()) if _is_bare(part)]
        if parts:
            yield place, parts


def _is_bare(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == _IMAGE_URL and isinstance(part.get(_IMAGE_URL), str)


def _value_span(body: bytes, holder: _Span, key: str) -> _Span:
    """Return where the value of a key of an object stands; of a repeated key the last one, which engines read."""
    member = [member for member in find_members(body, *holder) if member.key == key][-1]
    return member.start, member.end


def _wrapped(request: ParsedRequest, spans: list[_Span]) -> bytes:
    messages = request.members[_MESSAGES][-1]
    pieces, at = [], messages.start
    for start, end in spans:
        pieces += [request.body[at:start], b'{"url":', request.body[start:end], b"}"]
        at = end
    return b"".join((*pieces, request.body[at : messages.end]))
