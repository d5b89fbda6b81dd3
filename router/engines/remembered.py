"""What names resolved to last, kept where all worker processes of a machine find it, those still to be forked too."""

import mmap
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

Addresses = Mapping[str, Mapping[str, tuple[str, ...]]]
"""For each name the addresses of each kind, A and AAAA."""

_SIZE: Final = 1024 * 1024
_HEAD: Final = struct.Struct("QQ")
"""The length of what follows, and its checksum: two processes that write at once are noticed by it."""

# Made when the master imports this, so that its workers share it.
_SHARED = mmap.mmap(-1, _SIZE)


def addresses() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return what was remembered last; nothing where that is being written at the moment."""
    length, checksum = _HEAD.unpack_from(_SHARED)
    data = _SHARED[_HEAD.size : _HEAD.size + length] if length <= _SIZE - _HEAD.size else b""
    if not data or zlib.crc32(data) != checksum:
        return {}
    found: dict[str, Any] = orjson.loads(data)
    return {name: {kind: tuple(each) for kind, each in kinds.items()} for name, kinds in found.items()}


def remember(known: Addresses) -> None:
    """Remember what names resolve to, unless that is remembered already; what is too long is not."""
    if addresses() == known:
        return
    data = orjson.dumps(known)
    if len(data) > _SIZE - _HEAD.size:
        return
    _SHARED[_HEAD.size : _HEAD.size + len(data)] = data
    _HEAD.pack_into(_SHARED, 0, len(data), zlib.crc32(data))
