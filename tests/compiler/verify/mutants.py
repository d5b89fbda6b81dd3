"""Mutants of a contract: each is the contract with one thing taken away, or moved by one step."""

import copy
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from router.contract.machine import machine_of
from router.contract.model import Contract

UNSEEN_KEYS = frozenset({"source", "name"})
"""Keys that say nothing to a request: evidence, and the names of cases."""


SMALL_BODY = 64 * 1024
SMALL_IMAGE = 24 * 1024


def with_small_limits(contract: Contract) -> Contract:
    """Return a contract whose limits in bytes are small, which changes nothing but the time that it takes to try them."""
    plain = msgspec.to_builtins(contract)
    for sections in (plain, *(case["sections"] for case in plain["cases"])):
        sections["limits"]["max_body_bytes"] = SMALL_BODY
        images = sections["checks"].get("images", {})
        for name in ("max_bytes", "max_url_bytes"):
            if images.get(name):
                images[name] = SMALL_IMAGE
    return msgspec.convert(plain, Contract)


class Mutant(NamedTuple):
    """A contract with one change, and what it is; `rule` is the rule that it is about, where it is about one."""

    shows: str
    path: tuple[Any, ...]
    contract: Contract


def mutants_of(contract: Contract) -> Iterator[Mutant]:
    """Yield every mutant that is itself a contract."""
    plain = msgspec.to_builtins(contract)
    for path, shows, changed in _changes(plain, ()):
        try:
            mutant = msgspec.convert(changed, Contract)
            machine_of(mutant)
        except (msgspec.ValidationError, LookupError, re.error):  # what no compiler would let pass
            continue
        if mutant != contract:
            yield Mutant(f"{'.'.join(map(str, path))}: {shows}", path, mutant)


def _changes(plain: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yield each change of what stands at a path, with the whole that has it."""
    for place, shows, value in _leaves(plain, path):
        yield place, shows, _with(plain, place, value)


_GONE = object()


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    if path and path[-1] in UNSEEN_KEYS and isinstance(value, str | None):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            place = (*path, key)
            if key not in UNSEEN_KEYS and inner is not None and key not in {"check", "kind"} and path:
                yield place, "removed", _GONE
            yield from _leaves(inner, place)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            place = (*path, index)
            yield place, "removed", _GONE
            yield from _leaves(inner, place)
        if len(value) > 1 and path[-1] == "order":
            yield path, "reversed", list(value)[::-1]
    else:
        yield from ((path, f"{value!r} becomes {other!r}", other) for other in _neighbours(value))


def _neighbours(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int():
            yield from (value - 1, value + 1)
        case float():
            yield from (value - 0.01, value + 0.01, math.nextafter(value, math.inf), math.nextafter(value, -math.inf))
        case str():
            yield f"{value}x"


def _with(plain: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(plain)
    holder = changed
    for step in path[:-1]:
        if isinstance(holder[step], tuple):
            holder[step] = list(holder[step])
        holder = holder[step]
    if value is not _GONE:
        holder[path[-1]] = value
    else:
        del holder[path[-1]]
    return changed
