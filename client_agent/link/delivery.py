"""Delivers what waits in a workspace's outbox, many at a time, each until the server has it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import msgspec

from client_agent.journal.outbox import DuePost, Outbox
from client_agent.journal.records import PostKind
from client_agent.link import verdicts
from client_agent.link.backoff import jittered_s
from client_agent.link.connection import ServerConnection
from client_agent.link.verdicts import Delivery

IN_FLIGHT = 64  # as many as the connection pool has
RETRY_MIN_S, RETRY_MAX_S = 0.5, 60.0
UNAUTHORIZED_WAIT_S = 30.0  # until somebody has logged in again
SHORTENED_CHARS = 50_000

log = logging.getLogger(__name__)


class Courier:
    """Takes posts from one outbox to one server. A post that fails waits for its own turn; the others go on."""

    def __init__(self, outbox: Outbox, connection: ServerConnection) -> None:
        self._outbox = outbox
        self._connection = connection
        self._free = asyncio.Semaphore(IN_FLIGHT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._shortened: set[str] = set()  # results that were sent shortened, and will not be a second time

    async def run(self) -> None:
        """Delivers for ever; what is under way when it is cancelled is dropped and stays in the outbox."""
        try:
            while True:
                await self._free.acquire()
                self._free.release()
                for due in await self._outbox.due(IN_FLIGHT - len(self._tasks)):
                    await self._free.acquire()
                    task = asyncio.create_task(self._carry(due))
                    self._tasks.add(task)
                    task.add_done_callback(self._done)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._free.release()

    async def _carry(self, due: DuePost) -> None:
        try:
            await self._try_once(due)
        except Exception as error:  # noqa: BLE001 - whatever it is, the result must not be lost with it
            log.warning("posting the %s of %s failed unexpectedly: %r", due.post.kind, due.post.target, error)
            at = time.time() + RETRY_MAX_S
            self._outbox.mark_retry(due.post.kind, due.post.target, at=at, problem=type(error).__name__)

    async def _try_once(self, due: DuePost) -> None:
        delivery = await self._post(due.post.kind, due.post.target, due.body)
        if delivery.outcome is verdicts.Outcome.TOO_LARGE and due.post.target not in self._shortened:
            self._shortened.add(due.post.target)
            delivery = await self._post(due.post.kind, due.post.target, shorten(due.body))
        self._settle(due, delivery)

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
                self._shortened.discard(target)
                self._outbox.mark_delivered(kind, target)
            case verdicts.Outcome.RETRY:
                wait_s = jittered_s(
                    due.post.attempts, cap_s=RETRY_MAX_S, floor_s=max(RETRY_MIN_S, delivery.retry_after_s)
                )
                self._outbox.mark_retry(kind, target, at=time.time() + wait_s, problem=delivery.detail)
            case verdicts.Outcome.UNAUTHORIZED:
                self._outbox.mark_retry(kind, target, at=time.time() + UNAUTHORIZED_WAIT_S)
            case _:
                log.warning("the server will not take the %s of %s: %s", kind, target, delivery.detail)
                self._shortened.discard(target)
                self._outbox.mark_dead(kind, target, delivery.detail)


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
