"""What can be added to a profile, as YAML in comments: keys with an example and their meaning, from the schema."""

from collections.abc import Iterator
from typing import Final

from compiler.language.schema import SCHEMA, Rules
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.model import Contract

_SHOWN: Final = ("models", "limits", "output", "sampling", "errors")
"""The sections that a deployment sets, rather than a vendor's contract."""

_LEFT_OUT: Final = ("source", "body", "omit_null", "codes", "engine_400")
_POINTER: Final = "Any request field, checks of messages and tools, modes, cases, error texts: profiles/README.md."


def commented_examples(contract: Contract) -> str:
    """Return a commented line for each key that a deployment may want to set beside a parent's contract.

    All together they are valid on top of it: without sampling parameters where it has rules for them under `fields`.
    """
    governed = {
        path for sections in (contract, *(case.sections for case in contract.cases)) for path in sections.fields
    }
    shown = [key for key in _SHOWN if key != "sampling" or governed.isdisjoint(SAMPLING_FIELDS)]
    lines = [*_lines({key: SCHEMA[key] for key in shown}, ""), "", f"# {_POINTER}"]
    return "\n".join(f"# {line}".rstrip() for line in lines)


def _lines(schema: Rules, indent: str) -> Iterator[str]:
    for key, rules in schema.items():
        if key in _LEFT_OUT:
            continue
        if rules.get("type") == "dict":
            yield _line(f"{indent}{key}:", rules["meta"]["meaning"])
            yield from _lines(rules["schema"], f"{indent}  ")
        else:
            yield _line(f"{indent}{key}: {_example(rules)}", _said(rules))


def _line(text: str, comment: str) -> str:
    return f"{text:44}  # {comment}"


def _example(rules: Rules) -> str:
    """Return an example; of a choice the default, since another value could contradict the rest of the profile."""
    return str(rules["meta"]["default" if "allowed" in rules else "example"])


def _said(rules: Rules) -> str:
    meta = rules["meta"]
    if "allowed" in rules:
        return f"{meta['meaning']} One of: {', '.join(rules['allowed'])}."
    return str(meta.get("pin", meta["meaning"]))
