"""`profilec check`: all errors and warnings of profiles, and whether an artifact is up to date with its sources."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable

from compiler.check.drift import drift
from compiler.cli.exit_codes import FAILED, OK
from compiler.cli.loading import override_of, selection_from
from compiler.cli.output import write
from compiler.diagnostics import Diagnostic, ProfileError, in_order, printable, quoted_path
from compiler.diagnostics.formats import counted, github_of, json_of, text_of
from compiler.pipeline import Compilation, compile_profile
from compiler.resolve.overrides import Override
from compiler.resolve.selection import CHOSEN_BY_DEFAULT, Selection, SourceOptions, UsageError
from compiler.resolve.streams import artifact_of, with_content
from router.artifact.format import Artifact, ArtifactError


def check(arguments: Namespace) -> int:
    """Print all errors and warnings of the named profiles, and return 1 if one is an error."""
    override = override_of(arguments)
    selection = _selections(arguments, print_default=arguments.artifact is None or override is not None)
    if arguments.artifact is not None and override is None and selection[0].chosen_by == CHOSEN_BY_DEFAULT:
        found, summary = _check_artifact_alone(arguments.artifact)
    elif arguments.artifact is not None:
        found, summary = _check_artifact(arguments, selection[0], override)
    else:
        found = once_each(diagnostic for each in selection for diagnostic in findings(each, override)[1])
        summary = f"{len(selection)} profile{'' if len(selection) == 1 else 's'} checked: {counted(found)}"
    fails = bool(found) if arguments.strict else _any_error(found)
    if fails and not _any_error(found):
        summary += "; --strict fails for warnings, too"
    _write_report(found, arguments.format, summary)
    return FAILED if fails else OK


def findings(selection: Selection, override: Override | None) -> tuple[Compilation | None, tuple[Diagnostic, ...]]:
    """Compile a profile or read an artifact; return the compilation, if it succeeded, and all diagnostics."""
    if selection.kind == "artifact":
        return None, _unusable(selection, override)[1]
    try:
        compilation = compile_profile(selection, override)
        compilation.data()
    except ProfileError as error:
        return None, error.diagnostics
    return compilation, compilation.warnings


def once_each(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of several profiles: errors first, and what is wrong with a shared parent only once."""
    unique: dict[tuple[str, str, str], Diagnostic] = {}
    for diagnostic in diagnostics:
        unique.setdefault((diagnostic.code, diagnostic.message, str(diagnostic.at)), diagnostic)
    return tuple(sorted(unique.values(), key=lambda diagnostic: diagnostic.severity != "error"))


def _selections(arguments: Namespace, *, print_default: bool) -> list[Selection]:
    sources = arguments.sources or [None]
    named = [SourceOptions(source, arguments.api_profile_file, arguments.api_profile) for source in sources]
    if arguments.artifact is not None and len(named) > 1:
        raise UsageError("--artifact is compared with one profile: name one SOURCE")
    return [selection_from(each, print_default=print_default) for each in named]


def _check_artifact_alone(path: str) -> tuple[tuple[Diagnostic, ...], str]:
    """Return the errors of an artifact without a profile to compare it with, and the summary."""
    artifact, unusable = _read(path, None)
    if artifact is None:
        return unusable, counted(unusable)
    good = f"{quoted_path(path)} is a valid artifact: {printable(artifact.name)} ({artifact.digest})"
    return (), f"{good}; no source is named to compare it with"


def _check_artifact(
    arguments: Namespace, selection: Selection, override: Override | None
) -> tuple[tuple[Diagnostic, ...], str]:
    """Return all diagnostics of a profile and of an artifact that should contain its contract, and the summary."""
    if selection.kind == "artifact":
        raise UsageError("--artifact is compared with a profile: SOURCE is an artifact itself")
    compilation, problems = findings(selection, override)
    artifact, unusable = _read(arguments.artifact, None)
    found = [*problems, *unusable]
    if compilation is None or artifact is None:
        return in_order(found), counted(found)
    rebuild = _rebuild_command(arguments, renamed=artifact.name != compilation.artifact.name)
    found += drift(artifact, compilation, arguments.artifact, rebuild)
    if _any_error(found):
        if selection.chosen_by != selection.name:
            return in_order(found), counted(found)
        compared = f"{quoted_path(arguments.artifact)} was compared with {printable(selection.name)}"
        return in_order(found), f"{counted(found)}; {compared}, since no source is named"
    verdict = f"{quoted_path(arguments.artifact)} is up to date with {printable(selection.name)} ({artifact.digest})"
    return in_order(found), f"{verdict}; {counted(found)}" if found else verdict


def _read(path: str, override: Override | None) -> tuple[Artifact | None, tuple[Diagnostic, ...]]:
    return _unusable(with_content(Selection("artifact", path, "--artifact")), override)


def _unusable(selection: Selection, override: Override | None) -> tuple[Artifact | None, tuple[Diagnostic, ...]]:
    if override is not None:
        raise UsageError("--override-sampling-params needs a profile: an artifact is frozen")
    try:
        return artifact_of(selection), ()
    except ArtifactError as error:
        return None, (Diagnostic("unusable-artifact", str(error)),)


def _rebuild_command(arguments: Namespace, *, renamed: bool) -> str:
    """Return the `profilec build` command that rebuilds the artifact from the sources of this command line."""
    flags = ("api_profile_file", "api_profile", "override_sampling_params", "sampling_param_conflict")
    given = {flag: getattr(arguments, flag) for flag in flags}
    words = [word for flag, value in given.items() if value for word in (f"--{flag.replace('_', '-')}", value)]
    words += ["--force"] if renamed else []
    return shlex.join(["profilec", "build", *arguments.sources, *words, "-o", arguments.artifact])


def _any_error(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.severity == "error" for diagnostic in diagnostics)


def _write_report(found: tuple[Diagnostic, ...], form: str, summary: str) -> None:
    """Write the report for programs to standard output, and text to standard error."""
    if form != "text":
        write(json_of(found) if form == "json" else github_of(found), "-")
    if sys.stderr is not None:
        sys.stderr.write(text_of(found, summary) if form == "text" else f"{summary}\n")
        sys.stderr.flush()
