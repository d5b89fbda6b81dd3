"""Writes results: to standard output, or to a file that is either the old one or the whole new one."""

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from compiler.diagnostics import CommandError, printable, quoted_path
from compiler.resolve.selection import UsageError


class OutputError(CommandError):
    """A result cannot be written; the message is one line."""


def reject_overwriting(destination: str, files: Iterable[Path | str], which: str) -> None:
    """Raise UsageError when a result would be written over one of the files that it comes from; `which` says which."""
    if destination != "-" and os.path.realpath(destination) in map(os.path.realpath, files):
        raise UsageError(f"{printable(destination)} is {which}: write somewhere else")


def write(data: bytes, destination: str) -> None:
    """Write a result to a file, or to standard output when the destination is `-`.

    Raises OutputError, and BrokenPipeError when the reader of standard output has gone.
    """
    if destination == "-":
        _to_standard_output(data)
        return
    # A link keeps pointing where it points; what it points at is replaced.
    path = Path(os.path.realpath(destination))
    try:
        _to_file(data, path)
    except OSError as error:
        raise OutputError(f"cannot write {quoted_path(destination)}: {error.strerror or error}") from error


def _to_standard_output(data: bytes) -> None:
    if sys.stdout is None:
        raise OutputError("standard output is closed")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def _to_file(data: bytes, path: Path) -> None:
    mode = _mode_of(path)
    if mode is not None and not stat.S_ISREG(mode):
        # A directory fails here with its own reason; a pipe or a device is written, never replaced.
        with path.open("wb") as file:
            file.write(data)
        return
    temporary = path.with_name(f".profilec.{os.getpid()}.tmp")
    try:
        _write_through(data, temporary, mode)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _write_through(data: bytes, temporary: Path, mode: int | None) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, stat.S_IMODE(mode))
        file.write(data)
        file.flush()
        os.fsync(descriptor)
