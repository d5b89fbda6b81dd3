"""Named checks about the format of answers and about what image parts refer to."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from router.contract import named_checks as named
from router.contract.field_rules import Fields, Violation, listed
from router.contract.fields import IMAGE_PART_TYPES
from router.contract.images import image_parts
from router.contract.templates import shown

Check = Callable[[Fields], Violation | None]

_BASE64_CHARACTERS: Final = 4
_BASE64_BYTES: Final = 3


def _response_format(check: named.ResponseFormat) -> Check:
    words = listed(check.types)

    def find(fields: Fields) -> Violation | None:
        wanted = fields.get("response_format")
        if wanted is None:
            return None
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        if not isinstance(kind, str) or kind not in check.types:
            said = f"response_format.type is {shown(kind)}: expected {words}"
            return Violation("types", said, {"value": shown(kind), "allowed": words})
        if check.named_schema and kind == "json_schema":
            return _wrong_schema(wanted.get("json_schema"))
        return None

    return find


def _wrong_schema(value: object) -> Violation | None:
    holder = value if isinstance(value, dict) else {}
    name, strict = holder.get("name"), holder.get("strict")
    if not isinstance(name, str) or not name:
        return Violation("named_schema", "response_format.json_schema has no name", {})
    if not isinstance(holder.get("schema"), dict):
        return Violation("named_schema", "response_format.json_schema.schema is not an object", {})
    if not isinstance(strict, bool | None):
        return Violation("named_schema", "response_format.json_schema.strict is not true or false", {})
    return None


_SAID: Final = {"data": "a data: URL", "http": "an http(s) URL", "file": "the id of a file"}
"""What a source of images is called in a message."""


def _images(check: named.Images) -> Check:
    words = listed(check.sources)
    expected = listed(tuple(_SAID.get(source, source) for source in check.sources))

    def find(fields: Fields) -> Violation | None:
        data_urls = 0
        for url in _urls(fields):
            source = _source_of(url, check.file_prefix)
            if source not in check.sources:
                said = f"An image refers to {shown(url[:_SHOWN_URL])}: expected {expected}"
                return Violation("sources", said, {"value": shown(url[:_SHOWN_URL]), "allowed": words})
            if source != "data":
                continue
            data_urls += 1
            wrong = _too_large(url, check)
            if wrong is not None:
                return wrong
        if check.max_data_urls is not None and data_urls > check.max_data_urls:
            said = f"There are {data_urls} images in data URLs: at most {check.max_data_urls} are allowed"
            return Violation("max_data_urls", said, {"count": data_urls, "max": check.max_data_urls})
        return None

    return find


_SHOWN_URL: Final = 60


def _too_large(url: str, check: named.Images) -> Violation | None:
    if check.max_url_bytes is not None and len(url) > check.max_url_bytes:
        said = f"An image's data URL has {len(url)} bytes: at most {check.max_url_bytes} are allowed"
        return Violation("max_url_bytes", said, {"count": len(url), "max": check.max_url_bytes})
    if check.max_bytes is None:
        return None
    encoded = url.partition(",")[2].rstrip("=")
    size = len(encoded) * _BASE64_BYTES // _BASE64_CHARACTERS
    if size > check.max_bytes:
        said = f"An image has {size} bytes: at most {check.max_bytes} are allowed"
        return Violation("max_bytes", said, {"count": size, "max": check.max_bytes})
    return None


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


def _urls(fields: Fields) -> Iterator[str]:
    """Yield what image parts refer to: an object with a `url`, or a bare string.

    A part may have several keys that carry an image, and engines differ in which one they take.
    """
    for part in image_parts(fields.get("messages")):
        for holder in [value for key, value in part.items() if key in IMAGE_PART_TYPES]:
            url = holder.get("url") if isinstance(holder, dict) else holder
            if isinstance(url, str):
                yield url


MADE_BY: Final[dict[type, Callable[[Any], Check]]] = {
    named.ResponseFormat: _response_format,
    named.Images: _images,
}
