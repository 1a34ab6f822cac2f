"""Forgetting, a little at a time: by age, and by size. Nothing unfinished, nothing undelivered.

What a call with effects was is forgotten, that it was is not: its id stays, so that it is never run a second time.
"""

from __future__ import annotations

import sqlite3

import msgspec

from client_agent.journal.statements import load
from client_agent.journal.writer import Writer

CHUNK = 200
DAY_S = 86_400

_SQL = load("retention")


class Pruned(msgspec.Struct, frozen=True):
    """How many calls were forgotten, and how much of the file is in use now."""

    calls: int
    used_bytes: int


async def prune(writer: Writer, *, now: float, max_age_days: float, max_bytes: int) -> Pruned:
    """Forget what is older, then the oldest while the file is larger. Others' writes come in between."""
    calls = 0
    while (count := await writer.run(lambda connection: forget(connection, now - max_age_days * DAY_S))) > 0:
        calls += count
    while (used := await writer.run(used_bytes)) > max_bytes:
        count = await writer.run(lambda connection: forget(connection, now))
        if count == 0:
            break
        calls += count
    await writer.run(lambda connection: connection.execute(_SQL["give_back"]).fetchall())
    return Pruned(calls, used)


def forget(connection: sqlite3.Connection, before: float) -> int:
    """Forget one handful of the oldest calls that ended before this time; how many."""
    rows = connection.execute(_SQL["oldest_prunable"], {"before": before, "limit": CHUNK}).fetchall()
    keys = [dict(row) for row in rows]
    connection.executemany(_SQL["delete_posts_of_call"], keys)
    connection.executemany(_SQL["delete_call_without_effects"], keys)
    connection.executemany(_SQL["strip_call_with_effects"], keys)
    connection.execute(_SQL["delete_settled_refusals"], {"before": before})
    return len(keys)


def used_bytes(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_SQL["used_bytes"]).fetchone()[0])
