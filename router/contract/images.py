"""Image parts counted over the whole conversation."""

from collections.abc import Iterator
from typing import Any

from router.contract.errors import ApiError
from router.contract.fields import IMAGE_PART_TYPES
from router.contract.parsing import Request
from router.contract.rules import ImageLimit


def judge(request: Request, rule: ImageLimit) -> None:
    """Raise ApiError `too_many_images` when the messages carry more image parts than allowed."""
    found = count_images(request.value("messages"))
    if found > rule.max_images:
        message = f"The messages carry {found} images, history included; at most {rule.max_images} are allowed"
        details = {"count": found, "max": rule.max_images}
        raise ApiError("too_many_images", message, "messages", details=details)


def count_images(messages: object) -> int:
    """Return the number of image parts in all messages of all roles, parts inside of tool results included."""
    return sum(1 for _ in image_parts(messages))


def image_parts(messages: object) -> Iterator[dict[str, Any]]:
    """Yield the image parts of all messages of all roles, parts inside of tool results included."""
    unseen: list[object] = []
    for message in messages if isinstance(messages, list) else ():
        _add_content(unseen, message)
    while unseen:
        part = unseen.pop()
        if isinstance(part, dict):
            if _is_image(part):
                yield part
            _add_content(unseen, part)


def _add_content(unseen: list[object], holder: object) -> None:
    content = holder.get("content") if isinstance(holder, dict) else None
    if isinstance(content, list):
        unseen.extend(content)
    else:
        unseen.append(content)


def _is_image(part: dict[str, object]) -> bool:
    kind = part.get("type")
    if isinstance(kind, str) and kind in IMAGE_PART_TYPES:
        return True
    # vLLM takes a part without a type, or one with a uuid whatever its type, for what its keys say.
    return (kind is None or part.get("uuid") is not None) and not IMAGE_PART_TYPES.isdisjoint(part)
