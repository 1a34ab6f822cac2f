"""The journal of one daemon: its files, its writer, and a ledger for each workspace."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from client_agent.errors import JournalError
from client_agent.journal import retention
from client_agent.journal.audit import AuditEntry, AuditLog
from client_agent.journal.database import JOURNAL, open_file, prepare_directory, set_aside
from client_agent.journal.ledger import Ledger
from client_agent.journal.lock import DirectoryLock
from client_agent.journal.reader import Reader
from client_agent.journal.records import CallRecord, OpenCall
from client_agent.journal.statements import load
from client_agent.journal.storage import SqliteStorage
from client_agent.journal.writer import Writer

MAX_AGE_DAYS = 30.0
MAX_BYTES = 256_000_000

_SQL = load("calls")


class Recovered(msgspec.Struct, frozen=True):
    """The ledger of a workspace, and what an earlier run of the daemon left in it."""

    ledger: Ledger
    settled: list[CallRecord]  # now failed, `interrupted` or `not_started`; their results are in the outbox
    left_open: list[OpenCall]  # never started: to be judged, and asked, again; an APPROVED one needs no second answer


class Journal:
    """Open for the one daemon of a state directory. Used from one thread; the writer is its own."""

    def __init__(self, state_dir: Path, *, now: Callable[[], float] = time.time) -> None:
        """Open or make the journal in this directory.

        Raises JournalError: `already_running`, `downgrade`, or why the files cannot be used. A damaged or foreign
        journal is moved to `set_aside`, and a new one begun: what ran before is then unknown here, and the user must
        be told so.
        """
        self.set_aside: Path | None = None
        self._now = now
        self._recovered: set[str] = set()
        with ExitStack() as undo:
            prepare_directory(state_dir)
            lock = DirectoryLock(state_dir)
            undo.callback(lock.release)
            path = state_dir / JOURNAL.file_name
            connection = self._open_file(path)
            undo.callback(connection.close)
            self.reader = Reader(state_dir)
            undo.callback(self.reader.close)
            audit = AuditLog(state_dir, fallback=self.reader.audit_head())
            undo.callback(audit.close)
            self._writer = Writer(SqliteStorage(connection, path, audit))
            self._writer.start()
            self._closing = undo.pop_all()

    def close(self) -> None:
        """Store what is left, and let another daemon have the directory. Raises JournalError when it cannot be."""
        with self._closing:
            self._writer.stop()

    @property
    def trouble(self) -> JournalError | None:
        """Why nothing can be recorded at the moment; None while all is well."""
        return self._writer.trouble

    async def turn_to(self, workspace: str, peer: str) -> None:
        """From now on this workspace is that server's and project's. Before `recover`. Raises JournalError.

        What is there of another's, calls, results and the place in the stream, is put where the new one cannot come by
        it, and is found again when the workspace is turned back.
        """
        await self._writer.run(lambda connection: _turn(connection, workspace, peer))

    def recover(self, workspace: str) -> Recovered:
        """The ledger of this workspace, with what was left over settled or handed back. Once a workspace."""
        if workspace in self._recovered:
            raise JournalError(f"the ledger of {workspace!r} is in use already", code="illegal_step")
        ledger = Ledger(workspace, self._writer, self.reader, self._now)
        recovered = Recovered(ledger, *ledger.recover())
        self._recovered.add(workspace)
        return recovered

    def release(self, workspace: str) -> None:
        """Let the ledger of this workspace be recovered anew: nobody uses it any more. Raises JournalError."""
        self._writer.flush()
        self._recovered.discard(workspace)

    def note(self, entry: AuditEntry) -> None:
        """Add to the audit log: written in this order, at the latest with the next commit that anybody waits for."""
        self._writer.note(entry)

    def flush(self) -> None:
        """Block until everything so far is stored. Raises JournalError."""
        self._writer.flush()

    async def prune(self, *, max_age_days: float = MAX_AGE_DAYS, max_bytes: int = MAX_BYTES) -> retention.Pruned:
        """Forget old calls; see `retention`. Raises JournalError."""
        return await retention.prune(self._writer, now=self._now(), max_age_days=max_age_days, max_bytes=max_bytes)

    def _open_file(self, path: Path) -> sqlite3.Connection:
        try:
            return open_file(path, JOURNAL)
        except JournalError as error:
            if error.code != "journal_damaged":
                raise
            stamp = datetime.fromtimestamp(self._now(), UTC).strftime("%Y%m%dT%H%M%SZ")
            self.set_aside = set_aside(path, stamp)
            return open_file(path, JOURNAL)


def _turn(connection: sqlite3.Connection, workspace: str, peer: str) -> None:
    mark = f"peer of {workspace}"
    found = connection.execute(_SQL["find_mark"], {"name": mark}).fetchone()
    if found is not None and found["value"] == peer:
        return
    if found is not None:
        _move(connection, workspace, f"{workspace} at {found['value']}")
        _move(connection, f"{workspace} at {peer}", workspace)
    connection.execute(_SQL["save_mark"], {"name": mark, "value": peer})


def _move(connection: sqlite3.Connection, source: str, target: str) -> None:
    for statement in ("move_calls", "move_posts", "move_position"):
        connection.execute(_SQL[statement], {"source": source, "target": target})
