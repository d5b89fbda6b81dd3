"""Narrow a contract to requests for some models; settings for other models are left out."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.sections import Mode, ModeMatch

Globs = tuple[str, ...]


def of_models(contract: Contract, models: tuple[str, ...]) -> Contract:
    """Return the contract for requests that name these models, or that are routed to them.

    Combinations of cases become cases like others. Cases, mode rules and aliases for other models are removed. A
    condition that all of the models meet is removed, too. A case without a condition matches every request.
    """
    named = with_aliases(contract, models)
    readings = tuple(_readings(named, models))
    cases = tuple(_cases(named, models))
    mode = Mode() if named.mode.default is None else msgspec.structs.replace(named.mode, match=readings)
    return _folded(msgspec.structs.replace(named, mode=mode, case_groups=(), cases=cases))


def with_aliases(contract: Contract, names: tuple[str, ...]) -> Contract:
    """Return a contract with only these aliases."""
    aliases = {name: alias for name, alias in contract.models.aliases.items() if name in names}
    return msgspec.structs.replace(contract, models=msgspec.structs.replace(contract.models, aliases=aliases))


def _readings(contract: Contract, models: tuple[str, ...]) -> Iterator[ModeMatch]:
    for reading in contract.mode.match:
        globs = _left_of(reading.model, contract, models)
        if globs is not None:
            yield msgspec.structs.replace(reading, model=globs)


def _cases(contract: Contract, models: tuple[str, ...]) -> Iterator[Case]:
    for case in contract.cases:
        left = [_left_of(globs, contract, models) for globs in (case.when.model, *case.when.also)]
        if None not in left:
            model, *also = [globs for globs in left if globs] or [()]
            when = msgspec.structs.replace(case.when, model=model, also=tuple(also))
            yield Case(case.name, when, case.sections)


def _left_of(globs: Globs, contract: Contract, models: tuple[str, ...]) -> Globs | None:
    """Return the models of a condition that remain to be tested: none if all models match; None if no model does."""
    matching = [any(_matches(globs, name) for name in _names_of(model, contract)) for model in models]
    if not globs or all(matching):
        return ()
    return globs if any(matching) else None


def _names_of(model: str, contract: Contract) -> tuple[str, ...]:
    """Return the names of a model in conditions: the requested one, and the one that it is routed to."""
    alias = contract.models.aliases.get(model)
    return (model,) if alias is None or alias.model is None else (model, alias.model)


def _matches(globs: Globs, name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _folded(contract: Contract) -> Contract:
    """Return a contract whose first case without a condition, if any, is the base: every request matches it."""
    place = next((place for place, case in enumerate(contract.cases) if case.when == When()), None)
    if place is None:
        return contract
    sections = contract.cases[place].sections
    values = {name: getattr(sections, name) for name in _SECTIONS}
    # The size of a body is held before the case is known.
    size = contract.limits.max_body_bytes
    values["limits"] = msgspec.structs.replace(sections.limits, max_body_bytes=size)
    return msgspec.structs.replace(contract, **values, cases=contract.cases[:place])


_SECTIONS: Final = Sections.__struct_fields__
