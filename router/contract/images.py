"""Image parts counted over the whole conversation."""

from router.contract.errors import ApiError
from router.contract.fields import IMAGE_PART_TYPES
from router.contract.model import ImageLimit
from router.contract.parsing import Request


def judge(request: Request, rule: ImageLimit) -> None:
    """Raise ApiError `too_many_images` when the messages carry more image parts than allowed."""
    found = count_images(request.value("messages"))
    if found > rule.max_images:
        message = f"The messages carry {found} images, history included; at most {rule.max_images} are allowed"
        raise ApiError("too_many_images", message, "messages")


def count_images(messages: object) -> int:
    """Return the number of image parts in all messages of all roles, parts inside of tool results included."""
    found = 0
    unseen: list[object] = list(messages) if isinstance(messages, list) else []
    while unseen:
        part = unseen.pop()
        if not isinstance(part, dict):
            continue
        found += _is_image(part)
        content = part.get("content")
        if isinstance(content, list):
            unseen.extend(content)
        elif isinstance(content, dict):
            unseen.append(content)
    return found


def _is_image(part: dict[str, object]) -> bool:
    kind = part.get("type")
    if kind is None:
        # vLLM takes a part without a type for what its keys say.
        return not IMAGE_PART_TYPES.isdisjoint(part)
    return isinstance(kind, str) and kind in IMAGE_PART_TYPES
