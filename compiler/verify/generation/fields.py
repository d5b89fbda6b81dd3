"""Requests that test the rule of a field, a const or a range."""

from collections.abc import Iterator
from typing import Any, Final

from compiler.language.samples import FOREIGN, BoundaryValue, numbers_around, shown, spelled_numbers
from compiler.verify.check import ChatRequest, Fields, written
from compiler.verify.generation.boundary_values import boundary_values_of
from compiler.verify.generation.fixture import ANY_VALUE, Fixture
from compiler.verify.generation.request_variant import RequestVariant
from compiler.verify.oracle.fields import names_of
from compiler.verify.oracle.values import take_away
from router.contract.schema.rule_list import Const, FieldRule, Range
from router.contract.schema.sections import Field


def variants_of_field(fixture: Fixture, rule: FieldRule) -> Iterator[RequestVariant]:
    """Yield requests that try the rule of a field."""
    path, companions = rule.path, _companions(fixture, rule)
    if path != "messages":
        yield RequestVariant(f"{path} omitted", _without(fixture, path))
        yield RequestVariant(f"{path} null", fixture.request({path: None}))
    boundaries = list(boundary_values_of(rule, _elsewhere(fixture, rule)))
    for boundary in boundaries:
        yield RequestVariant(
            f"{path}: {boundary.description}", fixture.request({**companions, path: boundary.value}), boundary.is_edge
        )
    good = _first(fixture, rule, boundaries, companions, is_good=True)
    bad = _first(fixture, rule, boundaries, companions, is_good=False)
    yield from _sources(fixture, rule, good or BoundaryValue("1", 1), companions)
    if good is None:
        return
    yield from _company(fixture, rule, good, companions)
    if "." not in path:
        yield from _repeated(fixture.request({**companions, path: good.value}), path, good, bad)
    for other in names_of(path)[1:]:
        yield from _spelled(fixture, other, (path, companions), good, bad)


_ODD: Final[tuple[Any, ...]] = ("hot", [1], True, {}, "")


def variants_of_sampling(fixture: Fixture, rule: Const | Range) -> Iterator[RequestVariant]:
    """Yield requests that try a pin or a band."""
    name = rule.field
    edges = [rule.value] if isinstance(rule, Const) else [rule.min, rule.max]
    boundaries = [boundary for edge in edges for boundary in numbers_around(name, edge)]
    boundaries += [boundary for edge in edges for boundary in spelled_numbers(edge)]
    boundaries += [BoundaryValue(shown(value), value, is_edge=False) for value in _ODD]
    yield RequestVariant(f"{name} omitted", _without(fixture, name))
    yield RequestVariant(f"{name} null", fixture.request({name: None}))
    yield from (
        RequestVariant(f"{name}: {boundary.description}", fixture.request({name: boundary.value}), boundary.is_edge)
        for boundary in boundaries
    )
    good, bad = boundaries[0], boundaries[2]
    yield from _repeated(fixture.request({name: good.value}), name, good, bad)
    for other in names_of(name)[1:]:
        yield from _spelled(fixture, other, (name, {}), good, bad)


def _elsewhere(fixture: Fixture, rule: FieldRule) -> Iterator[Field]:
    """Yield the rules of the field in other cases."""
    contract = fixture.oracle.contract
    for sections in (contract, *(case.sections for case in contract.cases)):
        field = sections.fields.get(rule.path)
        if field is not None and field != rule.field:
            yield field


def _without(fixture: Fixture, path: str) -> ChatRequest:
    fields = fixture.request().fields()
    take_away(fields, path)
    return ChatRequest.of(fields)


def _companions(fixture: Fixture, rule: FieldRule) -> Fields:
    """Return the companion fields that a valid value of a field needs."""
    needed: Fields = {}
    for path, wanted in rule.field.requires.items():
        needed[path] = wanted[0] if wanted else ANY_VALUE
    above = rule.path.rpartition(".")[0]
    for other in fixture.rules:
        # A rule of the object that holds the field may want more of it.
        if isinstance(other, FieldRule) and other.path == above:
            needed |= {path: wanted[0] if wanted else ANY_VALUE for path, wanted in other.field.requires.items()}
    return needed


def _first(
    fixture: Fixture, rule: FieldRule, boundaries: list[BoundaryValue], companions: Fields, *, is_good: bool
) -> BoundaryValue | None:
    for boundary in boundaries:
        request = fixture.request({**companions, rule.path: boundary.value})
        if fixture.accepts(request) if is_good else fixture.rejects(request, rule.rule):
            return boundary
    return None


