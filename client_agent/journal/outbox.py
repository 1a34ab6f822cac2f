"""What is still to be said to the server of one workspace, oldest first, each with a due time of its own.

Nothing leaves before it is acknowledged: by the answer to the request, or by an event. What is due is known in memory;
bodies that are stored are read from the disk when their turn comes, so that a long outage costs no memory.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from client_agent.journal.reader import Reader
from client_agent.journal.records import Post, PostKind, PostState
from client_agent.journal.writer import Writer

# A result that was waited for goes out as soon as it is stored: it need not be read back, unless many stand before it.
MAX_KEPT = 16
MAX_KEPT_BYTES = 65_536
# No try is put off further than this: what is due later than that was put there before the clock was set back.
MAX_AHEAD_S = 4000.0


class Slot:
    """A post in memory. A held one waits for its call's result to be stored before it may be sent."""

    __slots__ = ("body", "held", "keeps_body", "not_before", "outbox", "place", "post", "stored")

    def __init__(self, outbox: Outbox, post: Post, body: bytes | None) -> None:
        self.outbox = outbox
        self.post = post
        self.body = body
        self.keeps_body = True
        self.stored = body is None
        self.held = False
        self.not_before = 0.0  # the server named this time: nothing hastens it
        self.place = -1  # where it stands in the queue; an older place that is still there does not count

    @property
    def sendable(self) -> bool:
        if self.body is not None:
            return True
        return self.stored and self.post.has_body and (self.keeps_body or self.post.state is PostState.WAITING)

    def on_stored(self, post: Post) -> None:
        self.stored = True
        if not (self.held and self.outbox.may_keep(self)):
            self.body = None
        if self.held:
            self.held = False
            self.outbox.push(self)
        if self.post is post and post.state is not PostState.WAITING:
            self.outbox.forget(self)


class DuePost(msgspec.Struct, frozen=True):
    """A post whose turn has come, with what to send."""

    post: Post
    body: bytes


