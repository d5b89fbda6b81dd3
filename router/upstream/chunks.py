"""The chunked coding (RFC 9112, section 7.1) where it is plain: whole chunks that arrive together."""

import re
from typing import Final

_SIZE_LINE = re.compile(rb"(?!0+\r)([0-9A-Fa-f]{1,8})\r\n")
"""The line before a chunk that is not the last one, without extensions."""
_END: Final = b"\r\n"


def content_of(data: bytes) -> bytes | None:
    """Return the content of whole chunks; None for anything else, such as a part of one, extensions or the last chunk.

    `data` must begin where a chunk may begin.
    """
    line = _SIZE_LINE.match(data)
    if line is None:
        return None
    start = line.end()
    end = start + int(line[1], 16)
    if end + len(_END) == len(data) and data.endswith(_END):
        return data[start:end]
    return _content_of_several(data)


def _content_of_several(data: bytes) -> bytes | None:
    contents = []
    at = 0
    while at < len(data):
        line = _SIZE_LINE.match(data, at)
        if line is None:
            return None
        start = line.end()
        end = start + int(line[1], 16)
        if not data.startswith(_END, end):
            return None
        contents.append(data[start:end])
        at = end + len(_END)
    return b"".join(contents)
