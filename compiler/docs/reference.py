"""The generated tables of `profiles/README.md` and of the presets in `README.md`, from the schema and the presets."""

from collections.abc import Iterator, Sequence
from typing import Final

from compiler.docs.confidence import levels_of, summary
from compiler.docs.enforced import rows_of
from compiler.docs.json_schema import BEYOND, default_of
from compiler.docs.matrix import VENDORS, enforced_by, presets_of
from compiler.language.checks import CHECKS
from compiler.language.constraints import PARTS
from compiler.language.fields import FIELD
from compiler.language.schema import SAMPLING_PARAMS, SCHEMA, Rules
from compiler.language.values import members_of_words
from compiler.pipeline import compile_profile
from compiler.resolve.presets import describe, not_known
from compiler.resolve.selection import Selection

_NAME: Final = "<name>"
_TABLES_OF_THEIR_OWN: Final = frozenset({"fields", "checks"})
_HEADER: Final = ("key", "value", "default", "meaning", "example")


def keys() -> str:
    """Return the table of every key but those that have a table of their own."""
    return _table(_HEADER, [_row(path, rules) for path, rules in _values(SCHEMA)])


def sampling() -> str:
    """Return the table of the sampling parameters."""
    rows = []
    for name, rules in SAMPLING_PARAMS.items():
        meta, band = rules["meta"], rules["anyof"][1]["schema"]
        rows.append((f"`{name}`", meta["pin"], band["min"]["meta"]["expected"], f"`{meta['example']}`"))
    return _table(("parameter", "a pin", "`min` and `max` of a band", "example"), rows)


def fields() -> str:
    """Return the table of what the rule of a field may say."""
    return _table(_HEADER, [_row(key, rules) for key, rules in FIELD.items()])


def checks() -> str:
    """Return the table of the named checks and what each may say."""
    rows: list[tuple[str, ...]] = []
    for name, check in CHECKS.items():
        rows.append((f"`{name}`", "a mapping", "not made", check["meta"]["meaning"], ""))
        settings = {key: rules for key, rules in check["schema"].items() if key not in {"error", "source"}}
        rows += [_row(f"{name}.{key}", rules) for key, rules in settings.items()]
    return _table(_HEADER, rows)


def words() -> str:
    """Return the table of what is said of an error, and the parts of rules that may have words of their own."""
    rows = [_row(key, rules) for key, rules in members_of_words().items()]
    parts = [("a field", ", ".join(f"`{part}`" for part in PARTS))]
    parts += [(f"`{name}`", listed) for name, check in CHECKS.items() if (listed := _parts(check))]
    return f"{_table(_HEADER, rows)}\n{_table(('rule', 'parts'), parts)}"


def presets() -> str:
    """Return the presets by vendor: what each is, what the vendor's presets enforce, and every rule of each."""
    return "\n".join(_vendor(name) for name in VENDORS)


def vendors() -> str:
    """Return the table of vendors with their presets, and how sure the values are."""
    rows = []
    for vendor in VENDORS:
        names = presets_of(vendor)
        rows.append((vendor, ", ".join(f"`{name}`" for name in names), summary(levels_of(*names))))
    return _table(("vendor", "presets", "how sure their values are"), rows)


def beyond() -> str:
    """Return the list of errors that editors do not show."""
    return "".join(f"- {words}\n" for words in BEYOND.values())


def _values(schema: Rules, above: str = "") -> Iterator[tuple[str, Rules]]:
    """Yield the keys that take a value, with their paths; a key that the profile chooses is written as `<name>`."""
    for key, rules in schema.items():
        path = f"{above}.{key}" if above else key
        if path in _TABLES_OF_THEIR_OWN or rules.get("schema") is SAMPLING_PARAMS:
            continue
        if path == "errors.codes":
            inner = next(iter(rules["schema"].values()))
            yield f"{path}.<code>", {**inner, "meta": {**inner["meta"], "meaning": rules["meta"]["meaning"]}}
        elif rules.get("type") == "dict" and "schema" in rules:
            yield from _values(rules["schema"], path)
        else:
            yield path, rules
            yield from _inside(rules, path)


_OF_CASES: Final = ("when", "extends", "group")
"""The keys of a case that are no sections of a profile."""


def _inside(rules: Rules, path: str) -> Iterator[tuple[str, Rules]]:
    """Yield the keys within mappings whose keys a profile chooses, and within lists of mappings."""
    for branch in (rules, *rules.get("anyof", ())):
        values, items = branch.get("valuesrules", {}), branch.get("schema", {})
        if values.get("type") == "dict" and "schema" in values:
            inner = {key: values["schema"][key] for key in _OF_CASES} if path == "cases" else values["schema"]
            yield from _values(inner, f"{path}.{_NAME}")
        elif branch.get("type") == "list" and items.get("type") == "dict":
            yield from _values(items["schema"], f"{path}[]")


def _row(key: str, rules: Rules) -> tuple[str, ...]:
    meta = rules["meta"]
    default = default_of(rules)
    shown = f"`{default}`" if "default" in meta and not rules.get("required") else default
    example = f"`{meta['example']}`" if "example" in meta else ""
    return f"`{key}`", meta["expected"], shown, meta["meaning"], example


def _parts(check: Rules) -> str:
    members = check["schema"]["error"]["anyof"][1]["schema"]
    return ", ".join(f"`{part}`" for part in members if part not in members_of_words())


def _vendor(vendor: str) -> str:
    names = presets_of(vendor)
    listed = [(f"`{name}`", describe(name), summary(levels_of(name))) for name in names]
    parts = [f"### {vendor}\n", _table(("preset", "what it is", "how sure"), listed)]
    parts.append(_table(("kind of rule", "what is enforced"), enforced_by(vendor)))
    open_questions = [f"- `{name}`: {text}\n" for name in names if (text := not_known(name))]
    parts += [f"Not known:\n\n{''.join(open_questions)}"] if open_questions else []
    parts += [
        f"<details><summary>Every rule of <code>{name}</code></summary>\n\n{_enforced(name)}\n</details>\n"
        for name in names
    ]
    return "\n".join(parts)


def _enforced(preset: str) -> str:
    contract = compile_profile(Selection("preset", preset, "the reference")).artifact.contract
    return _table(("key", "what it does"), [*rows_of(contract)])


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *(tuple(map(_escaped, row)) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _escaped(cell: str) -> str:
    """Return the text of a cell; a bar would end it, even within a code span."""
    return " ".join(cell.replace("|", "\\|").split("\n"))
