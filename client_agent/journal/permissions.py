"""The file of what the user allows, apart from the journal of what happened.

Both the daemon and the commands write it, a few times a day; a damaged journal must not take it along; and since only
permissions change it, whether they changed is one cheap question. A damaged file is not set aside by itself: without
its rules more might run than the user wants, so it is for the user to say.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

from client_agent.errors import JournalError
from client_agent.journal.database import PERMISSIONS, connect, open_file, prepare_directory, translating
from client_agent.journal.statements import load

_CLOCK_STEP_NS = 100_000_000  # two writes closer than this may carry the same time
_DATA_VERSION = load("database")["data_version"]


class PermissionFile:
    """The open file. Any number of processes at once, any thread. Raises JournalError."""

    def __init__(self, state_dir: Path) -> None:
        prepare_directory(state_dir)
        self._path = state_dir / PERMISSIONS.file_name
        self._lock = threading.Lock()
        try:
            self._connection = open_file(self._path, PERMISSIONS)
        except JournalError as error:
            if error.code != "journal_damaged":
                raise
            message = (
                f"{error.message}; no rule can be read: put a copy of the file back, or move it away to begin without"
            )
            raise JournalError(message, code="permissions_damaged", path=str(self._path)) from error
        self._watcher = connect(self._path)
        self._seen: int | None = None
        self._wal = str(self._path) + "-wal"
        self._unchanged: tuple[int, int, int] | None = None  # how the log stood when nothing was new

    def close(self) -> None:
        self._watcher.close()
        self._connection.close()

    def changed(self) -> bool:
        """Whether anybody changed anything since this was last asked; true the first time.

        SQLite is asked only when its log may have been written since: every change is appended there first.
        """
        now, log = time.time_ns(), self._look_at_log()
        if log is not None and log == self._unchanged:
            return False
        with translating(self._path):
            (version,) = self._watcher.execute(_DATA_VERSION).fetchone()
        self._unchanged = log if log is not None and now - log[0] > _CLOCK_STEP_NS else None
        seen, self._seen = self._seen, version
        return bool(version != seen)

    def _look_at_log(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._wal)  # noqa: PTH116 - for every call
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def write(self, statement: str, values: dict[str, object]) -> int:
        """Carry out a change, durably; how many rows it touched."""
        with self._lock, translating(self._path), self._connection as connection:
            return connection.execute(statement, values).rowcount

    def rows(self, statement: str, **values: object) -> list[sqlite3.Row]:
        with self._lock, translating(self._path):
            return self._connection.execute(statement, values).fetchall()
