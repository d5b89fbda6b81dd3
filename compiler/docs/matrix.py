"""The table of what each preset enforces, one column for each kind of rule, and of what its vendor leaves unknown."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from compiler.pipeline import compile_profile
from compiler.resolve.presets import not_known, preset_names
from compiler.resolve.selection import Selection
from router.contract.schema.model import Contract, Sections
from router.contract.schema.rule_list import PART_LIMITS
from router.contract.schema.sections import Field, Interval

MAX_NAMED: Final = 4
"""Fields or checks that a cell names; more are counted."""

NOTHING: Final = "-"

_IMAGE_CHECKS: Final = ("images",)


def matrix() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the head and the rows of the table, one row for each preset."""
    header = ("preset", *COLUMNS, "not known")
    return header, [_row(name) for name in preset_names()]


def _row(preset: str) -> tuple[str, ...]:
    contract = compile_profile(Selection("preset", preset, "the reference")).artifact.contract
    cells = (told(contract) or NOTHING for told in COLUMNS.values())
    return (f"`{preset}`", *cells, not_known(preset) or NOTHING)


def _everywhere(contract: Contract) -> tuple[Sections, ...]:
    """Return what holds outside of cases, then within each."""
    return (contract, *(case.sections for case in contract.cases))


def _fields(contract: Contract) -> Iterator[tuple[str, Field]]:
    return ((path, field) for sections in _everywhere(contract) for path, field in sections.fields.items())


def _is_fixed(field: Field) -> bool:
    return field.allowed is not None and len(field.allowed) == 1


def _named(names: Iterable[str], more: str = "more") -> str:
    """Return names, each once, the first few of many."""
    texts = [f"`{name}`" for name in dict.fromkeys(names)]
    if len(texts) > MAX_NAMED:
        texts = [*texts[: MAX_NAMED - 1], f"{len(texts) - MAX_NAMED + 1} {more}"]
    return ", ".join(texts)


def _of_fields(holds: Callable[[Field], bool]) -> Callable[[Contract], str]:
    return lambda contract: _named(path for path, field in _fields(contract) if holds(field))


def _params(contract: Contract, *, banded: bool) -> list[str]:
    return [
        name
        for sections in _everywhere(contract)
        for name, value in sections.sampling.params.items()
        if isinstance(value, Interval) == banded
    ]


def _fixed(contract: Contract) -> str:
    return _named([*_params(contract, banded=False), *(path for path, field in _fields(contract) if _is_fixed(field))])


def _ranges(contract: Contract) -> str:
    ranged = (path for path, field in _fields(contract) if _has_range(field))
    return _named([*_params(contract, banded=True), *ranged])


def _has_range(field: Field) -> bool:
    return any(bound is not None for bound in (field.min, field.above, field.max, field.below))


def _has_length(field: Field) -> bool:
    return any(limit is not None for limit in (field.min_items, field.max_items, field.max_bytes, field.pattern))


def _changes(field: Field) -> bool:
    limited = field.floor is not None or field.ceiling is not None
    return bool(field.sources or field.map or field.drop or limited or field.force is not None)


def _budget(contract: Contract) -> str:
    told = []
    for sections in _everywhere(contract):
        budget = sections.output.max_tokens
        if budget is not None:
            told.append(f"{budget.cap} ({'refused' if budget.on_exceed == 'reject' else 'lowered'} above)")
    return "; ".join(dict.fromkeys(told))


def _checks(contract: Contract) -> str:
    names = (name for sections in _everywhere(contract) for name in sections.checks if name not in _IMAGE_CHECKS)
    return _named(names)


def _media(contract: Contract) -> str:
    told = []
    for sections in _everywhere(contract):
        limits = {name: getattr(sections.limits, limit) for name, limit in PART_LIMITS.items()}
        told += [f"at most {most} {name}s" for name, most in limits.items() if most is not None]
        told += ["sources and sizes of images" for name in _IMAGE_CHECKS if name in sections.checks]
    return "; ".join(dict.fromkeys(told))


def _unknown(contract: Contract) -> str:
    told = {"reject": "refused", "drop": "dropped"}
    policies = (sections.unknown_fields.policy for sections in _everywhere(contract))
    return "; ".join(dict.fromkeys(told[policy] for policy in policies if policy in told))


def _names(contract: Contract) -> str:
    return _named(contract.models.aliases)


def _cases(contract: Contract) -> str:
    if contract.mode.default is None and not contract.cases:
        return ""
    modes = dict.fromkeys((contract.mode.default, *(reading.mode for reading in contract.mode.match)))
    of_modes = _named(mode for mode in modes if mode is not None)
    cases = f"{len(contract.cases)} case{'' if len(contract.cases) == 1 else 's'}"
    return f"modes {of_modes}; {cases}" if of_modes else cases


def _errors(contract: Contract) -> str:
    told = []
    for sections in _everywhere(contract):
        errors = sections.errors
        told += ["envelope"] if errors.body is not None else []
        told += [f"words of {len(errors.codes)} codes"] if errors.codes else []
        told += ["the engine's 400s too"] if errors.engine_400 is not None else []
        told += [f"type `{errors.bad_request_type}`"] if errors.bad_request_type is not None else []
    return "; ".join(dict.fromkeys(told))


def _stream(contract: Contract) -> str:
    told = {"end_frame": "in the end frame", "tail_frame": "in a frame of its own"}
    usages = (sections.response.stream.usage for sections in _everywhere(contract))
    return "; ".join(dict.fromkeys(told[usage] for usage in usages if usage in told))


COLUMNS: Final[dict[str, Callable[[Contract], str]]] = {
    "fixed values": _fixed,
    "ranges": _ranges,
    "sets": _of_fields(lambda field: field.allowed is not None and not _is_fixed(field)),
    "required, refused, types": _of_fields(lambda field: field.required or field.reject or bool(field.type)),
    "defaults": _of_fields(lambda field: field.default is not None and not _is_fixed(field)),
    "lengths": _of_fields(_has_length),
    "cross-field": _of_fields(lambda field: bool(field.requires or field.excludes)),
    "mapped, forced, dropped": _of_fields(_changes),
    "output cap": _budget,
    "messages and tools": _checks,
    "images, videos, audios, files": _media,
    "unknown fields": _unknown,
    "names": _names,
    "modes and cases": _cases,
    "errors": _errors,
    "usage in streams": _stream,
}
"""The kinds of rules, and what a contract says of each in a few words; an empty text where it says nothing."""
