"""The commands `presets` and `schema`, which compile nothing, so this module imports no compiler."""

from argparse import Namespace

from compiler.cli.exit_codes import OK
from compiler.cli.output import write
from compiler.resolve.presets import describe, preset_names


def presets(_: Namespace) -> int:
    """List the presets, each with a one-line description."""
    names = preset_names()
    width = max(map(len, names), default=0)
    write("".join(f"{name:{width}}  {describe(name)}\n" for name in names).encode(), "-")
    return OK


def schema(arguments: Namespace) -> int:
    """Write the JSON Schema of the profile language."""
    from compiler.docs.json_schema import json_schema_bytes  # noqa: PLC0415 - slow to import, for this command alone

    write(json_schema_bytes(preset_names()), arguments.output)
    return OK
