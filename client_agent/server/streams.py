"""A stream on the wire: replay, then live events, heartbeats between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from client_agent.protocol import batches
from client_agent.server.events import Event, EventLog, Subscription
from client_agent.server.settings import EventShape

HEARTBEAT = b": heartbeat\n\n"


class StreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one client wants to hear, and until when its token lets it."""

    project_id: str
    last_event_id: str | None
    shape: EventShape
    expires_at: float
    heartbeat_s: float
    retry_ms: int


class EventStream(Response):
    """Ends when the client goes, falls too far behind, its token expires, or the server stops."""

    media_type = "text/event-stream"

    def __init__(self, log: EventLog, wanted: StreamRequest) -> None:
        offer = {batches.HEADER: str(batches.MAX_RESULTS)}
        super().__init__(headers={"Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no", **offer})
        del self.headers["content-length"]
        self._log = log
        self._wanted = wanted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._log.subscribe(self._wanted.project_id) as subscription:
            tasks = {
                asyncio.create_task(self._send_all(subscription, send)),
                asyncio.create_task(wait_for_disconnect(receive)),
                asyncio.create_task(_wait_for_overflow(subscription)),
            }
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _send_all(self, subscription: Subscription, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for chunk in self._chunks(subscription):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _chunks(self, subscription: Subscription) -> AsyncIterator[bytes]:
        """Subscribed before the replay, so that nothing falls between; what came both ways is sent once."""
        wanted = self._wanted
        yield b"retry: %d\n\n" % wanted.retry_ms
        replay = await self._log.plan_replay(wanted.project_id, wanted.last_event_id)
        async for page in self._log.read_replay(replay):
            yield self._render(page)
        while not subscription.ended and (left_s := wanted.expires_at - time.time()) > 0:
            events = await subscription.take(min(wanted.heartbeat_s, left_s))
            fresh = [event for event in events if event.id > replay.until]
            if fresh:
                yield self._render(fresh)
            elif not events and not subscription.ended:
                yield HEARTBEAT

    def _render(self, events: list[Event]) -> bytes:
        return b"".join(event.to_sse(self._wanted.shape) for event in events)


async def wait_for_disconnect(receive: Receive) -> None:
    """Returns when the client has gone. The request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _wait_for_overflow(subscription: Subscription) -> None:
    await subscription.overflowed.wait()
