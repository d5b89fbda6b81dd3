"""The newest DNS results, model lists and rejected token budgets, shared by all workers, also those forked later."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import orjson

from router.runtime.shared_memory import SharedRecord

Addresses = Mapping[str, Mapping[str, tuple[str, ...]]]
"""For each name the addresses of each kind, A and AAAA."""

Cards = tuple[dict[str, Any], ...]
"""The models that an engine lists, each as in `GET /v1/models`."""

Overflows = dict[str, dict[str, tuple[int, int | None]]]
"""For each engine and model the budget in tokens that the engine rejected, and the context that it listed."""

MAX_LIST_BYTES: Final = 64 * 1024
"""Longest list of one engine that is stored, as JSON, so that all engines have space."""

_MEMBERS: Final = ("id", "created", "max_model_len")
_SCALARS: Final = (str, int)

# Made when the master imports this, so that its workers share them.
_ADDRESSES = SharedRecord(1024 * 1024)
_LISTS = SharedRecord(4 * 1024 * 1024)
_OVERFLOWS = SharedRecord(256 * 1024)


def load_addresses() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the addresses that were stored last."""
    with _ADDRESSES.locked():
        data = _ADDRESSES.read()
    found: dict[str, Any] = orjson.loads(data) if data else {}
    return {name: {kind: tuple(each) for kind, each in kinds.items()} for name, kinds in found.items()}


def store_addresses(known: Addresses) -> None:
    """Store the addresses of all names, if they have changed; data that is too long is not stored."""
    if load_addresses() == known:
        return
    data = orjson.dumps(known)
    with _ADDRESSES.locked():
        _ADDRESSES.write(data)


def load_model_lists(record: SharedRecord = _LISTS) -> dict[str, Cards]:
    """Return the newest model list of each engine, as any process stored it."""
    with record.locked():
        found = _read_lists(record)
    return {engine: tuple(cards) for engine, cards in found.items()}


def store_model_lists(lists: Mapping[str, Iterable[dict[str, Any]]], record: SharedRecord = _LISTS) -> None:
    """Store the model lists of engines: of each model the members that routing and `GET /v1/models` need.

    A list that is too long is not stored, and an older one of that engine is deleted.
    """
    with record.locked():
        known = _read_lists(record)
        for engine in lists:
            known.pop(engine, None)
        space = record.max_bytes - len(orjson.dumps(known))
        for engine, cards in lists.items():
            listed = [{name: card[name] for name in _MEMBERS if isinstance(card.get(name), _SCALARS)} for card in cards]
            length = len(orjson.dumps({engine: listed}))
            if length <= min(space, MAX_LIST_BYTES):
                known[engine] = listed
                space -= length
        record.write(orjson.dumps(known))


def delete_model_list(engine: str, record: SharedRecord = _LISTS) -> None:
    """Delete the model list of an engine that is gone: its address may be reused by another one."""
    with record.locked():
        known = _read_lists(record)
        if known.pop(engine, None) is not None:
            record.write(orjson.dumps(known))


def _read_lists(record: SharedRecord) -> dict[str, Any]:
    data = record.read()
    found: dict[str, Any] = orjson.loads(data) if data else {}
    return found


def load_overflows(contract: str) -> Overflows:
    """Return the budgets of a contract, named by its digest, that engines have rejected."""
    with _OVERFLOWS.locked():
        return _read_overflows(contract)


def store_overflow(
    contract: str, engine: str, model: str, overflow: tuple[int, int | None], *, among: Collection[str]
) -> bool:
    """Store that an engine rejected a budget of a contract; return whether that is new for the engine and model.

    `among` are the current engines; data of others is deleted.
    """
    with _OVERFLOWS.locked():
        known = {each: models for each, models in _read_overflows(contract).items() if each in among}
        is_new = model not in known.get(engine, {})
        known.setdefault(engine, {})[model] = overflow
        # Data of another contract is deleted: its budgets were others.
        _OVERFLOWS.write(orjson.dumps({contract: known}))
    return is_new


def _read_overflows(contract: str) -> Overflows:
    data = _OVERFLOWS.read()
    known: Overflows = orjson.loads(data).get(contract, {}) if data else {}
    return known
