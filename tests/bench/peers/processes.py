"""What /proc tells of a process and all that descend from it: CPU time and memory."""

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")
HELPER = 4
"""A process that has less than this part of the largest one's memory is a helper of a runtime, no worker."""
_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED of Linux' include/linux/posix-timers.h: what all threads ran, in ns
_GONE = (FileNotFoundError, ProcessLookupError, OSError)


class Memory(NamedTuple):
    """Memory in bytes: resident, and proportional, where shared pages count by the part of each that shares them."""

    rss: int
    pss: int


def parent_in(stat: str) -> int:
    """Return the parent's id from the text of /proc/PID/stat, where the name may hold anything."""
    return int(stat.rpartition(")")[2].split()[1])


def memory_in(rollup: str) -> Memory:
    """Return the memory from the text of /proc/PID/smaps_rollup."""
    found = {name: int(kib) * 1024 for name, kib in re.findall(r"^(Rss|Pss):\s+(\d+) kB", rollup, re.MULTILINE)}
    return Memory(found["Rss"], found["Pss"])


def tree_in(parents: dict[int, int], root: int) -> list[int]:
    """Return a process and all its descendants, given the parent of each process."""
    tree = [root]
    for process in tree:
        tree += [child for child, parent in parents.items() if parent == process]
    return tree


def leaves_in(parents: dict[int, int], root: int) -> list[int]:
    """Return the descendants without children: the workers; of a process without any, itself."""
    tree = tree_in(parents, root)
    return [process for process in tree if process not in {parents[other] for other in tree if other in parents}]


def parents() -> dict[int, int]:
    """Return the parent of each process of the system."""
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            with suppress(*_GONE):
                found[int(folder.name)] = parent_in((folder / "stat").read_text())
    return found


def tree_of(root: int) -> list[int]:
    """Return a process and all its descendants."""
    return tree_in(parents(), root)


def workers_of(root: int) -> list[int]:
    """Return the processes that do the work under a process: those without children, small helpers left out."""
    leaves = {process: resident_of([process]) for process in leaves_in(parents(), root)}
    return [process for process, resident in leaves.items() if resident * HELPER >= max(leaves.values())]


def cpu_seconds(processes: Iterable[int]) -> float:
    """Return the CPU time that processes have used, all threads, those that ended included.

    The kernel's clock of a process has nanoseconds where /proc/PID/stat has hundredths of a second; both read the same
    account.
    """
    total = 0.0
    for process in processes:
        with suppress(*_GONE):
            total += time.clock_gettime((~process << 3) | _SCHEDULER_CLOCK)
    return total


def memory_of(processes: Iterable[int]) -> Memory:
    """Return the memory of processes together."""
    found = [Memory(0, 0)]
    for process in processes:
        with suppress(*_GONE):
            found.append(memory_in((PROC / str(process) / "smaps_rollup").read_text()))
    return Memory(sum(memory.rss for memory in found), sum(memory.pss for memory in found))


def connections_of(process: int, port: int) -> int:
    """Return how many established connections of a listening port a process holds."""
    local = f":{port:04X}"
    rows = [line.split() for line in (PROC / "net" / "tcp").read_text().splitlines()[1:]]
    established = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(local) and row[3] == "01"}
    held = set()
    for descriptor in (PROC / str(process) / "fd").iterdir():
        with suppress(*_GONE):
            held.add(str(descriptor.readlink()))
    return len(established & held)


def resident_of(processes: Iterable[int]) -> int:
    """Return the resident bytes of processes together; unlike `memory_of` it does not walk their pages."""
    total = 0
    for process in processes:
        with suppress(*_GONE):
            total += int((PROC / str(process) / "statm").read_text().split()[1]) * PAGE
    return total
