"""What the system tells of a running worker: its descriptors, its threads, its memory."""

import re
from pathlib import Path

from tests.router.serving import RunningRouter


def worker_of(router: RunningRouter) -> int:
    """Return the process id of a router's only worker."""
    return int(router.wait_for_line(r"Booting worker with pid: (\d+)")[1])


def children_of(process: int) -> list[int]:
    """Return the process ids of a process's children: of a master, its workers."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def descriptors(process: int) -> int:
    """Return how many files and sockets a process has open."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def threads(process: int) -> int:
    """Return how many threads a process has."""
    return _status(process, "Threads")


def resident_bytes(process: int, *, peak: bool = False) -> int:
    """Return how much memory a process takes, or took at most."""
    return _status(process, "VmHWM" if peak else "VmRSS") * 1024


def address_space(process: int) -> int:
    """Return how many bytes of addresses a process has taken, used or not."""
    return _status(process, "VmSize") * 1024


def forget_peak(process: int) -> None:
    """Let the peak of a process's memory count from here."""
    Path(f"/proc/{process}/clear_refs").write_text("5")


def _status(process: int, name: str) -> int:
    (value,) = re.findall(rf"^{name}:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return int(value)
