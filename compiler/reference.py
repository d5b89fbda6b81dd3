"""The tables of the reference page in `profiles/README.md`, from the schema and the presets themselves."""

from collections.abc import Iterator, Sequence

from compiler.compilation import compile_profile
from compiler.json_schema import BEYOND, default_of
from compiler.presets import describe, preset_names
from compiler.schema import BYTE_UNITS, SAMPLING_PARAMS, SCHEMA, Rules
from compiler.selection import Selected
from compiler.tree import Path, spelled
from router.contract.model import Contract
from router.contract.rules import Band, BodyLimit, Budget, ImageLimit, Pin, Rule


def keys() -> str:
    """Return the table of every key but the sampling parameters."""
    rows = [(f"`{spelled(path)}`", *_said(rules), f"`{rules['meta']['example']}`") for path, rules in _values(SCHEMA)]
    return _table(("key", "value", "default", "meaning", "example"), rows)


def sampling() -> str:
    """Return the table of the sampling parameters."""
    rows = []
    for name, rules in SAMPLING_PARAMS.items():
        meta, band = rules["meta"], rules["anyof"][1]["schema"]
        rows.append((f"`{name}`", meta["pin"], band["min"]["meta"]["expected"], f"`{meta['example']}`"))
    return _table(("parameter", "a pin", "`min` and `max` of a band", "example"), rows)


def presets() -> str:
    """Return what each preset is and what it enforces."""
    return "\n".join(f"### {name}\n\n{describe(name)}\n\n{_enforced(name)}" for name in preset_names())


def beyond() -> str:
    """Return the list of what editors cannot tell."""
    return "".join(f"- {words}\n" for words in BEYOND.values())


def _values(schema: Rules, above: Path = ()) -> Iterator[tuple[Path, Rules]]:
    for key, rules in schema.items():
        path = (*above, key)
        if rules.get("type") != "dict":
            yield path, rules
        elif rules["schema"] is not SAMPLING_PARAMS:
            yield from _values(rules["schema"], path)


def _said(rules: Rules) -> tuple[str, str, str]:
    meta = rules["meta"]
    default = default_of(rules)
    return meta["expected"], f"`{default}`" if "default" in meta else default, meta["meaning"]


def _enforced(preset: str) -> str:
    contract = compile_profile(Selected("preset", preset, "the reference")).artifact.contract
    rows = [*_of_names(contract), *((f"`{rule.rule}`", _words(rule)) for rule in contract.rules), *_of_errors(contract)]
    return _table(("key", "in force"), rows)


def _of_names(contract: Contract) -> Iterator[tuple[str, str]]:
    if contract.models.aliases:
        names = ", ".join(f"`{alias}`" for alias in contract.models.aliases)
        yield "`models.aliases`", f"{names} are answered, under the {contract.models.answer_as} name"


def _of_errors(contract: Contract) -> Iterator[tuple[str, str]]:
    if contract.errors.bad_request_type is not None:
        yield "`errors.bad_request_type`", f"every 400 carries the type `{contract.errors.bad_request_type}`"


def _words(rule: Rule) -> str:
    match rule:
        case BodyLimit():
            return f"a body over {_size(rule.max_bytes)} is refused"
        case Pin():
            other = "refused" if rule.conflict == "reject" else "passed on"
            return f"`{rule.value}` is injected, any other value is {other}"
        case Band():
            return f"a value outside `{rule.min}` to `{rule.max}` is refused, nothing is injected"
        case ImageLimit():
            return f"more than {rule.max_images} images are refused"
        case Budget():
            above = "refused" if rule.on_exceed == "reject" else "lowered to it"
            return f"a budget above {rule.cap} is {above}, `{rule.default}` is injected"


def _size(count: int) -> str:
    unit = next(unit for unit, size in reversed(BYTE_UNITS.items()) if count % size == 0)
    return f"{count // BYTE_UNITS[unit]} {unit}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
