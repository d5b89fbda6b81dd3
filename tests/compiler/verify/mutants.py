"""Mutants of a contract: each is the contract with one thing taken away, or moved by one step."""

import copy
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection
from compiler.verify.assertion import evaluate
from compiler.verify.check import Check
from router.artifact.cases import restored, stored
from router.contract.rules.compiled import compiled_contract_of
from router.contract.schema.model import Contract
from tests.compiler.verify.endpoint import Endpoint

SMALL_BODY = 512 * 1024
SMALL_IMAGE = 24 * 1024

WORDS = frozenset({"error", "parts", "errors"})
"""Keys under which stands how a rejection is told, and no rule."""

UNSEEN = frozenset({"source", "name", "check", "kind", "group", "case_groups", "parts"})
"""Keys that say nothing to a request: evidence, names of cases and groups, what kind of thing something is."""

_GONE = object()
Path = tuple[Any, ...]


class Mutant(NamedTuple):
    """A contract with one change: where it was changed, and how."""

    path: Path
    description: str
    contract: Contract

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: {self.description}"


def contract_of(preset: str) -> Contract:
    """Return the contract of a preset with small limits in bytes, which changes only the time it takes to try them."""
    plain = msgspec.to_builtins(compile_profile(Selection("preset", preset, "SOURCE")).artifact.contract)
    for sections in (plain, *(case["sections"] for case in plain["cases"])):
        sections["limits"]["max_body_bytes"] = SMALL_BODY
        images = sections["checks"].get("images", {})
        images |= {name: SMALL_IMAGE for name in ("max_bytes", "max_url_bytes", "max_total_bytes") if images.get(name)}
    return msgspec.convert(plain, Contract)


def mutants_of(contract: Contract, *, of_words: bool = False) -> Iterator[Mutant]:
    """Yield the mutants of a contract's rules, those of each case where it says something of its own.

    `of_words`: those of how rejections are told as well, and those of what cases only inherit.
    """
    plain = msgspec.to_builtins(contract)
    for path, description, value in _changes(plain, ()):
        if not of_words and (WORDS & {*path} or _is_inherited(plain, path)):
            continue
        if path[:1] == ("cases",) and plain["cases"][path[1]].get("parts"):
            continue  # An artifact has the cases alone: what changes in one changes in its combinations.
        try:
            mutant = _combined(msgspec.convert(_with(plain, path, value), Contract))
            compiled_contract_of(mutant)
        except (msgspec.ValidationError, LookupError, re.error):
            continue  # no compiler would let it pass
        if mutant != contract:
            yield Mutant(path, description, mutant)


def is_caught(mutant: Mutant, contract: Contract, checks: tuple[Check, ...], served: tuple[str, ...]) -> bool:
    """Return whether some check fails where the mutant is active."""
    endpoint = Endpoint(mutant.contract, served)
    case = contract.cases[mutant.path[1]].name if mutant.path[0] == "cases" and len(mutant.path) > 1 else None
    names = {str(step) for step in mutant.path}

    def distance(check: Check) -> tuple[bool, bool]:
        return check.case != case, check.rule.partition(".")[2] not in names and check.rule not in names

    return any(
        evaluate(check, endpoint.response(check.request)).result == "fail" for check in sorted(checks, key=distance)
    )


def _combined(contract: Contract) -> Contract:
    """Return a contract whose combinations of cases are made of its cases, as a router makes them from an artifact."""
    if not contract.case_groups:
        return contract
    stated = msgspec.structs.replace(contract, cases=tuple(case for case in contract.cases if not case.parts))
    return msgspec.convert(restored(stored(stated)), Contract)


def _is_inherited(plain: Any, path: Path) -> bool:
    """Return whether a change is of something that a case has from what holds for all requests."""
    if path[:1] != ("cases",) or "sections" not in path:
        return False
    *_, section, entry = (*path, None)[:5]
    own = plain["cases"][path[1]]["sections"]
    holders = (own.get(section), plain.get(section))
    if entry is None or not all(isinstance(holder, dict) for holder in holders):
        return holders[0] == holders[1]
    return holders[0].get(entry) == holders[1].get(entry)


def _changes(value: Any, path: Path) -> Iterator[tuple[Path, str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in UNSEEN and not isinstance(inner, dict):
                continue
            if path and inner is not None:
                yield (*path, key), "removed", _GONE
            yield from _changes(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield (*path, index), "removed", _GONE
            yield from _changes(inner, (*path, index))
        if len(value) > 1 and path[-1] == "order":
            yield path, "reversed", list(value)[::-1]
    else:
        yield from ((path, f"{value!r} becomes {other!r}", other) for other in _neighbours(value))


def _neighbours(value: Any) -> tuple[Any, ...]:
    match value:
        case bool():
            return (not value,)
        case int():
            return value - 1, value + 1
        case float():
            return round(value - 0.01, 6), round(value + 0.01, 6)
        case str():
            return (f"{value}x",)
    return ()


def _with(plain: Any, path: Path, value: Any) -> Any:
    changed = copy.copy(plain)
    holder = changed
    for step in path[:-1]:
        holder[step] = list(holder[step]) if isinstance(holder[step], tuple) else copy.copy(holder[step])
        holder = holder[step]
    if value is _GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return changed