def _sources(fixture: Fixture, rule: FieldRule, good: BoundaryValue, companions: Fields) -> Iterator[RequestVariant]:
    """Yield requests that send the sources of a field's value."""
    values = [*rule.field.map, good.value]
    for source in rule.field.sources:
        for value in values:
            request = fixture.request({**companions, source: value})
            yield RequestVariant(f"{source}: {shown(value)}, from which {rule.path} is taken", request)
            if fixture.accepts(request):
                both = fixture.request({**companions, rule.path: good.value, source: value})
                yield RequestVariant(f"{rule.path} and {source} {shown(value)} both sent", both)
    if len(rule.field.sources) > 1:
        for value in values:
            every = dict.fromkeys(rule.field.sources, value)
            yield RequestVariant(f"all of {', '.join(every)} sent", fixture.request({**companions, **every}))
        for one in _accepted_values(fixture, rule.field.sources[0], values):
            for two in _accepted_values(fixture, rule.field.sources[1], values):
                if one != two:
                    pair = {rule.field.sources[0]: one, rule.field.sources[1]: two}
                    yield RequestVariant(
                        f"{shown(pair)}, of which the first counts", fixture.request({**companions, **pair})
                    )
                    return


def _accepted_values(fixture: Fixture, path: str, values: list[Any]) -> list[Any]:
    words = [*values, "low", "high", "max", "verify"]
    return [value for value in words if fixture.accepts(fixture.request({path: value}))]


def _company(fixture: Fixture, rule: FieldRule, good: BoundaryValue, companions: Fields) -> Iterator[RequestVariant]:
    """Yield requests that lack a required field or have an excluded one."""
    for path, wanted in rule.field.requires.items():
        lacking = {name: value for name, value in companions.items() if name != path}
        request = fixture.request({**lacking, rule.path: good.value})
        yield RequestVariant(f"{rule.path} without {path}", request)
        for value in wanted:
            other = (not value) if isinstance(value, bool) else FOREIGN
            changed = fixture.request({**companions, path: other, rule.path: good.value})
            yield RequestVariant(f"{rule.path} with {path} {shown(other)}", changed)
        for value in wanted[1:]:
            yield RequestVariant(
                f"{rule.path} with {path} {shown(value)}",
                fixture.request({**companions, path: value, rule.path: good.value}),
            )
    for path, wanted in rule.field.excludes.items():
        for value in wanted or (1, ANY_VALUE):
            request = fixture.request({**companions, rule.path: good.value, path: value})
            yield RequestVariant(f"{rule.path} with {path} {shown(value)}", request)
        if wanted:
            beside = fixture.request({**companions, rule.path: good.value, path: FOREIGN})
            yield RequestVariant(f"{rule.path} with {path} {shown(FOREIGN)}", beside)
        yield RequestVariant(
            f"{rule.path} with {path} null", fixture.request({**companions, rule.path: good.value, path: None}), False
        )


def _repeated(
    request: ChatRequest, name: str, good: BoundaryValue, bad: BoundaryValue | None
) -> Iterator[RequestVariant]:
    """Yield requests that send a field twice; engines read the last occurrence."""
    first = written(good.value)
    yield RequestVariant(f"{name} twice", request.replaced(name, first, first), is_edge=False)
    if bad is not None:
        second = written(bad.value)
        yield RequestVariant(
            f"{name} twice, the last {bad.description}", request.replaced(name, first, second), is_edge=False
        )
        yield RequestVariant(
            f"{name} twice, the first {bad.description}", request.replaced(name, second, first), is_edge=False
        )


def _spelled(
    fixture: Fixture, other: str, subject: tuple[str, Fields], good: BoundaryValue, bad: BoundaryValue | None
) -> Iterator[RequestVariant]:
    """Yield requests that send a field under another name that some engine knows."""
    path, companions = subject
    yield RequestVariant(
        f"{path} as {other}: {good.description}", fixture.request({**companions, other: good.value}), False
    )
    both = {path: good.value, other: good.value}
    yield RequestVariant(f"{path} and {other}", fixture.request({**companions, **both}), is_edge=False)
    if bad is not None:
        yield RequestVariant(
            f"{path} as {other}: {bad.description}", fixture.request({**companions, other: bad.value}), False
        )
