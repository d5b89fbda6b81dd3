"""What names resolved to and what engines listed last, kept where all worker processes of a machine find it.

Those still to be forked find it, too.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from router.shared_record import SharedRecord

Addresses = Mapping[str, Mapping[str, tuple[str, ...]]]
"""For each name the addresses of each kind, A and AAAA."""

Cards = tuple[dict[str, Any], ...]
"""The models that an engine lists, each as in `GET /v1/models`."""

MOST_LIST_BYTES: Final = 64 * 1024
"""Longest list of one engine that is remembered, as JSON: one engine must not take the room of all."""

_MEMBERS: Final = ("id", "created", "max_model_len")
_SCALARS: Final = (str, int)

# Made when the master imports this, so that its workers share them.
_SHARED = SharedRecord(1024 * 1024)
_LISTS = SharedRecord(4 * 1024 * 1024)


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


def lists() -> dict[str, Cards]:
    """Return for each engine what it listed last, in any process."""
    with _LISTS.locked():
        found = _read_lists()
    return {engine: tuple(cards) for engine, cards in found.items()}


def remember_list(engine: str, cards: Iterable[dict[str, Any]]) -> None:
    """Remember what an engine lists now, of each model what routing and `GET /v1/models` need.

    A list that is too long is not remembered, nor does an older one of that engine stay.
    """
    listed = [{name: card[name] for name in _MEMBERS if isinstance(card.get(name), _SCALARS)} for card in cards]
    with _LISTS.locked():
        known = _read_lists()
        known.pop(engine, None)
        is_short = len(orjson.dumps(listed)) <= MOST_LIST_BYTES
        if not (is_short and _LISTS.write(orjson.dumps(known | {engine: listed}))):
            _LISTS.write(orjson.dumps(known))


def forget_list(engine: str) -> None:
    """Forget what an engine listed: what comes to its address later is another one."""
    with _LISTS.locked():
        known = _read_lists()
        if known.pop(engine, None) is not None:
            _LISTS.write(orjson.dumps(known))


def _read_lists() -> dict[str, Any]:
    data = _LISTS.read()
    found: dict[str, Any] = orjson.loads(data) if data else {}
    return found
