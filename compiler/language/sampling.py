"""The rules of the sampling parameters: a pin, or a band."""

from typing import Final

from compiler.language.values import LARGEST_WHOLE, Rules
from router.contract.schema.fields import WHOLE_NUMBER_FIELDS


def _parameter(name: str, domain: str, example: str, pin: Rules, edge: tuple[str, Rules] | None = None) -> Rules:
    """Return the rules of a sampling parameter: a pin, or a band with edges in the same domain or in their own."""
    edge_domain, edge_rules = edge or (domain, pin)
    kind = "a whole number" if name in WHOLE_NUMBER_FIELDS else "a number"
    common = {"type": "number", "finite": True, **({"whole": True} if name in WHOLE_NUMBER_FIELDS else {})}
    at_edge = {**common, **edge_rules, "required": True}
    edge_meta = {"expected": f"{kind}, {edge_domain}", "when_missing": "a band needs both min and max"}
    band = {
        "type": "dict",
        "schema": {
            "min": {**at_edge, "meta": {**edge_meta, "meaning": "The least value that is accepted."}},
            "max": {**at_edge, "meta": {**edge_meta, "meaning": "The largest value that is accepted."}},
        },
        "meta": {"expected": "a band {min: ..., max: ...}"},
    }
    meta = {
        "expected": f"{kind}, {domain}; or a band {{min: ..., max: ...}}",
        "pin": f"{kind}, {domain}",
        "meaning": "A number pins the parameter; {min, max} accepts a band, both ends included.",
        "absent": "any value",
        "example": example,
    }
    return {"anyof": [{**common, **pin}, band], "meta": meta}


SAMPLING_PARAMS: Final[Rules] = {
    "temperature": _parameter("temperature", "from 0 to 2", "{min: 0, max: 1}", {"min": 0, "max": 2}),
    "top_p": _parameter("top_p", "above 0 and at most 1", "0.95", {"above": 0, "max": 1}),
    "top_k": _parameter(
        "top_k",
        "at least 1, or exactly -1 for all",
        "1000",
        {"min": -1, "forbidden": [0], "max": LARGEST_WHOLE},
        ("at least 1", {"min": 1, "max": LARGEST_WHOLE}),
    ),
    "min_p": _parameter("min_p", "from 0 to 1", "0.05", {"min": 0, "max": 1}),
    "repetition_penalty": _parameter("repetition_penalty", "above 0 and at most 2", "1.05", {"above": 0, "max": 2}),
    "frequency_penalty": _parameter("frequency_penalty", "from -2 to 2", "0", {"min": -2, "max": 2}),
    "presence_penalty": _parameter("presence_penalty", "from -2 to 2", "0", {"min": -2, "max": 2}),
    "n": _parameter("n", "from 1 to 128", "1", {"min": 1, "max": 128}),
}
