"""The commands `build` and `print`: each takes its parsed arguments and returns its exit code."""

import sys
from argparse import Namespace

from compiler.artifact.to_profile import profile_of, with_defaults
from compiler.cli.exit_codes import OK
from compiler.cli.loading import load_selection, load_source, override_of, selection_of
from compiler.cli.output import reject_overwriting, write
from compiler.cli.overwrite import reject_replacing
from compiler.diagnostics import printable
from compiler.diagnostics.formats import text_of
from compiler.pipeline import Compilation
from compiler.resolve.extends import layers_of
from compiler.resolve.selection import UsageError
from compiler.source.yaml_writer import yaml_of
from router.artifact.format import Artifact, serialise


def build(arguments: Namespace) -> int:
    """Write the artifact of a profile; from an artifact, check it and write it again."""
    if arguments.print_profile:
        return print_profile(arguments)
    loaded = load_source(arguments)
    if isinstance(loaded, Artifact):
        reject_replacing(arguments.output, loaded.name, force=arguments.force)
        write(serialise(loaded), arguments.output)
        return OK
    _reject_own_source(loaded, arguments.output)
    reject_replacing(arguments.output, loaded.artifact.name, force=arguments.force)
    write(loaded.data(), arguments.output)
    if arguments.output != "-" and sys.stderr is not None:
        sys.stderr.write(f"{printable(f'{arguments.output}: {loaded.artifact.name} ({loaded.artifact.digest})')}\n")
    if loaded.warnings and sys.stderr is not None:
        sys.stderr.write(text_of(loaded.warnings))
    return OK


def print_profile(arguments: Namespace) -> int:
    """Write the merged profile as YAML; from an artifact, an equivalent profile."""
    selection = selection_of(arguments)
    loaded = load_selection(selection, override_of(arguments))
    if isinstance(loaded, Artifact):
        if arguments.origin:
            raise UsageError("--origin needs a profile: an artifact does not record where its values were set")
        reject_overwriting(arguments.output, [selection.name], "the artifact itself")
        write(yaml_of(profile_of(loaded)), arguments.output)
        return OK
    _reject_own_source(loaded, arguments.output)
    write(profile_yaml(loaded, origin=arguments.origin, defaults=arguments.defaults), arguments.output)
    return OK


def profile_yaml(compilation: Compilation, *, origin: bool, defaults: bool) -> bytes:
    """Return a compiled profile as YAML that compiles to the same contract and name."""
    values = compilation.values()
    if defaults:
        values = with_defaults(values, compilation.artifact)
    if not origin:
        return yaml_of(values)
    from compiler.resolve.origins import yaml_with_origins  # noqa: PLC0415 - no other command needs it

    return yaml_with_origins(values, compilation.profile)


def _reject_own_source(compilation: Compilation, destination: str) -> None:
    reject_overwriting(destination, [layer.path for layer in layers_of(compilation.chain)], "a source of this profile")
