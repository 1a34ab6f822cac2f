"""Opening our SQLite files: whose they are, whether they are sound, and at which version.

Every file carries our application id. A file that is damaged or not ours is never written to.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from client_agent.errors import JournalError
from client_agent.journal.statements import load, migrations, split

BUSY_TIMEOUT_S = 5.0

_SQL = load("database")


class Schema(msgspec.Struct, frozen=True):
    """One kind of file of ours: its migrations are in `sql/<name>/`."""

    name: str
    application_id: int

    @property
    def file_name(self) -> str:
        return f"{self.name}.sqlite3"


JOURNAL = Schema("journal", 0x436C416A)
PERMISSIONS = Schema("permissions", 0x436C4170)
WRITES = Schema("writes", 0x436C4177)


def prepare_directory(state_dir: Path) -> None:
    """Make the state directory, for this user alone."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        state_dir.chmod(0o700)
    except OSError as error:
        raise translate(error, state_dir) from error


def open_file(path: Path, schema: Schema) -> sqlite3.Connection:
    """A connection that may write, to a sound file of ours at the newest version. Raises JournalError."""
    with translating(path):
        created = not path.exists()
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
        if created:
            sync_directory(path.parent)
    connection = connect(path)
    try:
        with translating(path):
            _prepare_in_turn(connection, path, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, schema: Schema) -> sqlite3.Connection:
    """A connection that cannot write, to a file at exactly our version. Raises JournalError."""
    if not path.exists():
        raise JournalError(
            f"there is no {path} yet: it is made when the daemon first starts", code="journal_missing", path=str(path)
        )
    with translating(path):
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False
        )
    connection.row_factory = sqlite3.Row
    try:
        with translating(path):
            connection.execute(_SQL["keep_few_pages"])
            _expect_newest(connection, path, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """A bare connection. Statements that change something open a transaction; `with connection:` ends it."""
    with translating(path):
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level="IMMEDIATE", check_same_thread=False, cached_statements=64
        )
        connection.execute(_SQL["keep_few_pages"])
    connection.row_factory = sqlite3.Row
    return connection


def set_aside(path: Path, stamp: str) -> Path:
    """Move a file that cannot be used, and what SQLite keeps beside it, out of the way; say where to."""
    target = path.with_name(f"{path.name}.damaged-{stamp}")
    with translating(path):
        for suffix in ("", "-wal", "-shm"):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.replace(target.with_name(target.name + suffix))
        sync_directory(path.parent)
    return target


def sync_directory(directory: Path) -> None:
    """Make a name that was just created or moved survive a loss of power."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prepare_in_turn(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Prepare the file; where several processes do so at once, SQLite turns some away without any wait of its own."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return _prepare(connection, path, schema)
        except sqlite3.OperationalError as error:
            if _classify(error) != "journal_busy" or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _prepare(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    version = _identify(connection, path, schema)
    if version == 0:
        connection.execute(_SQL["use_incremental_vacuum"])
    elif (found := connection.execute(_SQL["check"]).fetchone()[0]) != "ok":
        raise damaged(path, found)
    for pragma in ("use_wal", "limit_wal", "zero_what_is_deleted", "sync_full"):
        connection.execute(_SQL[pragma]).fetchall()
    scripts = migrations(schema.name)
    if version < len(scripts):
        _migrate(connection, path, schema)


def _migrate(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Run what is missing, in one transaction: another process may be about to do the same."""
    connection.execute(_SQL["begin"])
    with connection:
        version = _identify(connection, path, schema)
        for script in migrations(schema.name)[version:]:
            for statement in split(script):
                connection.execute(statement)


def _identify(connection: sqlite3.Connection, path: Path, schema: Schema) -> int:
    """The version of the file, 0 for a new one. Raises JournalError when it is not ours or newer than we are."""
    application_id, version, has_content = connection.execute(_SQL["identify"]).fetchone()
    if not has_content and application_id == 0 and version == 0:
        return 0
    if application_id != schema.application_id:
        raise damaged(path, "it belongs to another program")
    newest = len(migrations(schema.name))
    if version > newest:
        message = (
            f"{path} was written by a newer client-agent (version {version} of its format, this program knows"
            f" {newest}): update client-agent, or move the file away to start without it"
        )
        raise JournalError(message, code="downgrade", path=str(path))
    return int(version)


def _expect_newest(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    if _identify(connection, path, schema) < len(migrations(schema.name)):
        message = f"{path} was made by an older client-agent: restart the daemon, which brings it up to date"
        raise JournalError(message, code="journal_outdated", path=str(path))


def damaged(path: Path, problem: str) -> JournalError:
    return JournalError(f"{path} cannot be used: {problem}", code="journal_damaged", path=str(path))


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the operating system come out as JournalError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error | OSError, path: Path) -> JournalError:
    """What went wrong, and what the person at this laptop can do about it."""
    code = _classify(error)
    remedy = {
        "journal_full": "the disk is full: free some space and it goes on by itself",
        "journal_readonly": "it cannot be written: check the owner and mode of the directory and how it is mounted",
        "journal_damaged": "it is damaged: restart the daemon, which sets it aside and starts a new one",
        "journal_busy": "another program holds it locked: end that program",
    }.get(code, "check the disk")
    return JournalError(f"{path} cannot be used ({error}); {remedy}", code=code, path=str(path))


_BY_ERRNO = {
    errno.ENOSPC: "journal_full", errno.EDQUOT: "journal_full", errno.EFBIG: "journal_full",
    errno.EROFS: "journal_readonly", errno.EACCES: "journal_readonly", errno.EPERM: "journal_readonly",
}  # fmt: skip
_BY_SQLITE = {
    sqlite3.SQLITE_FULL: "journal_full", sqlite3.SQLITE_READONLY: "journal_readonly",
    sqlite3.SQLITE_PERM: "journal_readonly", sqlite3.SQLITE_CANTOPEN: "journal_readonly",
    sqlite3.SQLITE_CORRUPT: "journal_damaged", sqlite3.SQLITE_NOTADB: "journal_damaged",
    sqlite3.SQLITE_BUSY: "journal_busy", sqlite3.SQLITE_LOCKED: "journal_busy",
}  # fmt: skip


def _classify(error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0, JournalError.code)
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of the number is detail
    return _BY_SQLITE.get(primary, JournalError.code)
