"""What a command may replace.

A build: nothing, an empty file, or an artifact of the same name, even an invalid one. A probe: nothing, an empty file,
or a draft of a probe.
"""

import json
import re
from pathlib import Path
from typing import Final

from compiler.diagnostics import CommandError, quoted, quoted_path
from router.artifact.format import read_bytes

_NAME_LINE: Final = re.compile(r'^  "name": (".*"),?$', re.MULTILINE)
"""The line of a name in an artifact as it is written, for one that is not JSON any more, as after a merge conflict."""

_HEADER_BYTES: Final = 1000
_WHAT_TO_DO: Final = "write somewhere else, or replace it with --force"


def reject_replacing(destination: str, name: str, *, force: bool) -> None:
    """Raise CommandError where the artifact `name` would replace another one, or a file that is none, without force.

    Only a regular file can be replaced: a pipe or a device is written to, and writing to a folder fails anyway.
    """
    path = Path(destination)
    if force or destination == "-" or not path.is_file():
        return
    data = read_bytes(path)
    if not data.strip():
        return
    names = _names_in(data)
    if not names:
        raise CommandError(f"{quoted_path(destination)} is not an artifact: {_WHAT_TO_DO}")
    others = [other for other in names if other != name]
    if others:
        holds = f"{quoted_path(destination)} is the artifact of {quoted(others[0])}, not of {quoted(name)}"
        raise CommandError(f"{holds}: {_WHAT_TO_DO}")


def reject_replacing_profile(destination: str, mark: str, *, force: bool) -> None:
    """Raise CommandError if a draft would replace a file that is no draft, without force.

    `mark` is a text that the header of every draft contains.
    """
    path = Path(destination)
    if force or destination == "-" or not path.is_file():
        return
    data = path.read_bytes()
    if data.strip() and mark.encode() not in data[:_HEADER_BYTES]:
        raise CommandError(f"{quoted_path(destination)} is not a draft of a probe: {_WHAT_TO_DO}")


def _names_in(data: bytes) -> list[str]:
    """Return the names that an artifact has: one, or those of both sides of a merge; none if it is not an artifact."""
    text = data.decode(errors="replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        found = _NAME_LINE.findall(text.replace("\r\n", "\n")) if '"format_version"' in text else []
        return [name for name in map(_text, found) if name is not None]
    name = value.get("name") if isinstance(value, dict) and "format_version" in value else None
    return [name] if isinstance(name, str) else []


def _text(written: str) -> str | None:
    try:
        value = json.loads(written)
    except ValueError:
        return None
    return value if isinstance(value, str) else None
