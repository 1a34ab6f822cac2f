"""The event log: committed first, then sent; replayed to whoever was away.

The log holds what a client still has to hear. A question (`tool.approval_request`) leaves it once decided, a signal
(`tool.execution_signal`) once the call is finished or cancelled: nobody is asked or signalled twice over something
settled, and the real parameters, which only these two events hold, are gone from the database with them. Each such
deletion comes with a newer event in the same transaction, so the newest id of a project never goes back.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from client_agent.server.database import Database
from client_agent.server.models import StoredEvent
from client_agent.server.settings import EventShape

APPROVAL_REQUEST = "tool.approval_request"
EXECUTION_SIGNAL = "tool.execution_signal"
RESULT_ACK = "tool.result_ack"
CANCEL = "tool.cancel"
CHAT_MESSAGE = "chat.message"
OPEN_NAMES = (APPROVAL_REQUEST, EXECUTION_SIGNAL)

_REPLAY_PAGE_EVENTS = 100
_TRIM_EVERY_EVENTS = 64
_EVENT_ID = re.compile(r"[0-9]{1,18}")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it was committed."""

    id: int
    name: str
    data: msgspec.Raw

    def to_sse(self, shape: EventShape) -> bytes:
        """The event on the wire. The data is from our own encoder: it holds no line ends."""
        data = bytes(self.data)
        if shape is EventShape.ENVELOPE:
            data = b'{"event":"%s","data":%s}' % (self.name.encode(), data)
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self.id, self.name.encode(), data)


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a project's log that one client has missed."""

    project_id: str
    after: int
    until: int
    open_only: bool


class Transaction:
    """Rows and the events that tell of them: both are committed, or neither."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.events: list[tuple[str, Event]] = []

    async def append(self, project_id: str, name: str, data: dict[str, Any]) -> None:
        encoded = msgspec.Raw(msgspec.json.encode(data))
        values = {"project_id": project_id, "name": name, "tool_id": data.get("tool_id"), "data": encoded}
        inserted = await self.connection.execute(insert(StoredEvent).values(**values).returning(StoredEvent.id))
        self.events.append((project_id, Event(id=inserted.scalar_one(), name=name, data=encoded)))

    async def settle(self, tool_id: str) -> None:
        """Takes the call's open question or signal out of the log."""
        await self.connection.execute(
            delete(StoredEvent).where(StoredEvent.tool_id == tool_id, StoredEvent.name.in_(OPEN_NAMES))
        )

    async def withdraw(self, project_id: str, tool_id: str, reason: str) -> None:
        """Nobody wants the call any more: what is open about it goes, and clients are told."""
        await self.settle(tool_id)
        await self.append(project_id, CANCEL, {"tool_id": tool_id, "reason": reason, "timestamp": datetime.now(UTC)})

    async def find_open(self, tool_id: str, name: str) -> dict[str, Any]:
        """The data of the call's open question or signal."""
        query = select(StoredEvent.data).where(StoredEvent.tool_id == tool_id, StoredEvent.name == name)
        data: dict[str, Any] = msgspec.json.decode((await self.connection.execute(query)).scalar_one())
        return data


class Subscription:
    """One stream's place in the live events of a project: a bounded queue."""

    def __init__(self, max_events: int) -> None:
        self.overflowed = asyncio.Event()
        self.ended = False
        self._max_events = max_events
        self._events: deque[Event] = deque()
        self._woken = asyncio.Event()

    def offer(self, event: Event) -> None:
        if len(self._events) >= self._max_events:
            self.overflowed.set()
            self.end()
        if not self.ended:
            self._events.append(event)
            self._woken.set()

    def end(self) -> None:
        self.ended = True
        self._woken.set()

    async def take(self, timeout_s: float) -> list[Event]:
        """All that is queued, waiting for the first; nothing when the time is over or the subscription has ended."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return []
        events = list(self._events)
        self._events.clear()
        if not self.ended:
            self._woken.clear()
        return events


class EventLog:
    """The events of all projects: durable, and live to any number of streams."""

    def __init__(self, database: Database, *, retained: int, queue_events: int) -> None:
        self.database = database
        self._retained = retained
        self._queue_events = queue_events
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._closed = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Its events go out after the commit, in the order of commits."""
        events: list[tuple[str, Event]] = []
        async with self.database.write(committed=lambda: self._publish(events)) as connection:
            transaction = Transaction(connection)
            yield transaction
            events.extend(transaction.events)
            await self._trim(transaction)

    @contextmanager
    def subscribe(self, project_id: str) -> Iterator[Subscription]:
        """Live events from now on; ends at once when the log is closed."""
        subscription = Subscription(self._queue_events)
        if self._closed:
            subscription.end()
        self._subscriptions.setdefault(project_id, set()).add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions[project_id].discard(subscription)
            if not self._subscriptions[project_id]:
                del self._subscriptions[project_id]

    async def plan_replay(self, project_id: str, last_event_id: str | None) -> Replay:
        """What a client that names this id has missed up to now. Subscribe first: later events are live ones.

        After a known id: everything later. After an id that was never given: everything kept. Without an id, which is
        a client that has just been started: the questions and signals that are still open.
        """
        async with self.database.read() as connection:
            query = select(func.max(StoredEvent.id)).where(StoredEvent.project_id == project_id)
            newest = (await connection.execute(query)).scalar_one() or 0
        claimed = int(last_event_id) if last_event_id and _EVENT_ID.fullmatch(last_event_id) else 0
        after = claimed if claimed <= newest else 0
        return Replay(project_id=project_id, after=after, until=newest, open_only=last_event_id is None)

    async def read_replay(self, replay: Replay) -> AsyncIterator[list[Event]]:
        """The missed events, in pages."""
        after = replay.after
        while page := await self._read_page(replay, after):
            yield page
            after = page[-1].id

    def close(self) -> None:
        """Ends all streams, and those that come later at once."""
        self._closed = True
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.end()

    def _publish(self, events: list[tuple[str, Event]]) -> None:
        for project_id, event in events:
            for subscription in self._subscriptions.get(project_id, ()):
                subscription.offer(event)

    async def _read_page(self, replay: Replay, after: int) -> list[Event]:
        query = (
            select(StoredEvent.id, StoredEvent.name, StoredEvent.data)
            .where(StoredEvent.project_id == replay.project_id)
            .where(StoredEvent.id > after, StoredEvent.id <= replay.until)
            .order_by(StoredEvent.id)
            .limit(_REPLAY_PAGE_EVENTS)
        )
        if replay.open_only:
            query = query.where(StoredEvent.name.in_(OPEN_NAMES))
        async with self.database.read() as connection:
            rows = (await connection.execute(query)).all()
        return [Event(id=row.id, name=row.name, data=row.data) for row in rows]

    async def _trim(self, transaction: Transaction) -> None:
        """Now and then, deletes settled events beyond what is kept for a project."""
        for project_id, event in transaction.events:
            if event.id % _TRIM_EVERY_EVENTS:
                continue
            settled = (StoredEvent.project_id == project_id, StoredEvent.name.not_in(OPEN_NAMES))
            oldest_kept = (
                select(StoredEvent.id)
                .where(*settled)
                .order_by(StoredEvent.id.desc())
                .limit(1)
                .offset(self._retained - 1)
                .scalar_subquery()
            )
            await transaction.connection.execute(delete(StoredEvent).where(*settled, StoredEvent.id < oldest_kept))
