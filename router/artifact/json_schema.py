"""The artifact format as JSON Schema (2020-12), for others who read artifacts: derived from its structs."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import msgspec

from router.artifact.cases import StoredCases
from router.artifact.format import Artifact
from router.artifact.release import FORMAT_VERSION
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.types import OmitDefaults

JsonSchema = dict[str, Any]

_SHA256: Final = "[0-9a-f]{64}"
_REF: Final = "#/$defs/"
_NARROWER: Final[dict[tuple[str, str], JsonSchema]] = {
    ("Artifact", "format_version"): {"const": FORMAT_VERSION},
    ("Artifact", "digest"): {"pattern": f"^sha256:{_SHA256}$"},
    ("Source", "kind"): {"enum": ["preset", "file", "flag"]},
    ("Source", "sha256"): {"pattern": f"^{_SHA256}$"},
    ("Sampling", "params"): {"propertyNames": {"enum": list(SAMPLING_FIELDS)}},
}
"""What holds of a member beyond its type."""


def artifact_schema() -> JsonSchema:
    """Return the JSON Schema of an artifact. It allows no other members."""
    [derived, _], structs = msgspec.json.schema_components([Artifact, StoredCases], ref_template=_REF + "{name}")
    stored = structs.pop("StoredCases")["properties"]
    structs["Contract"]["properties"] |= stored
    del structs["When"]["properties"]["also"]  # only combinations have it, and they are not stored
    structs = {name: _spelled_out(name, struct) for name, struct in structs.items() if name != "Case"}
    changes = {f"{name}Changes": _changes_of(structs[name]) for name in _reached_from("Sections", structs)}
    for name in ("CaseDifference", "CombinationDifference"):
        structs[name]["properties"]["changes"] = {"$ref": f"{_REF}SectionsChanges"}
    del structs["Sections"]
    structs |= changes
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Artifact of format {FORMAT_VERSION}",
        "$ref": derived["$ref"],
        "$defs": structs,
    }


def artifact_schema_bytes() -> bytes:
    """Return the JSON Schema of an artifact as the bytes of a file."""
    return f"{json.dumps(artifact_schema(), indent=2)}\n".encode()


def _spelled_out(name: str, struct: JsonSchema) -> JsonSchema:
    members = {
        member: {**_plain(schema), **_NARROWER.get((name, member), {})}
        for member, schema in struct["properties"].items()
    }
    return {
        **struct,
        "properties": members,
        "required": struct.get("required", []) if name in _STATED else list(members),
    }


def _names_of(kind: type) -> set[str]:
    return {kind.__name__}.union(*map(_names_of, kind.__subclasses__()))


_STATED: Final = frozenset(_names_of(OmitDefaults))
"""The structs whose members an artifact omits unless a profile states them."""


def _plain(schema: JsonSchema) -> JsonSchema:
    """Return a schema without defaults, which never apply here, and without what only OpenAPI knows."""
    kept = {keyword: value for keyword, value in schema.items() if keyword not in {"default", "discriminator"}}
    return {keyword: _plain(value) if isinstance(value, dict) else value for keyword, value in kept.items()}


def _reached_from(name: str, structs: dict[str, JsonSchema]) -> list[str]:
    """Return the names of the structs that a struct refers to, at any depth, itself included."""
    reached = [name]
    for each in reached:
        found = [ref.removeprefix(_REF) for ref in _references(structs[each]) if ref.removeprefix(_REF) not in reached]
        reached += dict.fromkeys(found)
    return reached


def _references(schema: Any) -> Iterator[str]:  # noqa: ANN401 - a part of a schema
    if isinstance(schema, dict):
        yield from (value for key, value in schema.items() if key == "$ref")
        yield from chain.from_iterable(map(_references, schema.values()))
    elif isinstance(schema, list):
        yield from chain.from_iterable(map(_references, schema))


def _changes_of(struct: JsonSchema) -> JsonSchema:
    """Return the schema of changes of a struct: some of its members, each changed in turn, or null."""
    changed = {
        member: {"anyOf": [_with_changes(schema), {"type": "null"}]} for member, schema in struct["properties"].items()
    }
    return {**struct, "properties": changed, "required": []}


def _with_changes(schema: Any) -> Any:  # noqa: ANN401 - a part of a schema
    if isinstance(schema, list):
        return [_with_changes(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _with_changes(value) for key, value in schema.items()}
    if "$ref" in changed:
        changed["$ref"] += "Changes"
    if isinstance(changed.get("additionalProperties"), dict):
        # A free key is deleted by a null.
        changed["additionalProperties"] = {"anyOf": [changed["additionalProperties"], {"type": "null"}]}
    return changed
