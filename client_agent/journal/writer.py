"""The one writer: a thread that puts what changed in memory onto the disk, many changes in one transaction.

Calls and posts live in memory while something about them is unfinished or not yet stored; whoever changes one touches
it here. The writer takes everything touched so far, as it stands at that moment, and commits it. A state that was left
again before its turn came never costs a write, and whatever is on disk is how things stood at one moment.

- relaxed: committed soon, nobody waits. Lost with a crash are the last moments of calls that change nothing.
- written: somebody waits for the commit, which then survives this process, with everything touched before it.
- durable: the same, and it survives a loss of power.

When a commit fails, those who wait are told why, and everything stays touched: the next durable change tries again at
once, and the writer itself every second. Nothing needs a restart.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from client_agent.errors import JournalError
from client_agent.journal.audit import AuditEntry, lost_entries
from client_agent.journal.records import CallRecord, Post, PostKind
from client_agent.protocol.calls import Call

RELAXED_DELAY_S = 0.1
ENOUGH_CALLS = 256  # are stored without further delay: what waits in memory stays small, however fast calls come
RETRY_S = 1.0
BEHIND_CALLS = 512  # who finishes a call when so many wait to be stored waits with them
MAX_BACKLOG_BYTES = 64_000_000
MAX_BACKLOG_ENTRIES = 50_000

log = logging.getLogger(__name__)
T = TypeVar("T")
CallKey: TypeAlias = tuple[str, str]
PostKey: TypeAlias = tuple[str, PostKind, str]
Task: TypeAlias = Callable[[sqlite3.Connection], Any]


class Durability(Enum):
    RELAXED = "relaxed"
    WRITTEN = "written"
    DURABLE = "durable"


class CallEntry:
    """A call in memory. `record` is replaced, never changed; `params` is what the writer made of them, once.

    `waits`: its result is not sent before it is durable.
    """

    __slots__ = ("call", "params", "record", "shelf", "waits")

    def __init__(self, record: CallRecord, call: Call | None, shelf: dict[str, CallEntry]) -> None:
        self.record = record
        self.call = call
        self.params: str | None = None
        self.shelf = shelf
        self.waits = record.effects

    def on_stored(self, record: CallRecord) -> None:
        """Leave memory once nothing more can happen."""
        if record.state.final and self.shelf.get(record.tool_id) is self:
            del self.shelf[record.tool_id]


class PostEntry(Protocol):
    """A post in memory, as the writer sees it."""

    post: Post
    body: bytes | None  # None: on disk, or no longer wanted
    keeps_body: bool
    stored: bool

    def on_stored(self, post: Post) -> None: ...


class PostSnapshot(msgspec.Struct, frozen=True):
    entry: PostEntry
    post: Post
    body: bytes | None
    keeps_body: bool
    stored: bool


class Batch(msgspec.Struct):
    """Everything touched up to one moment."""

    calls: list[tuple[CallEntry, CallRecord]]
    posts: list[PostSnapshot]
    positions: dict[str, str]
    entries: list[AuditEntry]
    tasks: list[tuple[Task, Future[Any]]]
    waiters: list[asyncio.Future[None] | Future[None]]
    durability: Durability  # the most that anybody asked for


class Storage(Protocol):
    """Where a batch goes. Each method raises JournalError."""

    def save(self, batch: Batch) -> None: ...
    def settle(self) -> None: ...
    def run(self, task: Task) -> Any: ...


class Writer:
    """Hold `lock` to change entries, touch them and ask for a commit: what one hold touches is stored together."""

    def __init__(self, storage: Storage) -> None:
        self.lock = threading.Lock()
        self.trouble: JournalError | None = None
        self.backlog_bytes = 0
        self._storage = storage
        self._wake = threading.Condition(self.lock)
        self._idle = False
        self._urgent = False
        self._stopping = False
        self._is_settled = True
        self._settled_at = -math.inf
        self._calls: dict[CallKey, CallEntry] = {}
        self._posts: dict[PostKey, PostEntry] = {}
        self._positions: dict[str, str] = {}
        self._entries: list[AuditEntry] = []
        self._lost_entries = 0
        self._tasks: list[tuple[Task, Future[Any]]] = []
        self._waiters: list[asyncio.Future[None] | Future[None]] = []
        self._durability = Durability.RELAXED
        self._thread = threading.Thread(target=self._work, name="journal-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Store what is touched and end. Raises JournalError when that cannot be stored."""
        with self.lock:
            self._stopping = True
            self._wake.notify()
        self._thread.join()
        if self.trouble is not None:
            raise self.trouble

    # With `lock` held.

    def touch_call(self, entry: CallEntry) -> None:
        self._calls[entry.record.workspace, entry.record.tool_id] = entry
        if len(self._calls) == ENOUGH_CALLS:
            self._wake.notify()
        self._stir()

    def touch_post(self, entry: PostEntry) -> None:
        self._posts[entry.post.key] = entry
        if entry.body is not None and not entry.stored:
            self.backlog_bytes += len(entry.body)
        self._stir()

    def touch_position(self, workspace: str, event_id: str) -> None:
        self._positions[workspace] = event_id
        self._stir()

    def stored(self, durability: Durability = Durability.DURABLE) -> asyncio.Future[None]:
        """Done when everything touched so far is written, or durable; fails with JournalError."""
        future = asyncio.get_running_loop().create_future()
        self._wait(future, durability)
        return future

    @property
    def backlog(self) -> int:
        """How many calls and posts are touched and not stored."""
        return len(self._calls) + len(self._posts)

    @property
    def is_behind(self) -> bool:
        """Whether more comes in than gets onto the disk."""
        return len(self._calls) > BEHIND_CALLS or self.backlog_bytes > MAX_BACKLOG_BYTES

    def _wait(self, waiter: asyncio.Future[None] | Future[None], durability: Durability) -> None:
        self._waiters.append(waiter)
        if self._durability is not Durability.DURABLE:
            self._durability = durability
        self._urgent = True
        self._wake.notify()

    def _stir(self) -> None:
        if self._idle:
            self._idle = False
            self._wake.notify()

    # Without it.

    def note(self, entry: AuditEntry) -> None:
        """Add to the audit log, in this order, with the next commit. When far too many wait, they are only counted."""
        with self.lock:
            if len(self._entries) < MAX_BACKLOG_ENTRIES:
                self._entries.append(entry)
            else:
                self._lost_entries += 1
            self._stir()

    def flush(self) -> None:
        """Wait, blocking this thread, until everything touched so far is stored. Raises JournalError."""
        waiter: Future[None] = Future()
        with self.lock:
            self._wait(waiter, Durability.DURABLE)
        waiter.result()

    async def run(self, task: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on the writer's connection, in a transaction of its own. Raises JournalError."""
        future: Future[Any] = Future()
        with self.lock:
            self._tasks.append((task, future))
            self._urgent = True
            self._wake.notify()
        result: T = await asyncio.wrap_future(future)
        return result

    # The thread.

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            error = self._attempt(partial(self._storage.save, batch))
            self._set_trouble(error)
            with self.lock:
                self._settle_memory(batch, error)
            self._tell(batch.waiters, error)
            if error is None and (error := self._settle_storage(batch)) is not None:
                self._set_trouble(error)
            for task, future in batch.tasks:
                _run_task(self._storage, task, future)
            if self._stopping and error is not None:
                return
            del batch  # not kept in memory until the next one

    def _take(self) -> Batch | None:
        """The next batch; None when there will be none.

        One is seldom alone: for a while after the last nobody has to wake the writer for what can wait.
        """
        delay = RELAXED_DELAY_S if self.trouble is None else RETRY_S
        with self.lock:
            while not self._wake.wait_for(self._is_wanted, timeout=delay):
                if self._has_work():
                    break
                self._idle = True
                self._wake.wait()
                self._idle = False
            return self._cut() if self._has_work() else None

    def _is_wanted(self) -> bool:
        return self._urgent or self._stopping or (len(self._calls) >= ENOUGH_CALLS and self.trouble is None)

    def _settle_storage(self, batch: Batch) -> JournalError | None:
        """Let what a durable commit left behind follow it: once for several that come close upon each other."""
        now = time.monotonic()
        if batch.durability is Durability.DURABLE:
            self._is_settled = False
        if self._is_settled or (batch.waiters and now - self._settled_at < RELAXED_DELAY_S):
            return None
        self._is_settled, self._settled_at = True, now
        return self._attempt(self._storage.settle)

    def _has_work(self) -> bool:
        touched = self._calls or self._posts or self._positions or self._entries
        return bool(touched or self._tasks or self._waiters or not self._is_settled)

    def _cut(self) -> Batch:
        if self._lost_entries:
            self._entries.append(lost_entries(self._lost_entries))
            self._lost_entries = 0
        batch = Batch(
            calls=[(entry, entry.record) for entry in self._calls.values()],
            posts=[PostSnapshot(e, e.post, e.body, e.keeps_body, e.stored) for e in self._posts.values()],
            positions=self._positions,
            entries=self._entries,
            tasks=self._tasks,
            waiters=self._waiters,
            durability=self._durability,
        )
        self._calls, self._posts, self._positions = {}, {}, {}
        self._entries, self._tasks, self._waiters = [], [], []
        self._durability = Durability.RELAXED
        self._urgent = False
        self.backlog_bytes = 0
        return batch

    def _attempt(self, action: Callable[[], None]) -> JournalError | None:
        try:
            action()
        except JournalError as error:
            return error
        except Exception as error:
            # A thread that died of it would leave everybody waiting.
            log.exception("the journal cannot store what it was given")
            return JournalError(f"the journal failed: {error!r}")
        return None

    def _settle_memory(self, batch: Batch, error: JournalError | None) -> None:
        if error is not None:
            self._put_back(batch)
            return
        for entry, record in batch.calls:
            entry.on_stored(record)
        for snapshot in batch.posts:
            snapshot.entry.on_stored(snapshot.post)

    def _put_back(self, batch: Batch) -> None:
        """Touch everything again, the older first; what was touched meanwhile is newer anyway."""
        self._calls = {(r.workspace, r.tool_id): entry for entry, r in batch.calls} | self._calls
        self._posts = {snapshot.post.key: snapshot.entry for snapshot in batch.posts} | self._posts
        self._positions = batch.positions | self._positions
        self._entries = batch.entries + self._entries
        self.backlog_bytes = sum(len(e.body) for e in self._posts.values() if e.body is not None and not e.stored)

    def _tell(self, waiters: list[asyncio.Future[None] | Future[None]], error: JournalError | None) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for waiter in waiters:
            if isinstance(waiter, Future):
                _settle(waiter, error)
            else:
                by_loop.setdefault(waiter.get_loop(), []).append(waiter)
        for loop, futures in by_loop.items():
            try:
                loop.call_soon_threadsafe(_settle_all, futures, error)
            except RuntimeError:  # the loop was closed, and nobody waits any more
                log.debug("nobody waits for this commit any more")

    def _set_trouble(self, error: JournalError | None) -> None:
        if error is not None and (self.trouble is None or self.trouble.code != error.code):
            log.error("nothing can be recorded, so nothing will run: %s", error.message)
        elif error is None and self.trouble is not None:
            log.warning("the journal records again")
        self.trouble = error


def _settle_all(futures: list[asyncio.Future[None]], error: JournalError | None) -> None:
    for future in futures:
        _settle(future, error)


def _settle(future: asyncio.Future[None] | Future[None], error: JournalError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:  # one each: an exception gathers the traces of all who raise it
        future.set_exception(JournalError(error.message, code=error.code, **error.details))


def _run_task(storage: Storage, task: Task, future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(storage.run(task))
    except Exception as error:  # noqa: BLE001 - it belongs to whoever asked
        future.set_exception(error)
