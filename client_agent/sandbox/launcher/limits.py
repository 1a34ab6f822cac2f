"""Limits: those the kernel holds for each process, and those on a command as a whole, looked up in its own /proc."""
# Nothing is imported that can be spared; /tmp is the one being made.
# ruff: noqa: PTH

from __future__ import annotations

import os
import resource

_PAGE = os.sysconf("SC_PAGE_SIZE")


def apply(wanted: dict[str, tuple[int, int]], pid: int = 0) -> None:
    """Sets limits on a process, this one unless told, and all it starts; never above what it has. -1 is none."""
    for name, pair in wanted.items():
        number = getattr(resource, name)
        try:
            highest = resource.prlimit(pid, number)[1]
            soft, hard = (highest if value < 0 else value if highest < 0 else min(value, highest) for value in pair)
            resource.prlimit(pid, number, (soft, hard))
        except ProcessLookupError:
            return  # ended already


def passed(proc_fd: int, max_processes: int, max_bytes: int) -> str:
    """The limit that is passed, by name; empty when none is."""
    try:
        pids = [name for name in os.listdir(proc_fd) if name.isdigit()]
    except OSError:
        return ""
    if len(pids) - 1 > max_processes:  # the first process is the cell's own
        return "processes"
    pids = [pid for pid in pids if pid != "1"]
    if sum(_resident(proc_fd, pid) for pid in pids) <= max_bytes:
        return ""
    # Pages shared by several processes were counted for each of them: look closer before judging.
    return "memory" if sum(_proportional(proc_fd, pid) for pid in pids) > max_bytes else ""


def _resident(proc_fd: int, pid: str) -> int:
    fields = _read(proc_fd, f"{pid}/statm").split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else 0


def _proportional(proc_fd: int, pid: str) -> int:
    for line in _read(proc_fd, f"{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(proc_fd: int, name: str) -> bytes:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc_fd)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(fd)
