"""Requests that try the rule of a field, a pin or a band."""

from collections.abc import Iterator
from typing import Any, Final

from compiler.verify.check import Ask, Fields, written
from compiler.verify.generation.boundary_values import FOREIGN, Point, numbers_around, points_of, shown, spelled_numbers
from compiler.verify.generation.fixture import ANY_VALUE, Situation
from compiler.verify.generation.trial import Probe
from compiler.verify.oracle.fields import names_of
from compiler.verify.oracle.values import take_away
from router.contract.schema.rule_list import Band, FieldRule, Pin
from router.contract.schema.sections import Field


def probes_of_field(situation: Situation, rule: FieldRule) -> Iterator[Probe]:
    """Yield requests that try the rule of a field."""
    path, companions = rule.path, _companions(situation, rule)
    if path != "messages":
        yield Probe(f"{path} omitted", _without(situation, path))
        yield Probe(f"{path} null", situation.ask({path: None}))
    points = list(points_of(rule, _elsewhere(situation, rule)))
    for point in points:
        yield Probe(f"{path}: {point.shows}", situation.ask({**companions, path: point.value}), point.is_edge)
    good = _first(situation, rule, points, companions, is_good=True)
    bad = _first(situation, rule, points, companions, is_good=False)
    yield from _sources(situation, rule, good or Point("1", 1), companions)
    if good is None:
        return
    yield from _company(situation, rule, good, companions)
    if "." not in path:
        yield from _repeated(situation.ask({**companions, path: good.value}), path, good, bad)
    for other in names_of(path)[1:]:
        yield from _spelled(situation, other, (path, companions), good, bad)


_ODD: Final[tuple[Any, ...]] = ("hot", [1], True, {}, "")


def probes_of_sampling(situation: Situation, rule: Pin | Band) -> Iterator[Probe]:
    """Yield requests that try a pin or a band."""
    name = rule.field
    edges = [rule.value] if isinstance(rule, Pin) else [rule.min, rule.max]
    points = [point for edge in edges for point in numbers_around(name, edge)]
    points += [point for edge in edges for point in spelled_numbers(edge)]
    points += [Point(shown(value), value, is_edge=False) for value in _ODD]
    yield Probe(f"{name} omitted", _without(situation, name))
    yield Probe(f"{name} null", situation.ask({name: None}))
    yield from (Probe(f"{name}: {point.shows}", situation.ask({name: point.value}), point.is_edge) for point in points)
    good, bad = points[0], points[2]
    yield from _repeated(situation.ask({name: good.value}), name, good, bad)
    for other in names_of(name)[1:]:
        yield from _spelled(situation, other, (name, {}), good, bad)


def _elsewhere(situation: Situation, rule: FieldRule) -> Iterator[Field]:
    """Yield what the contract says of a field in other cases."""
    contract = situation.meaning.contract
    for sections in (contract, *(case.sections for case in contract.cases)):
        field = sections.fields.get(rule.path)
        if field is not None and field != rule.field:
            yield field


def _without(situation: Situation, path: str) -> Ask:
    fields = situation.ask().fields()
    take_away(fields, path)
    return Ask.of(fields)


def _companions(situation: Situation, rule: FieldRule) -> Fields:
    """Return what a valid value of a field needs beside it."""
    needed: Fields = {}
    for path, wanted in rule.field.requires.items():
        needed[path] = wanted[0] if wanted else ANY_VALUE
    above = rule.path.rpartition(".")[0]
    for other in situation.rules:
        # A rule of the object that holds the field may want more of it.
        if isinstance(other, FieldRule) and other.path == above:
            needed |= {path: wanted[0] if wanted else ANY_VALUE for path, wanted in other.field.requires.items()}
    return needed


def _first(
    situation: Situation, rule: FieldRule, points: list[Point], companions: Fields, *, is_good: bool
) -> Point | None:
    for point in points:
        ask = situation.ask({**companions, rule.path: point.value})
        if situation.accepts(ask) if is_good else situation.refuses(ask, rule.rule):
            return point
    return None


