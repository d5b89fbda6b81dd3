"""All phases in a row: from the profile that is selected to its artifact."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.artifact.from_profile import contract_of
from compiler.diagnostics import Diagnostic, ProfileError, in_order, quoted_path
from compiler.language.schema import MAX_TEXT
from compiler.resolve.extends import Layer, layers_of, load_chain, merge_chain
from compiler.resolve.overrides import FLAG, Override, apply_override
from compiler.resolve.selection import Selection
from compiler.source.tree import Mapping, plain
from compiler.validate.lint import warnings_of_chain, warnings_of_profile, warnings_of_size, warnings_of_valid
from compiler.validate.validation import validate
from router.artifact.format import MAX_ARTIFACT_BYTES, Artifact, Source, freeze, serialise


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled profile: the chain it came from, the merged tree, and the artifact."""

    chain: tuple[Layer, ...]
    profile: Mapping
    artifact: Artifact
    warnings: tuple[Diagnostic, ...]

    def values(self) -> dict[str, Any]:
        """Return the bare values of the merged profile, with the name that holds where none is written."""
        return {**plain(self.profile), "name": self.artifact.name}

    def data(self) -> bytes:
        """Return the bytes of the artifact. Raises ProfileError if no router would read it for its size."""
        data = serialise(self.artifact)
        if len(data) > MAX_ARTIFACT_BYTES:
            message = f"the artifact would have {len(data)} bytes; a router reads at most {MAX_ARTIFACT_BYTES}"
            too_large = Diagnostic("artifact-too-large", message, hint="list fewer or shorter aliases")
            raise ProfileError(too_large, *self.warnings)
        return data


def compile_profile(selection: Selection, override: Override | None = None) -> Compilation:
    """Compile a profile. Raises ProfileError with everything that is wrong with it."""
    return compile_chain(load_chain(selection), override)


def compile_chain(chain: tuple[Layer, ...], override: Override | None = None) -> Compilation:
    """Compile a chain that is loaded. Raises ProfileError with everything that is wrong with it, warnings included."""
    profile = merge_chain(chain)
    empty = {path: problem for layer in chain for path, problem in layer.empty.items()}
    warnings = [*warnings_of_chain(chain), *warnings_of_profile(profile)]
    try:
        if override is not None:
            profile = apply_override(profile, override)
        validate(profile, empty)
        artifact = _frozen(chain, profile, override)
    except ProfileError as error:
        faulty = {diagnostic.at for diagnostic in error.diagnostics}
        others = [each for each in warnings if each.at not in faulty]
        raise ProfileError(*error.diagnostics, *others) from error
    warnings += [*warnings_of_valid(profile), *warnings_of_size(len(serialise(artifact)))]
    return Compilation(chain, profile, artifact, in_order(warnings))


def _frozen(chain: tuple[Layer, ...], profile: Mapping, override: Override | None) -> Artifact:
    values = plain(profile)
    name = values["name"] if "name" in values else _default_name(chain[0])
    return freeze(name, contract_of(values), _sources(chain, override))


def _sources(chain: tuple[Layer, ...], override: Override | None) -> tuple[Source, ...]:
    files = tuple(Source(layer.kind, layer.name, layer.sha256) for layer in layers_of(chain))
    return files if override is None else (*files, Source("flag", FLAG, override.sha256()))


def _default_name(root: Layer) -> str:
    name = root.name if root.kind == "preset" else Path(root.name).stem
    if len(name) > MAX_TEXT:
        message = f"the file name {quoted_path(root.name)} is too long to be the profile's name"
        raise ProfileError(Diagnostic("unusable-name", message, hint="set `name` in the profile, or rename the file"))
    return name
