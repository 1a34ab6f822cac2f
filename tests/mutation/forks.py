"""Processes made by fork, with bounds."""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from enum import StrEnum

_WALL_S = 120.0  # for one that sleeps
_MAX_MEMORY_BYTES = 2 * 1024**3
_PASSED, _FAILED = 0, 1


class Outcome(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"


def start(passes: Callable[[], bool]) -> int:
    """Starts a fork in which this is asked; returns its process id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid != 0:
        return pid
    status = _FAILED
    try:
        status = _PASSED if passes() else _FAILED
    except BaseException:  # noqa: BLE001 - nothing may get out of the fork, not even the wish to exit
        traceback.print_exc()
    finally:
        os._exit(status)


def wait(pid: int) -> Outcome:
    """Whether the tests in a fork passed, so that the mutant survived."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM):
        return Outcome.TIMEOUT
    return Outcome.SURVIVED if status == _PASSED else Outcome.KILLED


def bind(cpu_s: float) -> None:
    """Bounds this process in processor time and memory, and keeps what it prints to itself."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, max(_WALL_S, 10 * cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    silence(1, 2)


def silence(*descriptors: int) -> None:
    """Lets what this process writes there go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
