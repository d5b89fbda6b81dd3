"""The content parts of a conversation: found in one walk, for every rule that looks at them."""

from typing import Any, Final, NamedTuple

from router.contract.fields import MODALITY_OF, PART_KEYS


class Part(NamedTuple):
    """A content part: the place of its message, that message, and the part, which may be any JSON value."""

    place: int
    message: dict[str, Any]
    value: Any


class ContentParts(NamedTuple):
    """All parts in their order, and those that carry something besides text by modality.

    The parts of messages of every role count, and those inside of other parts, such as tool results.
    """

    parts: list[Part]
    by_modality: dict[str, list[dict[str, Any]]]

    def count(self, modality: str) -> int:
        """Return how many parts carry a modality."""
        return len(self.by_modality.get(modality, ()))


def content_parts_of(messages: object) -> ContentParts:
    """Return the content parts of messages; those of what is no message are left out."""
    found = ContentParts([], {})
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        if content is None or isinstance(content, str):
            continue
        # Last first, so that parts are met in their order; no recursion, since clients choose the depth.
        unseen = content[::-1] if isinstance(content, list) else [content]
        while unseen:
            part = unseen.pop()
            found.parts.append(Part(index, message, part))
            if isinstance(part, dict):
                _classify(part, found.by_modality)
                _add_inner(unseen, part.get("content"))
    return found


def types_of(part: dict[str, Any]) -> tuple[Any, ...]:
    """Return the types that engines may take a part for: its `type`, and keys where vLLM goes by these."""
    kind = part.get("type")
    if kind is not None and part.get("uuid") is None:
        return (kind,)
    return (kind, *(key for key in part if key in PART_KEYS))


def _classify(part: dict[str, Any], by_modality: dict[str, list[dict[str, Any]]]) -> None:
    kind = part.get("type")
    if kind == _TEXT and "uuid" not in part:
        return
    types = [each for each in types_of(part) if isinstance(each, str)]
    for modality in {MODALITY_OF[each] for each in types if each in MODALITY_OF}:
        by_modality.setdefault(modality, []).append(part)


_TEXT: Final = "text"


def _add_inner(unseen: list[Any], content: object) -> None:
    if isinstance(content, list):
        unseen.extend(reversed(content))
    elif content is not None and not isinstance(content, str):
        unseen.append(content)
