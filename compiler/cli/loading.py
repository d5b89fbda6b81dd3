"""Reads the profile or artifact that a command line names, and renders the errors of a profile."""

import os
import sys
from argparse import Namespace

from compiler.diagnostics import ProfileError, printable
from compiler.diagnostics.formats import text_of
from compiler.pipeline import Compilation, compile_profile
from compiler.resolve.overrides import Override
from compiler.resolve.selection import (
    CHOSEN_BY_DEFAULT,
    ENVIRONMENT_NAME,
    SYSTEM_PROFILE,
    Selection,
    SourceOptions,
    UsageError,
    select,
)
from compiler.resolve.streams import artifact_of, with_content
from router.artifact.format import Artifact


def selection_of(arguments: Namespace) -> Selection:
    """Return the profile that the command line or the environment names. Raises UsageError when it is named twice."""
    return selection_from(SourceOptions(arguments.source, arguments.api_profile_file, arguments.api_profile))


def selection_from(options: SourceOptions, *, print_default: bool = True) -> Selection:
    """Return the profile that options name, else the one that the environment names. Raises UsageError like `select`.

    `print_default` False: do not print that the default preset was chosen, since the caller will not use it.
    """
    selection = select(options, os.environ, SYSTEM_PROFILE)
    if print_default or selection.chosen_by != CHOSEN_BY_DEFAULT:
        _print_choice(selection)
    return with_content(selection)


def load_source(arguments: Namespace) -> Compilation | Artifact:
    """Return the profile that the command line or the environment names, compiled, or the artifact that it names."""
    override = override_of(arguments)
    return load_selection(selection_of(arguments), override)


def load_selection(selection: Selection, override: Override | None) -> Compilation | Artifact:
    """Compile the selected profile, or read the selected artifact. Raises UsageError for an artifact with an override.

    Raises ProfileError and ArtifactError when the source is not valid.
    """
    if selection.kind != "artifact":
        return compile_profile(selection, override)
    if override is not None:
        raise UsageError("--override-sampling-params needs a profile: an artifact is frozen")
    return artifact_of(selection)


def override_of(arguments: Namespace) -> Override | None:
    """Return the sampling contract of the command line, or None. Raises UsageError when its first option is missing."""
    if arguments.override_sampling_params is None:
        if arguments.sampling_param_conflict is not None:
            raise UsageError("--sampling-param-conflict needs --override-sampling-params")
        return None
    return Override(arguments.override_sampling_params, arguments.sampling_param_conflict or "reject")


def render_error(error: ProfileError) -> str:
    """Return the diagnostics of an error as text, and their count."""
    return text_of(error.diagnostics)


def _print_choice(selection: Selection) -> None:
    """Print which profile is used when the command line names none, because the choice depends on the machine."""
    if selection.chosen_by == ENVIRONMENT_NAME:
        _report(f"profile: {selection.name} (from {ENVIRONMENT_NAME})")
    elif selection.chosen_by == CHOSEN_BY_DEFAULT:
        _report(f"profile: the preset {selection.name}, since none is named")
    elif selection.chosen_by == selection.name:
        _report(f"profile: {selection.name}, since none is named")


def _report(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{printable(text)}\n")
