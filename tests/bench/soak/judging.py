"""The soak judged after the fact: what clients were told against what engines read, and when engines were disturbed."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.bench.soak.chaos import EngineProcess
from tests.bench.soak.engine import REFUSED, TAKEN, UNPINNED
from tests.bench.soak.talk import BROKE_OFF, CUT, HALF_CLOSED, WHOLE, WRONG

SECOND = 10**9
GRACE = 3 * SECOND
"""How long after an engine is back its death may still show in an answer."""
OUT_GRACE = 15 * SECOND
"""How long an engine that is back may still be left out, its circuit being open."""


class Told(NamedTuple):
    """What a client made of its answer, in the order in which `load` writes it."""

    nonce: str
    kind: str
    detail: str
    must_not_run: bool
    started: int
    ended: int


class Judgement(NamedTuple):
    """How many requests ended how, and everything that must not be."""

    counts: Counter[str]
    reads: Counter[str]
    faults: list[str]


def told_in(paths: Iterable[Path]) -> list[Told]:
    """Read what client processes wrote."""
    return [Told(*json.loads(line)) for path in paths for line in path.read_text().splitlines()]


def judge(told: list[Told], engines: list[EngineProcess]) -> Judgement:
    """Hold answers, records of engines and disturbances against each other."""
    reads = _reads(engines)
    faults = [f"{nonce}: read again after it was taken" for nonce, seen in reads.items() if _ran_twice(seen)]
    faults += [f"{nonce}: not under the contract" for nonce, seen in reads.items() if UNPINNED in dict(seen).values()]
    for each in told:
        taken = [what for _, what in reads.get(each.nonce, ())].count(TAKEN)
        if each.kind == WRONG:
            faults.append(f"{each.nonce}: {each.detail}")
        elif each.kind in (WHOLE, HALF_CLOSED) and taken != 1:
            faults.append(f"{each.nonce}: answered, and taken {taken} times")
        elif each.must_not_run and taken:
            faults.append(f"{each.nonce}: told that it did not run ({each.kind} {each.detail}), and taken")
        elif not _is_excused(each, engines):
            faults.append(f"{each.nonce}: {each.kind} {each.detail} while no engine was disturbed")
    counts = Counter(each.kind if each.kind != BROKE_OFF else f"{each.kind}, {each.detail}" for each in told)
    return Judgement(counts, Counter(what for seen in reads.values() for _, what in seen), faults)


def _reads(engines: list[EngineProcess]) -> dict[str, list[tuple[int, str]]]:
    reads: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for engine in engines:
        for line in engine.record.read_text().splitlines():
            nonce, what, at = line.split()
            reads[nonce].append((int(at), what))
    return reads


def _ran_twice(seen: list[tuple[int, str]]) -> bool:
    """Tell whether a request was read once more after an engine had taken it."""
    return any(what != REFUSED for _, what in sorted(seen)[:-1])


def _is_excused(each: Told, engines: list[EngineProcess]) -> bool:
    """Tell whether an answer is good, or is an error at a time when engines were disturbed."""
    if each.kind == "503 no_healthy_engines":
        return all(_overlaps(each, engine, OUT_GRACE) for engine in engines)
    if each.kind[:3] in ("502", "503", "504") or each.kind in (BROKE_OFF, CUT):
        return any(_overlaps(each, engine, GRACE) for engine in engines)
    return True


def _overlaps(each: Told, engine: EngineProcess, grace: int) -> bool:
    return any(begin < each.ended and each.started < end + grace for begin, end in engine.disturbed)
