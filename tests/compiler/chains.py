"""Chains of profiles without files: from bare values, and as hypothesis draws them."""

import json
from hashlib import sha256
from pathlib import Path

from hypothesis import strategies as st

from compiler.diagnostics import Document, Location
from compiler.language.schema import SCHEMA
from compiler.resolve.extends import Layer
from compiler.source.tree import Mapping
from compiler.source.yaml_reader import read_yaml
from router.contract.schema.fields import SAMPLING_FIELDS
from tests.compiler.profiles import profiles

NOTHING = Mapping((), Location(Document("", ""), 1, 1, 1, 1))

_SECTIONS = [key for key in SCHEMA if key != "extends"]
_KEYS = [
    *("models.aliases", "models.respond_as", "limits.max_body_bytes", "limits.max_images", "output.max_tokens"),
    *("sampling.conflict", "sampling.params", "errors.bad_request_type"),
    *(f"sampling.params.{name}" for name in SAMPLING_FIELDS),
    *("fields.a", "fields.b.fixed", "checks.tools", "cases.first", "unknown_fields.policy", "response.stream.usage"),
]
_AWKWARD_NAMES = ["a # b.yaml", "é: 月\n.yaml", "'\u2028\".yaml", "preset:x"]


def chain_of(*trees, names=("profile.yaml",)):
    """Return the chain of profiles with these bare values, the child first."""
    layers, extended_at = [], None
    for number, values in enumerate(trees):
        layer = layer_of(json.dumps(values, indent=1).encode(), names[number % len(names)], extended_at)
        layers.append(layer)
        extended_at = Location(Document(layer.name, "extends: it", extended_at), 1, 10, 1, 12)
    return tuple(layers)


def layer_of(data, name="profile.yaml", extended_at=None):
    return Layer("file", name, sha256(data).hexdigest(), Path(name), read_yaml(data, name, extended_at))


def layer_of_values(values):
    return layer_of(json.dumps(values, indent=1).encode())


def _with_null(values, path):
    key, *rest = path.split(".", 1)
    inner = values.get(key) or {}
    return {**values, key: _with_null(inner, rest[0]) if rest else None}


@st.composite
def _children(draw):
    values = draw(profiles)
    for path in draw(st.lists(st.sampled_from(_SECTIONS + _KEYS), max_size=3)):
        values = _with_null(values, path)
    return values


children = _children()
"""Valid profiles with a null here and there, as bare values; laid over each other they are valid as well."""

chains = st.builds(
    lambda trees, names: chain_of(*trees, names=("profile.yaml", *names)),
    st.lists(children, min_size=1, max_size=4),
    st.permutations(_AWKWARD_NAMES),
)
"""Chains that compile."""
