"""The folder for temporary files, on systems whose usual folders may all be read-only."""

import os
import tempfile
from pathlib import Path
from typing import Final

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - file names there are unique, as in any temporary folder
"""A folder in memory that container runtimes leave writable under a read-only root."""


def temporary_folder() -> Path:
    """Return the system's folder for temporary files (TMPDIR, /tmp, …), else `/dev/shm`.

    The working folder, Python's last resort, is not used: it may be a persistent volume. Raises OSError when no folder
    is writable.
    """
    try:
        found = Path(tempfile.gettempdir())
    except FileNotFoundError:
        if not _is_writable(SHARED_MEMORY):
            raise
        return SHARED_MEMORY
    return SHARED_MEMORY if found == Path.cwd() and _is_writable(SHARED_MEMORY) else found


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
