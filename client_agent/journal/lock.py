"""One daemon a state directory: a lock the operating system releases when the process ends, however it ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from client_agent.errors import JournalError
from client_agent.journal.database import translating

LOCK_FILE = "daemon.lock"
# A command that looks whether the lock is held holds it itself for a moment: that is not another daemon.
_TRIES, _BETWEEN_S = 10, 0.02


class DirectoryLock:
    """Held from construction to `release`. Raises JournalError `already_running` at once when another holds it."""

    def __init__(self, state_dir: Path) -> None:
        path = state_dir / LOCK_FILE
        with translating(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not any(_attempts(self._descriptor)):
            holder = _read_id(self._descriptor)
            os.close(self._descriptor)
            who = f"process {holder}" if holder else "another process"
            message = (
                f"client-agent is already running for {state_dir} ({who}): stop it first, or use another directory"
            )
            raise JournalError(message, code="already_running", pid=holder, path=str(path))
        with suppress(OSError):  # the id is for people; the lock holds without it, on a full disk too
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let another daemon have the directory. The file stays: removing it would open a race."""
        os.close(self._descriptor)


def find_holder(state_dir: Path) -> int | None:
    """The process that holds the directory now: 0 when it has not said its id, None when there is none."""
    try:
        descriptor = os.open(state_dir / LOCK_FILE, os.O_RDWR)
    except OSError:
        return None
    try:
        if try_lock(descriptor):
            return None
        holder = _read_id(descriptor)
        return int(holder) if holder.isdecimal() else 0
    finally:
        os.close(descriptor)


def _attempts(descriptor: int) -> Iterator[bool]:
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_BETWEEN_S)
        yield try_lock(descriptor)


def _read_id(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, 20).decode("ascii", "replace").strip()


if sys.platform == "win32":  # written from the documentation, never run there
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock a byte far beyond the end, so that the process id stays readable."""
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Whether the open file is ours alone now, until it is closed."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
