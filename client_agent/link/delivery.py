"""Delivers what waits in a workspace's outbox, many at a time, each until the server has it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from typing import Any

import msgspec

from client_agent.errors import JournalError
from client_agent.journal.outbox import DuePost, Outbox
from client_agent.journal.records import PostKind
from client_agent.link import verdicts
from client_agent.link.backoff import jittered_s
from client_agent.link.connection import ServerConnection
from client_agent.link.verdicts import Delivery

IN_FLIGHT = 64  # half of the connection pool: the stream and approvals never wait for results
BATCHED_MAX_BYTES = 16_384  # a larger result goes alone: it would hold up the small ones
RETRY_MIN_S, RETRY_MAX_S = 0.5, 60.0
UNAUTHORIZED_WAIT_S = 30.0  # until somebody has logged in again
SHORTENED_CHARS = 50_000
JOURNAL_RETRY_S = 1.0

log = logging.getLogger(__name__)


class Courier:
    """Takes posts from one outbox to one server. A post that fails waits for its own turn; the others go on."""

    def __init__(self, outbox: Outbox, connection: ServerConnection) -> None:
        self._outbox = outbox
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._running = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._under_way = 0  # posts, of which several may go in one batch
        self._looking = False  # a look at what is due is on its way
        self._later: asyncio.TimerHandle | None = None
        self._too_large: set[str] = set()  # results that the server does not take whole
        self._told: set[str] = set()  # troubles that were told aloud, until something is delivered again

    async def run(self) -> None:
        """Delivers for ever; what is under way when it is cancelled is dropped and stays in the outbox."""
        self._running = True
        self._outbox.tell(self._look_soon)
        self._look()
        try:
            await self._loop.create_future()
        finally:
            self._running = False
            self._outbox.tell(None)
            self._look_again_in(None)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def deliver_next(self) -> None:
        """Delivers what is due in the caller's own task, if nothing is on its way: a few turns of the loop sooner."""
        if self._running and self._under_way == 0 and (due := self._take(1, time.time())):
            task = asyncio.current_task()
            assert task is not None  # noqa: S101
            self._tasks.add(task)
            try:
                await self._carry(due)
            finally:
                self._tasks.discard(task)

    def _look_soon(self) -> None:
        """From any thread, and as often as one likes: what is due by then goes out together."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody delivers any more
                self._loop.call_soon_threadsafe(self._look_soon)
        elif not self._looking:
            self._looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Sends what is due, as much as may be under way; looks again when more is due, or has become possible."""
        self._looking = False
        now = time.time()  # the same for both: what becomes due in between would be left lying
        for parcel in pack(self._take(IN_FLIGHT - self._under_way, now), self._connection.batch_max):
            self._send(parcel)
        self._look_again_in(self._outbox.wait_s(now))

    def _take(self, limit: int, now: float) -> list[DuePost]:
        """What to send now. While the journal cannot be read nothing is sent, and nothing is lost."""
        try:
            due = self._outbox.next_due(limit, now)
        except JournalError as error:
            self._tell_once("what waits to be sent cannot be read", error.message)
            self._loop.call_later(JOURNAL_RETRY_S, self._look_soon)
            return []
        self._under_way += len(due)
        return due

    def _look_again_in(self, wait_s: float | None) -> None:
        """Not for what is due already: there was no room for it, and whoever makes room looks again."""
        if self._later is not None:
            self._later.cancel()
        self._later = self._loop.call_later(wait_s, self._look_soon) if wait_s else None

    def _send(self, parcel: list[DuePost]) -> None:
        task = asyncio.create_task(self._carry(parcel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, parcel: list[DuePost]) -> None:
        try:
            if len(parcel) == 1:
                await self._try_once(parcel[0])
            else:
                await self._try_batch(parcel)
        except Exception as error:  # noqa: BLE001 - whatever it is, no result must be lost with it
            at = time.time() + RETRY_MAX_S
            for due in parcel:
                log.warning("posting the %s of %s failed unexpectedly: %r", due.post.kind, due.post.target, error)
                self._outbox.mark_retry(due.post.kind, due.post.target, at=at, problem=type(error).__name__)
        finally:
            if self._under_way >= IN_FLIGHT:
                self._look_soon()
            self._under_way -= len(parcel)

    async def _try_batch(self, parcel: list[DuePost]) -> None:
        """Each result of a batch has an answer of its own. What a batch cannot do is tried one by one, at once."""
        deliveries = await self._connection.post_results([(due.post.target, due.body) for due in parcel])
        for due in parcel:
            delivery = deliveries.get(due.post.target) if deliveries is not None else None
            if delivery is None or delivery.outcome is verdicts.Outcome.TOO_LARGE:
                self._under_way += 1
                self._send([due])
            else:
                self._settle(due, delivery)

    async def _try_once(self, due: DuePost) -> None:
        kind, target = due.post.kind, due.post.target
        if target not in self._too_large:
            delivery = await self._post(kind, target, due.body)
            if delivery.outcome is not verdicts.Outcome.TOO_LARGE:
                return self._settle(due, delivery)
            self._too_large.add(target)
        return self._settle(due, await self._post(kind, target, shorten(due.body)))

    async def _post(self, kind: PostKind, target: str, body: bytes) -> Delivery:
        match kind:
            case PostKind.APPROVE:
                return await self._connection.approve(target)
            case PostKind.REJECT:
                reason = str(msgspec.json.decode(body).get("reason", ""))
                return await self._connection.reject(target, reason)
            case PostKind.RESULT | PostKind.REFUSAL:
                return await self._connection.post_result(target, body)

    def _settle(self, due: DuePost, delivery: Delivery) -> None:
        kind, target = due.post.kind, due.post.target
        match delivery.outcome:
            case verdicts.Outcome.DELIVERED:
                self._too_large.discard(target)
                self._told.clear()
                self._outbox.mark_delivered(kind, target)
            case verdicts.Outcome.RETRY:
                floor_s = max(RETRY_MIN_S, delivery.retry_after_s)
                wait_s = jittered_s(due.post.attempts, cap_s=RETRY_MAX_S, floor_s=floor_s)
                now = time.time()
                self._outbox.mark_retry(
                    kind, target, at=now + wait_s, problem=delivery.detail, not_before=now + delivery.retry_after_s
                )
            case verdicts.Outcome.UNAUTHORIZED:
                self._tell_once("results wait until the server takes the token", delivery.detail)
                self._outbox.mark_retry(
                    kind, target, at=time.time() + UNAUTHORIZED_WAIT_S, problem=delivery.detail, attempted=False
                )
            case _:
                log.warning("the server will not take the %s of %s: %s", kind, target, delivery.detail)
                self._too_large.discard(target)
                self._outbox.mark_dead(kind, target, delivery.detail)

    def _tell_once(self, trouble: str, detail: str) -> None:
        log.log(logging.DEBUG if trouble in self._told else logging.WARNING, "%s: %s", trouble, detail)
        self._told.add(trouble)


def pack(due: list[DuePost], batch_max: int) -> list[list[DuePost]]:
    """What goes in one post each: small results together, so many at most, and everything else alone."""
    if batch_max < 2 or len(due) < 2:  # noqa: PLR2004 - one is no batch
        return [[each] for each in due]
    small: list[DuePost] = []
    alone: list[DuePost] = []
    for each in due:
        fits = each.post.kind is PostKind.RESULT and len(each.body) <= BATCHED_MAX_BYTES
        (small if fits else alone).append(each)
    return [small[start : start + batch_max] for start in range(0, len(small), batch_max)] + [[each] for each in alone]


def shorten(body: bytes) -> bytes:
    """A result that the server found too large, with every long text cut in the middle and a marker that says so."""
    wire = msgspec.json.decode(body)
    result = {name: _shorten_value(value) for name, value in (wire.get("result") or {}).items()}
    return msgspec.json.encode({**wire, "result": {**result, "truncated": True}})


def _shorten_value(value: Any) -> Any:
    if isinstance(value, str) and len(value) > SHORTENED_CHARS:
        half = SHORTENED_CHARS // 2
        missing = len(value) - 2 * half
        return f"{value[:half]}\n[… {missing} characters left out: the server takes no more …]\n{value[-half:]}"
    if isinstance(value, list):
        return value[:100]
    return value
