"""`profilec init`: scaffolds a deployment folder that is ready to commit and to run."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Final

from compiler.cli.exit_codes import OK
from compiler.cli.output import write
from compiler.cli.version import release
from compiler.diagnostics import printable
from compiler.docs.json_schema import json_schema_bytes
from compiler.init.examples import commented_examples
from compiler.init.folder import NewFolder
from compiler.language.schema import MAX_TEXT
from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names, preset_path
from compiler.resolve.selection import Selection, UsageError
from compiler.source.yaml_writer import yaml_of

_TEMPLATE: Final = Path(__file__).parent / "template"
_PROFILE: Final = "profile.yaml"
_ARTIFACT: Final = "profile.json"
_SCHEMA: Final = "profile.schema.json"
_FILLED: Final = {
    _PROFILE: "profile.yaml",
    "gunicorn.conf.py": "gunicorn.conf.py",
    "requirements.txt": "requirements.txt",
    ".github/workflows/profile.yml": "workflow.yml",
    "README.md": "README.md",
}
"""The files of a deployment that are filled in from a template, and the template of each."""


def init(arguments: Namespace) -> int:
    """Make the deployment folder, whole or not at all, and list its files."""
    if not arguments.folder:
        raise UsageError("the name of the folder is empty")
    preset_path(arguments.preset, None, "--preset")
    folder = Path(arguments.folder)
    words = _words(folder, arguments.preset)
    with NewFolder(folder, (*_FILLED, _ARTIFACT, _SCHEMA)) as new:
        for name, template in _FILLED.items():
            new.add(name, _filled(template, words))
        new.add(_SCHEMA, json_schema_bytes(preset_names()))
        new.add(_ARTIFACT, compile_profile(Selection("file", str(folder / _PROFILE), "DIR")).data())
    write("".join(f"{printable(str(folder / name))}\n" for name in new.names).encode(), "-")
    if sys.stderr is not None:
        sys.stderr.write(f"{printable(str(folder / 'README.md'))} says how to build, check and run it\n")
    return OK


def _words(folder: Path, preset: str) -> dict[str, str]:
    """Return what is filled into the templates."""
    name = _name(folder)
    version = release()
    parent = compile_profile(Selection("preset", preset, "--preset"))
    return {
        "@NAME@": yaml_of({"name": name}).decode().rstrip("\n"),
        "@TITLE@": name,
        "@PRESET@": preset,
        "@EXAMPLES@": commented_examples(parent.artifact.contract),
        "@REQUIREMENT@": "profilec" if version is None else f"profilec=={version}",
    }


def _filled(template: str, words: dict[str, str]) -> bytes:
    text = (_TEMPLATE / template).read_text(encoding="utf-8")
    for place, word in words.items():
        text = text.replace(place, word)
    return text.encode()


def _name(folder: Path) -> str:
    """Return the name of the profile: that of the folder, where it can serve as one."""
    name = folder.resolve().name
    return name if name.isprintable() and 0 < len(name) <= MAX_TEXT else "profile"
