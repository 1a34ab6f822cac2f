"""What writes replaced: kept before each of them, so that it can be taken back.

A write is recorded, with its old content and the hashes of old and new, before the file changes. Nothing is recorded
after it: whether it took place shows in the file. So a crash at any moment leaves either a write that was never made,
whose file holds the old content, or one that was, whose file holds the new.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from client_agent import config
from client_agent.errors import JournalError
from client_agent.journal.contents import Contents
from client_agent.journal.database import WRITES, open_file, prepare_directory, set_aside, translating
from client_agent.journal.statements import load

DIRECTORY = "undo"
# What is larger is written over all the same, and the question says that it cannot be taken back.
MAX_KEPT_BYTES = 100 * config.MEGABYTE
DAY_S = 86_400

_SQL = load("writes")
_BEGIN = load("database")["begin"]
_TRIES = 3


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """One change to one file, as it was recorded before it was made."""

    workspace: str
    id: str
    root: str
    path: str
    existed: bool
    after: str | None
    at: float
    before: str | None = None
    mode: int | None = None
    made: tuple[str, ...] = ()
    undoes: str | None = None
    undone_by: str | None = None


class Keeper:
    """Keeps what one call is about to replace."""

    def __init__(self, writes: Writes, workspace: str, root: str, write_id: str, undoes: str | None = None) -> None:
        self._writes = writes
        self._workspace = workspace
        self._root = root
        self._id = write_id
        self._undoes = undoes

    def keep(
        self, path: str, old: int | None, *, after: str | None, mode: int | None, made: tuple[str, ...]
    ) -> str | None:
        """Records the write, with the content of `old`, the open file it replaces; the hash of that, where it is kept.

        Raises JournalError: then the file must stay as it is.
        """
        write = Write(
            workspace=self._workspace,
            id=self._id,
            root=self._root,
            path=path,
            existed=old is not None,
            after=after,
            mode=mode,
            made=made,
            at=self._writes.now(),
            undoes=self._undoes,
        )
        return self._writes.record(write, old)

    def forget(self) -> None:
        """The write was not made after all."""
        self._writes.forget(self._workspace, self._id)


class Writes:
    """The record, and the contents it needs. Any thread, any number of processes. Raises JournalError.

    The file is opened by the first use: many commands, and a daemon that writes nothing, never need it.
    """

    def __init__(self, state_dir: Path, bounds: config.Undo, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self._state_dir = state_dir
        self._path = state_dir / WRITES.file_name
        self.bounds = bounds
        self._contents = Contents(state_dir / DIRECTORY)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._kept_bytes = 0

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def keeper(self, workspace: str, root: str, write_id: str, undoes: str | None = None) -> Keeper | None:
        """For one write; None where the configuration wants nothing kept."""
        return Keeper(self, workspace, root, write_id, undoes) if self.bounds.max_bytes else None

    def record(self, write: Write, old: int | None) -> str | None:
        """Keeps the content of `old`, if it is not too large, and records the write; the hash of what is kept."""
        with translating(self._path):
            prepare_directory(self._state_dir)
            for _ in range(_TRIES):
                digest, size = self._put(old)
                with self._transaction() as connection:
                    if digest is not None and not self._contents.has(digest):
                        continue  # forgotten by another process before it was known to be wanted
                    _insert(connection, msgspec.structs.replace(write, before=digest), size)
                self._kept_bytes += size
                if self._kept_bytes > self.bounds.max_bytes:
                    self.prune()
                return digest
        raise JournalError("what the file holds now could not be kept", code="journal_busy")

    def _put(self, old: int | None) -> tuple[str | None, int]:
        if old is None or os.fstat(old).st_size > min(MAX_KEPT_BYTES, self.bounds.max_bytes):
            return None, 0
        return self._contents.put(old)

    def forget(self, workspace: str, write_id: str) -> None:
        with self._transaction() as connection:
            connection.execute(_SQL["forget_write"], {"workspace": workspace, "id": write_id})

    def prune(self) -> None:
        """Forgets what is older or more than is to be kept, and contents that no write needs."""
        if self._connection is None and not self._path.exists():
            return
        with self._transaction() as connection:
            connection.execute(_SQL["forget_older"], {"before": self.now() - self.bounds.keep_days * DAY_S})
            self._drop_contents(connection)
            while (kept := _count(connection)) > self.bounds.max_bytes:
                connection.execute(_SQL["forget_oldest"])
                self._drop_contents(connection)
            wanted = {row["hash"] for row in connection.execute(_SQL["list_contents"])}
            for digest in self._contents.stored():  # left by a process that died before it could record the write
                if digest not in wanted:
                    self._contents.remove(digest)
        self._kept_bytes = kept

    def _drop_contents(self, connection: sqlite3.Connection) -> None:
        for row in connection.execute(_SQL["drop_contents"]).fetchall():
            self._contents.remove(row["hash"])

    # Looking back.

    def content(self, digest: str) -> bytes | None:
        """A content that was kept; None when it no longer is."""
        with translating(self._path):
            return self._contents.read(digest)

    def find(self, write_id: str, workspace: str | None = None, limit: int = 20) -> list[Write]:
        """The writes of this id; where there is none, those whose id begins so. Newest first."""
        found = self._writes(_SQL["find_writes"], id=write_id, workspace=workspace, limit=limit)
        return [write for write in found if write.id == write_id] or found

    def recent(self, *, workspace: str | None = None, limit: int = 100) -> list[Write]:
        """The newest first."""
        return self._writes(_SQL["recent_writes"], workspace=workspace, limit=limit)

    def later(self, write: Write) -> str | None:
        """The id of the newest write to the same file, if there is one after this."""
        rows = self._rows(_SQL["later_write"], workspace=write.workspace, id=write.id)
        return rows[0]["id"] if rows else None

    def _writes(self, statement: str, **values: object) -> list[Write]:
        rows = self._rows(statement, **values)
        standing = _standing_undos(self._rows(_SQL["undos"])) if rows else {}
        return [_from_row(row, standing.get((row["workspace"], row["id"]))) for row in rows]

    def _rows(self, statement: str, **values: object) -> list[sqlite3.Row]:
        if self._connection is None and not self._path.exists():
            return []
        with self._lock, translating(self._path):
            return self._open().execute(statement, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The write lock is taken at once: contents are looked at and removed under it, by every process."""
        with self._lock, translating(self._path):
            connection = self._open()
            connection.execute(_BEGIN)
            with connection:
                yield connection

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            prepare_directory(self._state_dir)
            try:
                self._connection = open_file(self._path, WRITES)
            except JournalError as error:
                if error.code != "journal_damaged":
                    raise
                set_aside(self._path, datetime.fromtimestamp(self.now(), UTC).strftime("%Y%m%dT%H%M%SZ"))
                self._connection = open_file(self._path, WRITES)
            self._kept_bytes = _count(self._connection)
        return self._connection


def _insert(connection: sqlite3.Connection, write: Write, size: int) -> None:
    if write.before is not None:
        connection.execute(_SQL["save_content"], {"hash": write.before, "size": size})
    row: dict[str, Any] = msgspec.structs.asdict(write)
    connection.execute(_SQL["save_write"], row | {"made": msgspec.json.encode(write.made).decode()})


def _count(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_SQL["kept_bytes"]).fetchone()[0])


def _standing_undos(rows: list[sqlite3.Row]) -> dict[tuple[str, str], str]:
    """By what each write was taken back, where that was not taken back in turn."""
    standing: dict[tuple[str, str], str] = {}
    for row in reversed(rows):  # what undoes an undo comes after it
        if (row["workspace"], row["id"]) not in standing:
            standing[row["workspace"], row["undoes"]] = row["id"]
    return standing


def _from_row(row: sqlite3.Row, undone_by: str | None) -> Write:
    made = msgspec.json.decode(row["made"])
    return msgspec.convert(dict(row) | {"made": made, "undone_by": undone_by}, Write, strict=False)
