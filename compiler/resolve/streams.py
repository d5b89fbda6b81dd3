"""Sources that can be read but once, standard input and pipes: read here, and told apart by what they hold."""

import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from compiler.diagnostics import CommandError, named_path
from compiler.resolve.selection import STANDARD_INPUT, Selected
from router.artifact.format import MAX_ARTIFACT_BYTES, Artifact, load, read

_MOST_READ: Final = MAX_ARTIFACT_BYTES + 1
"""Bytes that are read of a stream: enough to see that it is neither an artifact nor a profile, which are no larger."""


def with_content(selected: Selected) -> Selected:
    """Return a selection that holds what its stream holds, and is an artifact or a profile by that.

    Anything but standard input and pipes is returned as it is. Raises CommandError for a stream that cannot be read.
    """
    if selected.kind == "preset" or not is_stream(selected):
        return selected
    content = _read(selected.name)
    return replace(selected, kind="artifact" if looks_like_artifact(content) else "file", content=content)


def is_stream(selected: Selected) -> bool:
    """Tell whether a selection is standard input, or a pipe as a shell makes of `<(…)`."""
    if selected.name == STANDARD_INPUT:
        return True
    try:
        mode = Path(selected.name).stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def artifact_of(selected: Selected) -> Artifact:
    """Return the artifact that is selected. Raises ArtifactError."""
    if selected.content is None:
        return read(Path(selected.name))
    return load(selected.content, selected.shown)


def looks_like_artifact(content: bytes) -> bool:
    """Tell whether bytes are an artifact, if only a broken one, and no profile."""
    return content.lstrip().startswith(b"{") and b'"format_version"' in content


def _read(name: str) -> bytes:
    try:
        if name != STANDARD_INPUT:
            with Path(name).open("rb") as stream:
                return stream.read(_MOST_READ)
        if sys.stdin is None:
            raise CommandError("standard input is closed")
        return sys.stdin.buffer.read(_MOST_READ)
    except OSError as error:
        raise CommandError(f"cannot read {named_path(name)}: {error.strerror or error}") from error
