"""What the presets of each vendor enforce, by kind of rule: one short table a vendor."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from compiler.language.constraints import stated
from compiler.language.constraints.record import KindOfRule
from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection
from router.contract.schema.model import Contract, Sections
from router.contract.schema.rule_list import PART_LIMITS
from router.contract.schema.sections import Field, Interval

VENDORS: Final = {
    "Alibaba": "qwen",
    "ByteDance": "bytedance-doubao",
    "DeepSeek": "deepseek",
    "MiniMax": "minimax",
    "Mistral": "mistral",
    "Moonshot": "moonshot",
    "OpenAI": "openai",
    "StepFun": "stepfun",
    "Tencent": "tencent",
    "Xiaomi": "xiaomi",
    "Z.ai": "zai",
}
"""Vendors, by name, each with the prefix of its presets."""

NO_VENDOR: Final = "openai-compatible"
"""The preset that enforces nothing. It stands for no vendor."""

MAX_NAMED: Final = 6
"""Fields or checks that a cell names; further ones are counted."""

_IMAGE_CHECKS: Final = ("images",)


def presets_of(vendor: str) -> list[str]:
    """Return the names of a vendor's presets, sorted."""
    return [name for name in preset_names() if name.startswith(VENDORS[vendor]) and name != NO_VENDOR]


def enforced_by(vendor: str) -> list[tuple[str, str]]:
    """Return the kinds of rules that a vendor's presets enforce, each with its fields, values or limits."""
    contracts = {name: _contract(name) for name in presets_of(vendor)}
    rows = (
        (kind, {name: words_of(contract) for name, contract in contracts.items()}) for kind, words_of in KINDS.items()
    )
    return [(kind, _merged(words)) for kind, words in rows if any(words.values())]


def _contract(preset: str) -> Contract:
    return compile_profile(Selection("preset", preset, "the reference")).artifact.contract


def _merged(words: dict[str, str]) -> str:
    """Return the cell of several presets: each text once, with the presets it holds for unless it holds for all."""
    texts = dict.fromkeys(text for text in words.values() if text)
    return "<br>".join(_with_presets(text, words) for text in texts)


def _with_presets(text: str, words: dict[str, str]) -> str:
    holders = [name for name, other in words.items() if other == text]
    others = [name for name in words if name not in holders]
    if not others:
        return text
    if len(others) < len(holders):
        return f"{text} (all but {_codes(others)})"
    return f"{text} ({_codes(holders)})"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


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


def _states(field: Field, kind: KindOfRule) -> bool:
    """Return whether the rule of a field states a constraint of a kind; what is fixed counts as that alone."""
    kinds = {constraint.kind for constraint in stated(field)}
    return kind in (kinds - {"sets", "defaults"} if _is_fixed(field) else kinds)


def _of_fields(kind: KindOfRule) -> Callable[[Contract], str]:
    return lambda contract: _named(path for path, field in _fields(contract) if _states(field, kind))


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
    ranged = (path for path, field in _fields(contract) if _states(field, "ranges"))
    return _named([*_params(contract, banded=True), *ranged])


def _budget(contract: Contract) -> str:
    words = []
    for sections in _everywhere(contract):
        budget = sections.output.max_tokens
        if budget is not None:
            words.append(f"{budget.cap} ({'rejected' if budget.on_exceed == 'reject' else 'lowered'} above)")
    return "; ".join(dict.fromkeys(words))


def _checks(contract: Contract) -> str:
    names = (name for sections in _everywhere(contract) for name in sections.checks if name not in _IMAGE_CHECKS)
    return _named(names)


def _media(contract: Contract) -> str:
    words = []
    for sections in _everywhere(contract):
        limits = {name: getattr(sections.limits, limit) for name, limit in PART_LIMITS.items()}
        words += [f"at most {most} {name}s" for name, most in limits.items() if most is not None]
        words += ["sources and sizes of images" for name in _IMAGE_CHECKS if name in sections.checks]
    return "; ".join(dict.fromkeys(words))


def _unknown(contract: Contract) -> str:
    words = {"reject": "rejected", "drop": "dropped"}
    found = []
    for sections in _everywhere(contract):
        unknown = sections.unknown_fields
        found += [words[unknown.policy]] if unknown.policy in words else []
        found += [f"{words[members.policy]} in {path}" for path, members in unknown.within.items()]
    return "; ".join(dict.fromkeys(found))


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
    every = [sections.errors for sections in _everywhere(contract)]
    codes = {code for errors in every for code in errors.codes}
    words = ["envelope"] if any(errors.body is not None for errors in every) else []
    words += [f"own texts for {len(codes)} error code{'' if len(codes) == 1 else 's'}"] if codes else []
    words += ["engines' 400s rewritten"] if any(errors.engine_400 is not None for errors in every) else []
    types = dict.fromkeys(errors.bad_request_type for errors in every)
    words += [f"type `{name}`" for name in types if name is not None]
    return "; ".join(words)


def _stream(contract: Contract) -> str:
    words = {"end_frame": "in the last frame of the response", "tail_frame": "in a frame of its own"}
    usages = (sections.response.stream.usage for sections in _everywhere(contract))
    return "; ".join(dict.fromkeys(words[usage] for usage in usages if usage in words))


KINDS: Final[dict[str, Callable[[Contract], str]]] = {
    "fixed values": _fixed,
    "ranges": _ranges,
    "sets": _of_fields("sets"),
    "required, rejected, types": _of_fields("required, rejected, types"),
    "defaults": _of_fields("defaults"),
    "lengths": _of_fields("lengths"),
    "cross-field": _of_fields("cross-field"),
    "mapped, forced, dropped": _of_fields("mapped, forced, dropped"),
    "output cap": _budget,
    "messages and tools": _checks,
    "images, videos, audios, files": _media,
    "unknown fields": _unknown,
    "aliases": _names,
    "modes and cases": _cases,
    "errors": _errors,
    "usage in streams": _stream,
}
"""The kinds of rules, and what a contract enforces of each, in a few words; an empty text for nothing."""
