"""One daemon a state directory: a lock the operating system releases when the process ends, however it ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from client_agent.errors import JournalError
from client_agent.journal.database import translating

LOCK_FILE = "daemon.lock"


class DirectoryLock:
    """Held from construction to `release`. Raises JournalError `already_running` at once when another holds it."""

    def __init__(self, state_dir: Path) -> None:
        path = state_dir / LOCK_FILE
        with translating(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _try_lock(self._descriptor):
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip() if os.name != "nt" else ""
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


if sys.platform == "win32":  # written from the documentation, never run there
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
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

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
