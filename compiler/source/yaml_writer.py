"""Writes a profile as YAML that the reader reads back unchanged."""

import re
from typing import Any

import yaml

from compiler.diagnostics import MAX_SHOWN_VALUE, printable
from compiler.language.schema import SAMPLING_PARAMS, SCHEMA, Rules
from compiler.source.scalars import resolve

_TAGS = {
    bool: "tag:yaml.org,2002:bool",
    int: "tag:yaml.org,2002:int",
    float: "tag:yaml.org,2002:float",
    str: "tag:yaml.org,2002:str",
    type(None): "tag:yaml.org,2002:null",
}
_BETTER_ESCAPED = re.compile("[\t\n\r\x85\u2028\u2029\ufeff]")


def yaml_of(profile: dict[str, Any]) -> bytes:
    """Return the YAML of a profile's bare values, its keys in the order of the profile language."""
    return _dumped(ordered(profile)).encode()


def in_one_line(value: Any) -> str:  # noqa: ANN401 - whatever a profile holds
    """Return a value as one line of YAML for a message."""
    return printable(_dumped([value], in_one_line=True).rstrip("\n")[1:-1])


def inline(value: Any) -> str:  # noqa: ANN401 - whatever a profile holds
    """Return a value as one line of YAML for a message, cut to MAX_SHOWN_VALUE characters."""
    text = in_one_line(value)
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[: MAX_SHOWN_VALUE - 3]}..."


def ordered(profile: dict[str, Any]) -> dict[str, Any]:
    """Return a profile's bare values with their keys in the order of the profile language."""
    return _ordered(profile, SCHEMA)


def _dumped(value: object, *, in_one_line: bool = False) -> str:
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=in_one_line,
        allow_unicode=True,
        width=float("inf"),
    )
    return text


def _ordered(values: dict[str, Any], schema: Rules) -> dict[str, Any]:
    """Return values with the keys of a schema first, in its order, then any others in their own."""
    if schema is SAMPLING_PARAMS:
        return {key: values[key] for key in schema if key in values}
    rest = [key for key in values if key not in schema]
    return {key: _inside(values[key], schema.get(key, {})) for key in [*filter(values.__contains__, schema), *rest]}


def _inside(value: Any, rules: Rules) -> Any:  # noqa: ANN401 - whatever a profile holds
    """Return a value with the keys of the mappings in it in order, as far as its rules know them."""
    if isinstance(value, list):
        return [_inside(item, rules.get("schema", {})) if isinstance(item, dict) else item for item in value]
    if not isinstance(value, dict):
        return value
    for branch in (rules, *rules.get("anyof", ())):
        if branch.get("type") == "dict" and "schema" in branch:
            return _ordered(value, branch["schema"])
        if "valuesrules" in branch:
            return {key: _inside(inner, branch["valuesrules"]) for key, inner in value.items()}
    return value


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper, but what a plain scalar would mean is decided by YAML 1.2, as in our reader."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:  # noqa: ANN401 - PyYAML's signature
        """Return the tag that our reader would give a plain scalar."""
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        try:
            return _TAGS[type(resolve(value))]
        except ValueError:
            return _TAGS[float]

    def check_simple_key(self) -> bool:
        """Return whether a key can be written on the line of its value: every key of one line can."""
        fits: bool = super().check_simple_key()
        return fits or (isinstance(self.event, yaml.ScalarEvent) and self._is_one_line())

    def _is_one_line(self) -> bool:
        return self.analysis is not None and not self.analysis.multiline

    def is_more_in_yaml_1_1(self, text: str) -> bool:
        """Return whether readers of YAML 1.1 read a plain scalar as another type than string, like `yes` or `12:30`."""
        tag: str = super().resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        return tag != _TAGS[str]

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - PyYAML's signature
        """Write no anchors and aliases."""
        return True


def _represent_float(dumper: _Dumper, value: float) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TAGS[float], repr(value))


def _represent_string(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = '"' if _BETTER_ESCAPED.search(value) else "'" if dumper.is_more_in_yaml_1_1(value) else None
    return dumper.represent_scalar(_TAGS[str], value, style=style)


_Dumper.add_representer(float, _represent_float)
_Dumper.add_representer(str, _represent_string)
