"""How a batch gets onto the disk: the audit log first, then everything else in one transaction."""

from __future__ import annotations

import sqlite3
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from client_agent.journal.audit import AuditLog
from client_agent.journal.database import translating
from client_agent.journal.reader import AUDIT_HEAD
from client_agent.journal.records import MAX_REQUEST_BYTES, CallRecord, PostState
from client_agent.journal.statements import load, several
from client_agent.journal.writer import Batch, CallEntry, Durability, PostSnapshot, Task
from client_agent.protocol.masking import mask

_DATABASE = load("database")
_CALLS = load("calls")
# Many in one statement: between two, Python's threads take turns, and the event loop waits for its own.
_AT_ONCE = 32
_SAVE_CALLS, _COLUMNS = several(_CALLS["save_call"], _AT_ONCE)
_values = itemgetter(*_COLUMNS)


class SqliteStorage:
    """The writer's connection and the audit log. Used by the writer's thread alone."""

    def __init__(self, connection: sqlite3.Connection, path: Path, audit: AuditLog) -> None:
        self._connection = connection
        self._path = path
        self._audit = audit
        self._syncs = True

    def save(self, batch: Batch) -> None:
        """All of it or nothing, but for audit entries: those that are written leave the batch."""
        head = None
        if batch.entries:
            self._audit.append(batch.entries)
            batch.entries = []
            head = self._audit.head
        with translating(self._path):
            self._use(batch.durability)
            with self._connection as connection:
                _save_calls(connection, batch.calls)
                for snapshot in batch.posts:
                    _save_post(connection, snapshot)
                for workspace, event_id in batch.positions.items():
                    connection.execute(_CALLS["save_position"], {"workspace": workspace, "event_id": event_id})
                if head is not None:
                    value = msgspec.json.encode(head).decode()
                    connection.execute(_CALLS["save_mark"], {"name": AUDIT_HEAD, "value": value})

    def settle(self) -> None:
        """After a durable commit, while its callers already go on: the audit log follows it to the disk."""
        self._audit.sync()

    def run(self, task: Task) -> Any:
        with translating(self._path), self._connection as connection:
            return task(connection)

    def _use(self, durability: Durability) -> None:
        syncs = durability is Durability.DURABLE
        if syncs is not self._syncs:
            self._connection.execute(_DATABASE["sync_full" if syncs else "sync_normal"])
            self._syncs = syncs


def _save_calls(connection: sqlite3.Connection, calls: list[tuple[CallEntry, CallRecord]]) -> None:
    many = len(calls) - len(calls) % _AT_ONCE
    for start in range(0, many, _AT_ONCE):
        rows = (_values(_call_row(*each)) for each in calls[start : start + _AT_ONCE])
        connection.execute(_SAVE_CALLS, tuple(chain.from_iterable(rows)))
    if many < len(calls):
        connection.executemany(_CALLS["save_call"], (_call_row(*each) for each in calls[many:]))


def _call_row(entry: CallEntry, record: CallRecord) -> dict[str, Any]:
    if entry.params is None and entry.call is not None:
        entry.params = msgspec.json.encode(mask(entry.call.tool_params)).decode()
    row = msgspec.structs.asdict(record)
    row["reasons"] = msgspec.json.encode(record.reasons).decode()
    row["params"] = entry.params
    row["request"] = _request(entry) if record.startable else None
    return row


def _request(entry: CallEntry) -> bytes | None:
    encoded = msgspec.json.encode(entry.call)
    return encoded if len(encoded) <= MAX_REQUEST_BYTES else None


def _save_post(connection: sqlite3.Connection, snapshot: PostSnapshot) -> None:
    if not snapshot.stored and not snapshot.keeps_body and snapshot.post.state is PostState.DELIVERED:
        return  # it came and went, and nothing of it is wanted any more
    row = msgspec.structs.asdict(snapshot.post)
    if snapshot.stored:
        connection.execute(_CALLS["update_post"], row | {"keeps_body": _keeps_body(snapshot)})
    else:
        connection.execute(_CALLS["save_post"], row | {"body": snapshot.body})


def _keeps_body(snapshot: PostSnapshot) -> bool:
    return snapshot.keeps_body or snapshot.post.delivered_at is None
