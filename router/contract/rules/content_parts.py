"""The content parts of a conversation, collected once for all rules that read them."""

from typing import Any, NamedTuple

from router.contract.schema.fields import MODALITY_OF, PART_KEYS


class MessageParts(NamedTuple):
    """The parts of one message, those inside of other parts included: its place, the message, and any JSON values."""

    place: int
    message: dict[str, Any]
    values: list[Any]


class ContentPartIndex(NamedTuple):
    """All parts in their order, and the non-text parts by modality.

    The parts of messages of every role count, and those inside of other parts, such as tool results.
    """

    messages: list[MessageParts]
    by_modality: dict[str, list[dict[str, Any]]]

    def count(self, modality: str) -> int:
        """Return how many parts carry a modality."""
        return len(self.by_modality.get(modality, ()))


def content_parts_of(messages: object) -> ContentPartIndex:
    """Return the content parts of all valid messages."""
    found = ContentPartIndex([], {})
    for place, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        if content is None or isinstance(content, str):
            continue
        values = content if isinstance(content, list) else [content]
        if any("content" in value for value in values if isinstance(value, dict)):
            values = _with_inner(values)
        found.messages.append(MessageParts(place, message, values))
        _classify(values, found.by_modality)
    return found


def types_of(part: dict[str, Any]) -> tuple[Any, ...]:
    """Return the types that engines may take a part for: its `type`, and keys where vLLM goes by these."""
    kind = part.get("type")
    if kind is not None and part.get("uuid") is None:
        return (kind,)
    return (kind, *(key for key in part if key in PART_KEYS))


def _with_inner(values: list[Any]) -> list[Any]:
    """Return parts with those inside of them, in their order; without recursion, since clients choose the depth."""
    found, unseen = [], values[::-1]
    while unseen:
        part = unseen.pop()
        found.append(part)
        content = part.get("content") if isinstance(part, dict) else None
        if isinstance(content, list):
            unseen.extend(reversed(content))
        elif content is not None and not isinstance(content, str):
            unseen.append(content)
    return found


def _classify(values: list[Any], by_modality: dict[str, list[dict[str, Any]]]) -> None:
    for part in values:
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        if isinstance(kind, str) and "uuid" not in part:
            modality = MODALITY_OF.get(kind)
            if modality is not None:
                by_modality.setdefault(modality, []).append(part)
            continue
        types = [each for each in types_of(part) if isinstance(each, str)]
        for modality in {MODALITY_OF[each] for each in types if each in MODALITY_OF}:
            by_modality.setdefault(modality, []).append(part)
