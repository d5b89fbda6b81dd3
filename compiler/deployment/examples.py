"""What can be added to a profile, as YAML in comments: each key with an example and its meaning, from the schema."""

from collections.abc import Iterator

from compiler.schema import SCHEMA, Rules


def commented_examples() -> str:
    """Return a commented line for every key but the name and the parent; all together they are a valid profile."""
    sections = {key: rules for key, rules in SCHEMA.items() if rules.get("type") == "dict"}
    return "\n".join(f"# {line}" for line in _lines(sections, ""))


def _lines(schema: Rules, indent: str) -> Iterator[str]:
    for key, rules in schema.items():
        if rules.get("type") == "dict":
            yield _line(f"{indent}{key}:", rules["meta"]["meaning"])
            yield from _lines(rules["schema"], f"{indent}  ")
        else:
            yield _line(f"{indent}{key}: {_example(rules)}", _said(rules))


def _line(text: str, comment: str) -> str:
    return f"{text:44}  # {comment}"


def _example(rules: Rules) -> str:
    """Return an example; of a choice what holds anyway, since any other could contradict the rest of the profile."""
    return str(rules["meta"]["default" if "allowed" in rules else "example"])


def _said(rules: Rules) -> str:
    meta = rules["meta"]
    if "allowed" in rules:
        return f"{meta['meaning']} One of: {', '.join(rules['allowed'])}."
    return str(meta.get("pin", meta["meaning"]))
