"""Makes a folder with all of its files or none; existing files are never replaced."""

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from compiler.diagnostics import CommandError, printable, quoted_path


class FolderError(CommandError):
    """The folder cannot be made; the message is one line, and nothing was left behind."""


class NewFolder:
    """Makes the files of a folder within a `with` block; if the block fails, everything that it made is removed."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.names = names
        self._folder = folder
        self._undo = ExitStack()

    def add(self, name: str, data: bytes) -> None:
        """Make one of the files, and the folders above it."""
        path = self._folder / name
        self._make_folder(path.parent)
        with path.open("xb") as file:
            self._undo.callback(_forget, path.unlink)
            file.write(data)

    def _make_folder(self, path: Path) -> None:
        if os.path.lexists(path):
            return
        self._make_folder(path.parent)
        path.mkdir()
        self._undo.callback(_forget, path.rmdir)

    def __enter__(self) -> Self:
        """Raise FolderError if one of the files is there already."""
        taken = [name for name in self.names if os.path.lexists(self._folder / name)]
        if taken:
            there = ", ".join(taken)
            raise FolderError(
                f"{quoted_path(str(self._folder))} already contains {there}, and existing files are not overwritten"
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Keep what was made, or undo it; an OSError becomes a FolderError."""
        if error is None:
            self._undo.pop_all()
            return
        self._undo.close()
        if isinstance(error, OSError):
            where = quoted_path(str(error.filename or self._folder))
            raise FolderError(f"cannot write {where}: {printable(error.strerror or str(error))}") from error


def _forget(remove: Callable[[], None]) -> None:
    with suppress(OSError):
        remove()
