"""The folder in which worker processes share their metrics: made by the master, and kept small while workers die.

prometheus_client lets each process write files of its own there, and whoever is asked adds them all up. It finds the
folder in the environment, when it is imported.
"""

import atexit
import fcntl
import importlib
import logging
import mmap
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from router.runtime.temporary import temporary_folder

VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
PREFIX: Final = "router-metrics-"
DEAD: Final = "dead"
"""Stands in file names for the process id of all workers that have died."""
MAX_TRIES: Final = 100
PAUSE_SECONDS: Final = 0.01
RESERVED_BYTES: Final = 512 * 1024
"""Room for all label sets that there are, of one kind of metric, several times over."""

_LOCK: Final = "lock"
_SUMMED: Final = ("counter", "histogram")
_GAUGES: Final = ("livesum", "livemin", "livemax")
_COUNTER = struct.Struct("q")
_MERGES = mmap.mmap(-1, _COUNTER.size)
"""How often a burial began or ended; odd while one is under way."""
_LOG = logging.getLogger("router")


class _Folder:
    """The folder of this master, and the lock that shows that it is in use."""

    path: Path | None = None
    owner: int = 0
    lock: int = -1


def prepare() -> Path:
    """Make the folder unless it exists, and remove the folders of masters that were killed."""
    if _Folder.path is None:
        parent = temporary_folder()
        _remove_stale(parent)
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        # Workers inherit the lock, so it is held as long as any of our processes runs.
        _Folder.lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(_Folder.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _Folder.path, _Folder.owner = path, os.getpid()
        os.environ[VARIABLE] = str(path)
        atexit.register(remove)
        for kind in _SUMMED:
            _reserve(path / f"{kind}_{DEAD}.db")
    return _Folder.path


def reserve(pid: int) -> None:
    """Take the room on the disk that a process needs for its metrics: on a full disk writing would kill it by a signal.

    Raises OSError where there is none.
    """
    folder = Path(os.environ[VARIABLE])
    files = [folder / f"{kind}_{pid}.db" for kind in (*_SUMMED, *(f"gauge_{mode}" for mode in _GAUGES))]
    try:
        for file in files:
            _reserve(file)
    except OSError:
        # Who is asked for the metrics of all could not read them.
        for file in files:
            file.unlink(missing_ok=True)
        raise


def _reserve(file: Path) -> None:
    with file.open("ab") as opened:
        os.posix_fallocate(opened.fileno(), 0, RESERVED_BYTES)


def remove() -> None:
    """Remove the folder, where this process made it."""
    if _Folder.path is not None and _Folder.owner == os.getpid():
        shutil.rmtree(_Folder.path, ignore_errors=True)
        _Folder.path = None


def _remove_stale(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if path.lstat().st_uid == os.geteuid() and path.is_dir() and not path.is_symlink() and _is_stale(path):
                shutil.rmtree(path)


def _is_stale(path: Path) -> bool:
    """Return whether no process holds the lock of a folder. Raises OSError, also for a folder without a lock yet."""
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def merge_dead_worker(pid: int) -> None:
    """Add the counters of a dead worker to the sum of all dead workers; delete its gauges and files."""
    if _Folder.path is None:
        return
    with _merging():
        for file in _Folder.path.glob(f"*_{pid}.db"):
            kind = file.name.partition("_")[0]
            try:
                if kind in _SUMMED:
                    _add(file, _Folder.path / f"{kind}_{DEAD}.db")
            except Exception:  # noqa: BLE001 - the master must not end for a file that its worker left broken
                _LOG.exception("the counters of worker %d are lost", pid)
            file.unlink(missing_ok=True)


def _add(file: Path, dead: Path) -> None:
    # Here, so that nothing of it is loaded where no metrics are asked for.
    mmaped: Any = importlib.import_module("prometheus_client.mmap_dict").MmapedDict
    total = mmaped(str(dead))
    try:
        for key, value, *_ in list(mmaped.read_all_values_from_file(str(file))):
            total.write_value(key, total.read_value(key)[0] + value, 0.0)
    finally:
        total.close()


@contextmanager
def _merging() -> Iterator[None]:
    _COUNTER.pack_into(_MERGES, 0, _merges() + 1)
    try:
        yield
    finally:
        _COUNTER.pack_into(_MERGES, 0, _merges() + 1)


def _merges() -> int:
    return int(_COUNTER.unpack_from(_MERGES)[0])


def read_consistent(read: Callable[[], bytes]) -> bytes:
    """Return what reading the folder gives: never half of a burial, or of a file that is just being made.

    Raises what reading raised at last, when it never went well.
    """
    failure: Exception = TimeoutError("workers are buried all the time")
    for _ in range(MAX_TRIES):
        before = _merges()
        try:
            text = read() if before % 2 == 0 else None
        except (OSError, RuntimeError, ValueError, struct.error) as error:
            failure, text = error, None
        if text is not None and _merges() == before:
            return text
        time.sleep(PAUSE_SECONDS)
    raise failure
