"""Processes of the benchmark: each ends with the block that started it, and none is left at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

MARK = "CLIENT_AGENT_BENCHMARK"
RUN_ID = uuid.uuid4().hex
ROOT = Path(__file__).resolve().parent.parent
GRACE_S = 10.0


def environment(**more: str) -> dict[str, str]:
    """What a child gets: ours, the mark by which it is found again, and this.

    An installed program has its bytecode, so one that runs from a checkout may keep it as well.
    """
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**ours, MARK: RUN_ID, **more}


@contextlib.contextmanager
def running(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    grace_s: float = GRACE_S,
) -> Iterator[subprocess.Popen[str]]:
    """A process whose stdout can be read, its complaints in `log`; ended with everything below it."""
    with log.open("ab") as complaints:
        process = subprocess.Popen(
            argv,
            env=env or environment(),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        try:
            yield process
        finally:
            end(process, grace_s)


def end(process: subprocess.Popen[str], grace_s: float = GRACE_S) -> None:
    """Asks, waits, then ends the whole tree by force."""
    below = descendants(process.pid)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    for each in below:
        with contextlib.suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(below, timeout=GRACE_S)
    if process.poll() is None:
        process.kill()
    process.wait(GRACE_S)
    if process.stdout is not None:
        process.stdout.close()


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


def tree(pid: int) -> list[psutil.Process]:
    try:
        return [psutil.Process(pid), *descendants(pid)]
    except psutil.Error:
        return []


def resident_mib(pid: int) -> float:
    """Resident memory of a process and everything below it. Pages they share are counted for each."""
    total = 0
    for process in tree(pid):
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total / 2**20


def shared_out_mib(pid: int) -> float:
    """The same with each page that several processes share counted once, in shares (Linux's PSS)."""
    total = 0
    for process in tree(pid):
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 2**20


def cpu_times_s(pid: int) -> dict[tuple[int, str], float]:
    """Processor time of every thread of a process and everything below it, to the nanosecond where the kernel says."""
    times = {}
    for process in tree(pid):
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                times[process.pid, task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return times


def cpu_used_s(before: dict[tuple[int, str], float], after: dict[tuple[int, str], float]) -> float:
    """Between two looks. What ended in between took its times along, and is left out."""
    return sum(used - before.get(thread, 0.0) for thread, used in after.items())


def left_running() -> list[str]:
    """Everything that carries this run's mark in its environment, except this process itself."""
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == RUN_ID:
                left.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
    return left


def marked(mark: str) -> list[int]:
    """Living processes with this mark on their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if any(mark in word for word in process.cmdline()):
                found.append(process.pid)
    return found


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]