def _sources(situation: Situation, rule: FieldRule, good: Point, companions: Fields) -> Iterator[Probe]:
    """Yield requests that send what the field takes its value from."""
    values = [*rule.field.map, good.value]
    for source in rule.field.sources:
        for value in values:
            ask = situation.ask({**companions, source: value})
            yield Probe(f"{source}: {shown(value)}, from which {rule.path} is taken", ask)
            if situation.accepts(ask):
                both = situation.ask({**companions, rule.path: good.value, source: value})
                yield Probe(f"{rule.path} and {source} {shown(value)} both sent", both)
    if len(rule.field.sources) > 1:
        for value in values:
            every = dict.fromkeys(rule.field.sources, value)
            yield Probe(f"all of {', '.join(every)} sent", situation.ask({**companions, **every}))
        for one in _accepted_values(situation, rule.field.sources[0], values):
            for two in _accepted_values(situation, rule.field.sources[1], values):
                if one != two:
                    pair = {rule.field.sources[0]: one, rule.field.sources[1]: two}
                    yield Probe(f"{shown(pair)}, of which the first counts", situation.ask({**companions, **pair}))
                    return


def _accepted_values(situation: Situation, path: str, values: list[Any]) -> list[Any]:
    words = [*values, "low", "high", "max", "verify"]
    return [value for value in words if situation.accepts(situation.ask({path: value}))]


def _company(situation: Situation, rule: FieldRule, good: Point, companions: Fields) -> Iterator[Probe]:
    """Yield requests in which what a field requires is missing, or what it excludes is there."""
    for path, wanted in rule.field.requires.items():
        lacking = {name: value for name, value in companions.items() if name != path}
        ask = situation.ask({**lacking, rule.path: good.value})
        yield Probe(f"{rule.path} without {path}", ask)
        for value in wanted:
            other = (not value) if isinstance(value, bool) else FOREIGN
            changed = situation.ask({**companions, path: other, rule.path: good.value})
            yield Probe(f"{rule.path} with {path} {shown(other)}", changed)
        for value in wanted[1:]:
            yield Probe(
                f"{rule.path} with {path} {shown(value)}",
                situation.ask({**companions, path: value, rule.path: good.value}),
            )
    for path, wanted in rule.field.excludes.items():
        for value in wanted or (1, ANY_VALUE):
            ask = situation.ask({**companions, rule.path: good.value, path: value})
            yield Probe(f"{rule.path} with {path} {shown(value)}", ask)
        if wanted:
            beside = situation.ask({**companions, rule.path: good.value, path: FOREIGN})
            yield Probe(f"{rule.path} with {path} {shown(FOREIGN)}", beside)
        yield Probe(
            f"{rule.path} with {path} null", situation.ask({**companions, rule.path: good.value, path: None}), False
        )


def _repeated(ask: Ask, name: str, good: Point, bad: Point | None) -> Iterator[Probe]:
    """Yield requests that send a field twice: of which engines read the last."""
    first = written(good.value)
    yield Probe(f"{name} twice", ask.replaced(name, first, first), is_edge=False)
    if bad is not None:
        second = written(bad.value)
        yield Probe(f"{name} twice, the last {bad.shows}", ask.replaced(name, first, second), is_edge=False)
        yield Probe(f"{name} twice, the first {bad.shows}", ask.replaced(name, second, first), is_edge=False)


def _spelled(
    situation: Situation, other: str, judged: tuple[str, Fields], good: Point, bad: Point | None
) -> Iterator[Probe]:
    """Yield requests that send a field under another name that some engine knows."""
    path, companions = judged
    yield Probe(f"{path} as {other}: {good.shows}", situation.ask({**companions, other: good.value}), False)
    both = {path: good.value, other: good.value}
    yield Probe(f"{path} and {other}", situation.ask({**companions, **both}), is_edge=False)
    if bad is not None:
        yield Probe(f"{path} as {other}: {bad.shows}", situation.ask({**companions, other: bad.value}), False)
