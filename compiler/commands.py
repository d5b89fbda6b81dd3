"""What the commands do: each takes its parsed arguments and returns its exit code."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from compiler.compilation import Compiled, compile_profile
from compiler.diagnostics import CommandError, ProfileError, render, visible
from compiler.output import write
from compiler.overrides import Override
from compiler.presets import describe, preset_names
from compiler.printing import profile_of, yaml_of
from compiler.selection import ENVIRONMENT_NAME, SYSTEM_PROFILE, Named, Selected, UsageError, select
from router.artifact import Artifact, ArtifactError, read, serialise

__all__ = [
    "ArtifactError",
    "CommandError",
    "ProfileError",
    "UsageError",
    "build",
    "loaded_by",
    "presets",
    "print_profile",
    "rendered",
    "selected_by",
]


def build(arguments: Namespace) -> int:
    """Write the artifact of a profile; from an artifact, check it and write it again."""
    if arguments.print_profile:
        return print_profile(arguments)
    loaded = loaded_by(arguments)
    if isinstance(loaded, Artifact):
        write(serialise(loaded), arguments.output)
        return 0
    _refuse_own_source(loaded, arguments.output)
    write(loaded.data(), arguments.output)
    return 0


def print_profile(arguments: Namespace) -> int:
    """Write the merged profile as YAML; from an artifact, a profile that means the same."""
    loaded = loaded_by(arguments)
    if isinstance(loaded, Artifact):
        write(yaml_of(profile_of(loaded)), arguments.output)
        return 0
    _refuse_own_source(loaded, arguments.output)
    write(yaml_of(loaded.values()), arguments.output)
    return 0


def presets(_: Namespace) -> int:
    """List the presets, each with what it is."""
    names = preset_names()
    width = max(map(len, names), default=0)
    write("".join(f"{name:{width}}  {describe(name)}\n" for name in names).encode(), "-")
    return 0


def rendered(error: ProfileError, limit: int) -> str:
    """Return all diagnostics of an error as text, at most `limit` of them in full, and their count."""
    count = len(error.diagnostics)
    blocks = [render(diagnostic) for diagnostic in error.diagnostics[:limit]]
    more = f", of which {limit} are shown" if count > limit else ""
    blocks.append(f"{count} error{'s' if count > 1 else ''}{more}\n")
    return "\n".join(blocks)


def selected_by(arguments: Namespace) -> Selected:
    """Return the profile that the command line or the environment names. Raises UsageError when it is named twice."""
    named = Named(arguments.source, arguments.api_profile_file, arguments.api_profile)
    selected = select(named, os.environ, SYSTEM_PROFILE)
    _say_where_from(selected)
    return selected


def loaded_by(arguments: Namespace) -> Compiled | Artifact:
    """Return the profile that the command line or the environment names, compiled, or the artifact that it names."""
    override = _override(arguments)
    selected = selected_by(arguments)
    if selected.kind != "artifact":
        return compile_profile(selected, override)
    if override is not None:
        raise UsageError("--override-sampling-params needs a profile: an artifact is frozen")
    return read(Path(selected.name))


def _override(arguments: Namespace) -> Override | None:
    if arguments.override_sampling_params is None:
        if arguments.sampling_param_conflict is not None:
            raise UsageError("--sampling-param-conflict needs --override-sampling-params")
        return None
    return Override(arguments.override_sampling_params, arguments.sampling_param_conflict or "reject")


def _say_where_from(selected: Selected) -> None:
    """Say which profile is taken when the command line names none, since that depends on the machine."""
    if selected.chosen_by == ENVIRONMENT_NAME:
        _say(f"profile: {selected.name} (from {ENVIRONMENT_NAME})")
    elif selected.chosen_by == "default":
        _say(f"profile: the preset {selected.name}, since none is named")
    elif selected.chosen_by == selected.name:
        _say(f"profile: {selected.name}, since none is named")


def _refuse_own_source(compiled: Compiled, destination: str) -> None:
    if destination == "-":
        return
    for link in compiled.chain:
        if os.path.realpath(link.path) == os.path.realpath(destination):
            raise UsageError(f"{visible(destination)} is a source of this profile: write somewhere else")


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{visible(text)}\n")
