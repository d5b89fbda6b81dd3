"""The artifact format as JSON Schema (2020-12), for others who read artifacts: derived from its structs."""

import json
from typing import Any, Final

import msgspec

from router.artifact.format import Artifact
from router.artifact.release import FORMAT_VERSION
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.types import OmitDefaults

JsonSchema = dict[str, Any]

_SHA256: Final = "[0-9a-f]{64}"
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
    derived = msgspec.json.schema(Artifact)
    structs = {name: _spelled_out(name, struct) for name, struct in derived["$defs"].items()}
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
