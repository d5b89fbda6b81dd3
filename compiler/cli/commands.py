"""What the commands do: each takes its parsed arguments and returns its exit code."""

import os
import sys
from argparse import Namespace

from compiler.artifact.to_profile import profile_of, with_defaults
from compiler.cli.output import refuse_overwriting, write
from compiler.cli.overwrite import reject_replacing
from compiler.diagnostics import CommandError, ProfileError, visible
from compiler.diagnostics.formats import text_of
from compiler.docs.json_schema import json_schema_bytes
from compiler.pipeline import Compiled, compile_profile
from compiler.resolve.overrides import Override
from compiler.resolve.presets import describe, preset_names
from compiler.resolve.selection import ENVIRONMENT_NAME, NOBODY, SYSTEM_PROFILE, Named, Selected, UsageError, select
from compiler.resolve.streams import artifact_of, with_content
from compiler.source.yaml_writer import yaml_of
from router.artifact.format import Artifact, ArtifactError, serialise

__all__ = [
    "ArtifactError",
    "CommandError",
    "ProfileError",
    "UsageError",
    "build",
    "loaded_by",
    "override_of",
    "presets",
    "print_profile",
    "printed",
    "rendered",
    "schema",
    "selected_by",
    "selected_from",
]


def build(arguments: Namespace) -> int:
    """Write the artifact of a profile; from an artifact, check it and write it again."""
    if arguments.print_profile:
        return print_profile(arguments)
    loaded = loaded_by(arguments)
    if isinstance(loaded, Artifact):
        reject_replacing(arguments.output, loaded.name, force=arguments.force)
        write(serialise(loaded), arguments.output)
        return 0
    _refuse_own_source(loaded, arguments.output)
    reject_replacing(arguments.output, loaded.artifact.name, force=arguments.force)
    write(loaded.data(), arguments.output)
    if arguments.output != "-":
        _say(f"{arguments.output}: {loaded.artifact.name} ({loaded.artifact.digest})")
    if loaded.warnings and sys.stderr is not None:
        sys.stderr.write(text_of(loaded.warnings))
    return 0


def print_profile(arguments: Namespace) -> int:
    """Write the merged profile as YAML; from an artifact, a profile that means the same."""
    selected = selected_by(arguments)
    loaded = _loaded(selected, override_of(arguments))
    if isinstance(loaded, Artifact):
        if arguments.origin:
            raise UsageError("--origin needs a profile: an artifact does not know where its values were set")
        refuse_overwriting(arguments.output, [selected.name], "the artifact itself")
        write(yaml_of(profile_of(loaded)), arguments.output)
        return 0
    _refuse_own_source(loaded, arguments.output)
    write(printed(loaded, origin=arguments.origin, defaults=arguments.defaults), arguments.output)
    return 0


def printed(compiled: Compiled, *, origin: bool, defaults: bool) -> bytes:
    """Return a compiled profile as YAML that compiles to the same contract and name."""
    values = with_defaults(compiled.values(), compiled.artifact) if defaults else compiled.values()
    if not origin:
        return yaml_of(values)
    from compiler.resolve.origins import yaml_with_origins  # noqa: PLC0415 - no other command waits for it

    return yaml_with_origins(values, compiled.profile)


def presets(_: Namespace) -> int:
    """List the presets, each with what it is."""
    names = preset_names()
    width = max(map(len, names), default=0)
    write("".join(f"{name:{width}}  {describe(name)}\n" for name in names).encode(), "-")
    return 0


def schema(arguments: Namespace) -> int:
    """Write the JSON Schema of the profile language."""
    write(json_schema_bytes(preset_names()), arguments.output)
    return 0


def rendered(error: ProfileError) -> str:
    """Return the diagnostics of an error as text, and their count."""
    return text_of(error.diagnostics)


def selected_by(arguments: Namespace) -> Selected:
    """Return the profile that the command line or the environment names. Raises UsageError when it is named twice."""
    return selected_from(Named(arguments.source, arguments.api_profile_file, arguments.api_profile))


def selected_from(named: Named, *, say_default: bool = True) -> Selected:
    """Return the profile that is named, else the one that the environment names. Raises UsageError as `select` does.

    `say_default` False: do not say that it is the default preset, since it will not be looked at.
    """
    selected = select(named, os.environ, SYSTEM_PROFILE)
    if say_default or selected.chosen_by != NOBODY:
        _say_where_from(selected)
    return with_content(selected)


def loaded_by(arguments: Namespace) -> Compiled | Artifact:
    """Return the profile that the command line or the environment names, compiled, or the artifact that it names."""
    override = override_of(arguments)
    return _loaded(selected_by(arguments), override)


def _loaded(selected: Selected, override: Override | None) -> Compiled | Artifact:
    if selected.kind != "artifact":
        return compile_profile(selected, override)
    if override is not None:
        raise UsageError("--override-sampling-params needs a profile: an artifact is frozen")
    return artifact_of(selected)


def override_of(arguments: Namespace) -> Override | None:
    """Return the sampling contract that the command line brings, or None. Raises UsageError for half of one."""
    if arguments.override_sampling_params is None:
        if arguments.sampling_param_conflict is not None:
            raise UsageError("--sampling-param-conflict needs --override-sampling-params")
        return None
    return Override(arguments.override_sampling_params, arguments.sampling_param_conflict or "reject")


def _say_where_from(selected: Selected) -> None:
    """Say which profile is taken when the command line names none, since that depends on the machine."""
    if selected.chosen_by == ENVIRONMENT_NAME:
        _say(f"profile: {selected.name} (from {ENVIRONMENT_NAME})")
    elif selected.chosen_by == NOBODY:
        _say(f"profile: the preset {selected.name}, since none is named")
    elif selected.chosen_by == selected.name:
        _say(f"profile: {selected.name}, since none is named")


def _refuse_own_source(compiled: Compiled, destination: str) -> None:
    refuse_overwriting(destination, [link.path for link in compiled.chain], "a source of this profile")


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{visible(text)}\n")
