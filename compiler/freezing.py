"""Validated tree → the contract, normalised and with every default spelled out, → the artifact."""

from typing import Any

from compiler.sizes import bytes_of
from router.contract.fields import SAMPLING_FIELDS, WHOLE_NUMBER_FIELDS
from router.contract.model import Contract
from router.contract.sections import Errors, Interval, Limits, MaxTokens, Models, Output, Sampling, plain_aliases


def contract_of(profile: dict[str, Any]) -> Contract:
    """Return the contract that a merged and validated profile means, given as its bare values."""
    return Contract(
        errors=Errors(**profile.get("errors", {})),
        limits=_limits(profile.get("limits", {})),
        models=_models(profile.get("models", {})),
        output=_output(profile.get("output", {})),
        sampling=_sampling(profile.get("sampling", {})),
    )


def _limits(section: dict[str, Any]) -> Limits:
    limits = dict(section)
    if "max_body_bytes" in limits:
        size = limits["max_body_bytes"]
        limits["max_body_bytes"] = bytes_of(size) if isinstance(size, str) else int(size)
    if "max_images" in limits:
        limits["max_images"] = int(limits["max_images"])
    return Limits(**limits)


def _models(section: dict[str, Any]) -> Models:
    return Models(**{**section, "aliases": plain_aliases(*section.get("aliases", ()))})


def _output(section: dict[str, Any]) -> Output:
    budget = section.get("max_tokens")
    if budget is None:
        return Output()
    cap = int(budget["cap"])
    return Output(MaxTokens(**{**budget, "cap": cap, "default": int(budget.get("default", cap))}))


def _sampling(section: dict[str, Any]) -> Sampling:
    written = section.get("params", {})
    params = {name: _expected(name, written[name]) for name in SAMPLING_FIELDS if name in written}
    return Sampling(**{**section, "params": params})


def _expected(name: str, value: Any) -> int | float | Interval:  # noqa: ANN401 - a number, or a dict of two
    if isinstance(value, dict):
        return Interval(_number(name, value["min"]), _number(name, value["max"]))
    return _number(name, value)


def _number(name: str, value: float) -> int | float:
    return int(value) if name in WHOLE_NUMBER_FIELDS else value
