"""Read sources that can be read only once: standard input and pipes. Their content determines their format."""

import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from compiler.diagnostics import CommandError, quoted_path
from compiler.resolve.selection import STANDARD_INPUT, Selection
from router.artifact.format import MAX_ARTIFACT_BYTES, Artifact, load, read

_MAX_READ_BYTES: Final = MAX_ARTIFACT_BYTES + 1
"""The most bytes that are read of a stream: one more than the largest artifact or profile."""


def with_content(selection: Selection) -> Selection:
    """Return a selection with the content of its stream, which determines whether it is an artifact or a profile.

    Other selections are returned unchanged. Raises CommandError for a stream that cannot be read.
    """
    if selection.kind == "preset" or not is_stream(selection):
        return selection
    content = _read(selection.name)
    return replace(selection, kind="artifact" if looks_like_artifact(content) else "file", content=content)


def is_stream(selection: Selection) -> bool:
    """Return whether a selection is standard input, or a pipe as a shell makes of `<(…)`."""
    if selection.name == STANDARD_INPUT:
        return True
    try:
        mode = Path(selection.name).stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def artifact_of(selection: Selection) -> Artifact:
    """Return the selected artifact. Raises ArtifactError."""
    if selection.content is None:
        return read(Path(selection.name))
    return load(selection.content, selection.display_name)


def looks_like_artifact(content: bytes) -> bool:
    """Return whether bytes are an artifact, possibly an invalid one, and not a profile."""
    return content.lstrip().startswith(b"{") and b'"format_version"' in content


def _read(name: str) -> bytes:
    try:
        if name != STANDARD_INPUT:
            with Path(name).open("rb") as stream:
                return stream.read(_MAX_READ_BYTES)
        if sys.stdin is None:
            raise CommandError("standard input is closed")
        return sys.stdin.buffer.read(_MAX_READ_BYTES)
    except OSError as error:
        raise CommandError(f"cannot read {quoted_path(name)}: {error.strerror or error}") from error
