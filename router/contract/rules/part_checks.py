"""Checks of content parts: their types, the URLs of images, and the number of parts of a modality."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from router.contract.errors import ApiError
from router.contract.rules.content_parts import ContentPartIndex, MessageParts, types_of
from router.contract.rules.field_tests import Violation, listed
from router.contract.schema import named_checks as named
from router.contract.schema.fields import IMAGE_PART_TYPES
from router.contract.schema.rule_list import PartLimit
from router.contract.templates import display

PartsCheck = Callable[[ContentPartIndex], Violation | None]

_BASE64_CHARACTERS: Final = 4
_BASE64_BYTES: Final = 3

_NAMES: Final = {"image": "images", "video": "videos", "audio": "audios", "file": "files"}
"""What several parts of a modality are called, in messages and in error codes."""


def too_many(parts: ContentPartIndex, rule: PartLimit) -> ApiError | None:
    """Return the error of more parts of a modality than a rule allows, None where there are not."""
    found = parts.count(rule.modality)
    if found <= rule.max:
        return None
    name = _NAMES[rule.modality]
    message = f"The messages carry {found} {name}, history included; at most {rule.max} are allowed"
    return ApiError(f"too_many_{name}", message, "messages", details={"count": found, "max": rule.max})


def _content_parts(check: named.ContentParts) -> PartsCheck:
    usual = _Allowed(check.allowed)
    by_role = {role: _Allowed(allowed) for role, allowed in check.by_role.items()}

    def find(parts: ContentPartIndex) -> Violation | None:
        for held in parts.messages:
            role = held.message.get("role")
            allowed = by_role.get(role, usual) if isinstance(role, str) else usual
            violation = allowed.violation_of(held)
            if violation is not None:
                return violation
        return None

    return find


class _Allowed:
    """The types that are allowed in the messages of a role."""

    def __init__(self, types: tuple[str, ...]) -> None:
        self._types = frozenset(types)
        self._words = listed(types)

    def violation_of(self, held: MessageParts) -> Violation | None:
        """Return the violation by the type of a content part."""
        types = self._types
        for value in held.values:
            kind = value.get("type") if isinstance(value, dict) else None
            if not isinstance(kind, str):
                return self._violation("shape", held, None)
            if kind in types and "uuid" not in value:
                continue
            wrong = next((each for each in types_of(value) if each not in types), None)
            if wrong is not None:
                return self._violation("types", held, wrong)
        return None

    def _violation(self, part: str, held: MessageParts, kind: str | None) -> Violation:
        details: dict[str, Any] = {
            "allowed": self._words,
            "index": held.place,
            "role": display(held.message.get("role")),
        }
        at = f"messages[{held.place}].content has a part"
        if kind is None:
            return Violation(part, f"{at} without a type: expected an object of type {self._words}", details)
        said = f"{at} of type {display(kind)}: expected {self._words}"
        return Violation(part, said, {"value": display(kind), **details})


_SAID: Final = {"data": "a data: URL", "http": "an http(s) URL", "file": "the id of a file"}
"""What a source of images is called in a message."""


def _images(check: named.Images) -> PartsCheck:
    words = listed(check.sources)
    expected = listed(tuple(_SAID.get(source, source) for source in check.sources))
    is_measured = check.max_bytes is not None or check.max_total_bytes is not None

    def find(parts: ContentPartIndex) -> Violation | None:
        data_urls = total = 0
        for url in _urls(parts):
            source = _source_of(url, check.file_prefix)
            if source not in check.sources:
                said = f"An image refers to {display(url[:_SHOWN_URL])}: expected {expected}"
                return Violation("sources", said, {"value": display(url[:_SHOWN_URL]), "allowed": words})
            if source != "data":
                continue
            data_urls += 1
            size = _decoded_size(url) if is_measured else 0
            total += size
            wrong = _too_large(url, size, check)
            if wrong is not None:
                return wrong
        if check.max_data_urls is not None and data_urls > check.max_data_urls:
            said = f"There are {data_urls} images in data URLs: at most {check.max_data_urls} are allowed"
            return Violation("max_data_urls", said, {"count": data_urls, "max": check.max_data_urls})
        if check.max_total_bytes is not None and total > check.max_total_bytes:
            said = f"The images in data URLs have {total} bytes together: at most {check.max_total_bytes} are allowed"
            return Violation("max_total_bytes", said, {"count": total, "max": check.max_total_bytes})
        return None

    return find


_SHOWN_URL: Final = 60


def _too_large(url: str, size: int, check: named.Images) -> Violation | None:
    if check.max_url_bytes is not None and len(url) > check.max_url_bytes:
        said = f"An image's data URL has {len(url)} bytes: at most {check.max_url_bytes} are allowed"
        return Violation("max_url_bytes", said, {"count": len(url), "max": check.max_url_bytes})
    if check.max_bytes is not None and size > check.max_bytes:
        said = f"An image has {size} bytes: at most {check.max_bytes} are allowed"
        return Violation("max_bytes", said, {"count": size, "max": check.max_bytes})
    return None


def _decoded_size(url: str) -> int:
    encoded = url.partition(",")[2].rstrip("=")
    return len(encoded) * _BASE64_BYTES // _BASE64_CHARACTERS


def _source_of(url: str, file_prefix: str | None) -> str | None:
    # As URL parsers do: what is around a URL and line ends within it are no part of it.
    scheme = url.partition(":")[0].lstrip(_AROUND).translate(_LINE_ENDS)[:_LONGEST_SCHEME].lower()
    if scheme == "data":
        return "data"
    if scheme in {"http", "https"}:
        return "http"
    return "file" if file_prefix is None or url.startswith(file_prefix) else None


_LONGEST_SCHEME: Final = 16
_AROUND: Final = "".join(map(chr, range(ord(" ") + 1)))
_LINE_ENDS: Final = dict.fromkeys(map(ord, "\t\r\n"))


def _urls(parts: ContentPartIndex) -> Iterator[str]:
    """Yield what image parts refer to: an object with a `url`, or a bare string.

    A part may have several keys that carry an image, and engines differ in which one they take.
    """
    for part in parts.by_modality.get("image", ()):
        for holder in [value for key, value in part.items() if key in IMAGE_PART_TYPES]:
            url = holder.get("url") if isinstance(holder, dict) else holder
            if isinstance(url, str):
                yield url


MADE_BY: Final[dict[type, Callable[[Any], PartsCheck]]] = {
    named.ContentParts: _content_parts,
    named.Images: _images,
}
