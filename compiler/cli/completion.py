"""Shell completion: a script for the shell to source, in which commands, options, presets and files are completed."""

import argparse
from collections.abc import Iterator
from typing import Final

import shtab

from compiler.resolve.presets import preset_names

_PRESETS: Final = {"bash": "_profilec_presets", "zsh": "_profilec_presets"}
_SOURCES: Final = {"bash": "_profilec_sources", "zsh": "_profilec_sources"}
_KINDS: Final = {
    "SOURCE": _SOURCES,
    "A": _SOURCES,
    "B": _SOURCES,
    "REQUEST": shtab.FILE,
    "NAME": _PRESETS,
    "FILE": shtab.FILE,
    "PATH": shtab.FILE,
    "DIR": shtab.DIRECTORY,
}
"""What completes an argument, by how the help calls it."""

_PREAMBLES: Final = {
    "bash": """
_profilec_presets() { compgen -W "@PRESETS@" -- "$1"; }
_profilec_sources() { _profilec_presets "$1"; _shtab_compgen_files "$1"; }
""",
    "zsh": """
_profilec_presets() { _values preset @PRESETS@ }
_profilec_sources() { _alternative 'presets:preset:(@PRESETS@)' 'files:file:_files' }
""",
}


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script of a shell; the presets stand in it, so that the Tab key waits for nothing."""
    for action in _actions(parser):
        if action.metavar in _KINDS:
            setattr(action, "complete", _KINDS[action.metavar])  # noqa: B010 - shtab looks for it there
    preamble = _PREAMBLES[shell].replace("@PRESETS@", " ".join(preset_names()))
    return f"{shtab.complete(parser, shell=shell, preamble=preamble)}\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list its arguments
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                yield from _actions(command)
