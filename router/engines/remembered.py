"""What names resolved to last, kept where all worker processes of a machine find it, those still to be forked too."""

from collections.abc import Mapping
from typing import Any

import orjson

from router.shared_record import SharedRecord

Addresses = Mapping[str, Mapping[str, tuple[str, ...]]]
"""For each name the addresses of each kind, A and AAAA."""

# Made when the master imports this, so that its workers share it.
_SHARED = SharedRecord(1024 * 1024)


def addresses() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return what was remembered last."""
    with _SHARED.locked():
        data = _SHARED.read()
    found: dict[str, Any] = orjson.loads(data) if data else {}
    return {name: {kind: tuple(each) for kind, each in kinds.items()} for name, kinds in found.items()}


def remember(known: Addresses) -> None:
    """Remember what names resolve to, unless that is remembered already; what is too long is not."""
    if addresses() == known:
        return
    data = orjson.dumps(known)
    with _SHARED.locked():
        _SHARED.write(data)
