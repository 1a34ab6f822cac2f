"""What was measured on: the machine and the versions, without names or paths; and whether it was busy meanwhile."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import statistics
import time
from datetime import UTC, datetime

import msgspec
import psutil

PACKAGES = ("client-agent", "aiohttp", "httpx", "msgspec", "starlette", "uvicorn", "uvloop", "httptools")
BUSY = 1.5  # the control this far above its quietest value: something else was running


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    date: str
    cores: int
    memory_gib: int
    kernel: str
    python: str
    versions: dict[str, str]


def describe_machine() -> Machine:
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        cores=os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        versions={name: version for name in PACKAGES if (version := _version(name))},
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Control:
    """A bare spawn of `true`, timed around each figure: nothing of ours is in it, so only the machine moves it."""

    def __init__(self) -> None:
        self._true = shutil.which("true") or "/bin/true"
        self._taken_ms: list[float] = []

    def take(self, count: int = 40) -> float:
        """The median of a few spawns, in milliseconds."""
        taken = []
        for _ in range(count):
            began = time.perf_counter()
            os.waitpid(os.posix_spawn(self._true, ["true"], os.environ), 0)
            taken.append(1e3 * (time.perf_counter() - began))
        self._taken_ms.append(statistics.median(taken))
        return self._taken_ms[-1]

    @property
    def quiet_ms(self) -> float:
        """The lowest value of the run."""
        return min(self._taken_ms)

    def was_busy(self, control_ms: float) -> bool:
        return control_ms > BUSY * self.quiet_ms