class Outbox:
    """The posts of one workspace. Whoever takes a post says what became of it: delivered, retry or dead."""

    def __init__(self, workspace: str, writer: Writer, reader: Reader, now: Callable[[], float]) -> None:
        self._workspace = workspace
        self._writer = writer
        self._reader = reader
        self._now = now
        self._slots: dict[tuple[PostKind, str], Slot] = {}
        self._heap: list[tuple[float, int, Slot]] = []
        self._order = itertools.count()
        self._on_due: Callable[[], None] = _nobody
        due_at = now()  # after a restart everything is tried at once: a clock set back must not silence us
        for post in reader.waiting_posts(workspace):
            slot = Slot(self, msgspec.structs.replace(post, due_at=due_at), None)
            self._slots[post.kind, post.target] = slot
            self.push(slot)

    def __len__(self) -> int:
        """How many wait to be acknowledged."""
        return sum(slot.post.state is PostState.WAITING for slot in self._slots.values())

    # Taking.

    def tell(self, on_due: Callable[[], None] | None) -> None:
        """Call this whenever something may be due, in whatever thread made it so and with the writer's lock held."""
        self._on_due = on_due or _nobody

    def next_due(self, limit: int, now: float) -> list[DuePost]:
        """Take up to `limit` posts that are due, oldest due first. Raises JournalError when a body cannot be read."""
        found: list[DuePost] = []
        with self._writer.lock:
            while len(found) < limit and self._heap and _is_due(self._heap[0][0], now):
                _, place, slot = self._heap[0]
                if not self._is_current(place, slot):
                    heapq.heappop(self._heap)
                    continue
                body = slot.body if slot.body is not None else self._reader.body(slot.post)
                heapq.heappop(self._heap)
                if slot.stored:
                    slot.body = None
                if body is None:
                    self._change(slot, state=PostState.DEAD, problem="its body is no longer in the journal")
                else:
                    found.append(DuePost(slot.post, body))
        return found

    def wait_s(self, now: float) -> float | None:
        """How long until something is due; None while nothing is."""
        with self._writer.lock:
            while self._heap and not self._is_current(*self._heap[0][1:]):
                heapq.heappop(self._heap)
            if not self._heap:
                return None
            due_at = self._heap[0][0]
            return 0.0 if _is_due(due_at, now) else due_at - now

    # What became of it.

    def mark_delivered(self, kind: PostKind, target: str) -> None:
        """The server has it. Saying so again, or of something unknown, is nothing."""
        with self._writer.lock:
            slot = self._slots.get((kind, target))
            if slot is not None and slot.post.state is PostState.WAITING:
                if not slot.keeps_body:
                    slot.body = None
                self._change(slot, state=PostState.DELIVERED, delivered_at=self._now(), problem=None)

    def mark_retry(
        self,
        kind: PostKind,
        target: str,
        *,
        at: float,
        problem: str,
        attempted: bool = True,
        not_before: float = 0.0,
    ) -> None:
        """It did not get through; try again then. One that the server did not look at was not attempted."""
        with self._writer.lock:
            slot = self._slots.get((kind, target))
            if slot is not None and slot.post.state is PostState.WAITING:
                attempts = slot.post.attempts + attempted
                slot.not_before = not_before
                self._change(slot, due_at=at, attempts=attempts, problem=problem)
                self.push(slot)

    def mark_dead(self, kind: PostKind, target: str, problem: str) -> None:
        """The server will never take it: kept to be shown, no longer tried."""
        with self._writer.lock:
            slot = self._slots.get((kind, target))
            if slot is not None and slot.post.state is PostState.WAITING:
                attempts = slot.post.attempts + 1
                self._change(slot, state=PostState.DEAD, problem=problem, attempts=attempts)

    # For people.

    def retry(self, kind: PostKind, target: str) -> bool:
        """Send it, or send it again, now; False when its body is not there to be sent."""
        with self._writer.lock:
            return self.send_again(kind, target)

    def hasten(self) -> None:
        """What waits is due now, but for what the server itself put off: the connection is back."""
        now = self._now()
        with self._writer.lock:
            self._heap = [(min(due_at, max(now, slot.not_before)), place, slot) for due_at, place, slot in self._heap]
            heapq.heapify(self._heap)
            self._on_due()

    def drop(self, kind: PostKind, target: str) -> bool:
        """Give it up; False when there is nothing of that name to give up."""
        with self._writer.lock:
            slot = self._find(kind, target)
            if slot is None or slot.post.state not in (PostState.WAITING, PostState.DEAD):
                return False
            self._change(slot, state=PostState.DROPPED)
            return True

    # For the ledger and the writer, with the writer's lock held.

    def put(self, kind: PostKind, target: str, body: bytes) -> Slot:
        """Add something to be sent, in place of what had this name. It is not due before `push`, or before stored."""
        now = self._now()
        post = Post(
            workspace=self._workspace, kind=kind, target=target, state=PostState.WAITING, created_at=now, due_at=now
        )
        slot = Slot(self, post, body)
        self._slots[kind, target] = slot
        self._writer.touch_post(slot)
        return slot

    def push(self, slot: Slot) -> None:
        """It may be sent when it is due."""
        slot.place = next(self._order)
        heapq.heappush(self._heap, (slot.post.due_at, slot.place, slot))
        self._on_due()

    def release(self, slot: Slot) -> None:
        """It may be sent although it is not stored: nothing was executed that would be forgotten with it."""
        if slot.held:
            slot.held = False
            self.push(slot)

    def may_keep(self, slot: Slot) -> bool:
        """Whether its body may stay in memory although it is stored: a small one, whose turn is about to come."""
        return slot.body is not None and len(slot.body) <= MAX_KEPT_BYTES and len(self._heap) < MAX_KEPT

    def forget(self, slot: Slot) -> None:
        key = (slot.post.kind, slot.post.target)
        if self._slots.get(key) is slot:
            del self._slots[key]

    def send_again(self, kind: PostKind, target: str) -> bool:
        slot = self._find(kind, target)
        if slot is None or not slot.sendable:
            return False
        if not slot.held:
            self._change(slot, state=PostState.WAITING, due_at=self._now(), problem=None)
            self._slots[kind, target] = slot
            self.push(slot)
        return True

    def _find(self, kind: PostKind, target: str) -> Slot | None:
        slot = self._slots.get((kind, target))
        if slot is None and (post := self._reader.post(self._workspace, kind, target)) is not None:
            slot = Slot(self, post, None)
        return slot

    def _change(self, slot: Slot, **changes: Any) -> None:
        slot.post = msgspec.structs.replace(slot.post, **changes)
        self._writer.touch_post(slot)

    def _is_current(self, place: int, slot: Slot) -> bool:
        """Whether this place in the queue still stands: not moved, delivered, given up or replaced since."""
        post = slot.post
        return (
            slot.place == place
            and post.state is PostState.WAITING
            and self._slots.get((post.kind, post.target)) is slot
        )


def _is_due(due_at: float, now: float) -> bool:
    return due_at <= now or due_at > now + MAX_AHEAD_S


def _nobody() -> None:
    """Who is told while nobody delivers."""
