"""Reading the journal: for the daemon's own look-ups, and for commands while a daemon runs. Changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from client_agent.journal.audit import Head
from client_agent.journal.database import JOURNAL, open_reader, translate
from client_agent.journal.records import CallOutline, CallRecord, Post, PostKind, call_from_row, post_from_row
from client_agent.journal.statements import load
from client_agent.protocol.calls import Call

AUDIT_HEAD = "audit_head"

_CALLS = load("calls")
_HISTORY = load("history")


class Reader:
    """What is stored; changes of the last moments may still be in the daemon's memory. Raises JournalError."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / JOURNAL.file_name
        self._connection = open_reader(self._path, JOURNAL)

    def close(self) -> None:
        self._connection.close()

    # For the daemon.

    def call(self, workspace: str, tool_id: str) -> CallRecord | None:
        rows = self._rows(_CALLS["find_call"], workspace=workspace, tool_id=tool_id)
        return call_from_row(rows[0]) if rows else None

    def unfinished_calls(self, workspace: str) -> list[tuple[CallRecord, Call | None]]:
        """What has not ended, oldest first, with the call itself where it was kept."""
        return [
            (call_from_row(row), msgspec.json.decode(row["request"], type=Call) if row["request"] else None)
            for row in self._rows(_CALLS["unfinished_calls"], workspace=workspace)
        ]

    def post(self, workspace: str, kind: PostKind, target: str) -> Post | None:
        rows = self._rows(_CALLS["find_post"], workspace=workspace, kind=kind, target=target)
        return post_from_row(rows[0]) if rows else None

    def body(self, post: Post) -> bytes | None:
        rows = self._rows(_CALLS["post_body"], workspace=post.workspace, kind=post.kind, target=post.target)
        return rows[0]["body"] if rows else None

    def waiting_posts(self, workspace: str) -> list[Post]:
        return [post_from_row(row) for row in self._rows(_CALLS["waiting_posts"], workspace=workspace)]

    def position(self, workspace: str) -> str:
        rows = self._rows(_CALLS["find_position"], workspace=workspace)
        return rows[0]["event_id"] if rows else ""

    def audit_head(self) -> Head | None:
        """Up to where the audit log had been written: an end before this says that entries are gone."""
        rows = self._rows(_CALLS["find_mark"], name=AUDIT_HEAD)
        return msgspec.json.decode(rows[0]["value"], type=Head) if rows else None

    # For people.

    def calls_by_id(self, tool_id: str, limit: int = 20) -> list[CallRecord]:
        """The calls whose id is this, or starts with this, newest first."""
        return [call_from_row(row) for row in self._rows(_HISTORY["calls_by_id"], tool_id=tool_id, limit=limit)]

    def recent_calls(
        self, *, workspace: str | None = None, limit: int = 100, before: float = float("inf")
    ) -> list[CallRecord]:
        """The newest calls first; `before` is the `created_at` of the last one seen, when paging."""
        rows = self._rows(_HISTORY["recent_calls"], workspace=workspace, limit=limit, before=before)
        return [call_from_row(row) for row in rows]

    def outline_calls(self) -> Iterator[CallOutline]:
        """What was decided on every call, newest first, read only as far as it is asked for."""
        try:
            for row in self._connection.execute(_HISTORY["outline_calls"]):
                yield CallOutline(*row)
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def posts_not_delivered(self, *, workspace: str | None = None, limit: int = 1000) -> list[Post]:
        """What waits and what is dead, oldest first."""
        rows = self._rows(_HISTORY["posts_not_delivered"], workspace=workspace, limit=limit)
        return [post_from_row(row) for row in rows]

    def _rows(self, statement: str, **values: object) -> list[sqlite3.Row]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error


@contextmanager
def reading(state_dir: Path) -> Iterator[Reader]:
    """A reader for as long as a command needs it."""
    reader = Reader(state_dir)
    try:
        yield reader
    finally:
        reader.close()
