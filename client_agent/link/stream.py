"""The event stream: opened, read, and opened again after whatever happens to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from typing import TypeVar

import httpx
import msgspec
from yarl import URL

from client_agent.config import Link
from client_agent.link.backoff import Backoff
from client_agent.link.credentials import Credentials
from client_agent.link.http import TRANSPORT_ERRORS, HttpPool, describe, headline, read_answer
from client_agent.link.origin import RedirectRefused
from client_agent.link.status import LinkState, StatusBoard
from client_agent.link.verdicts import Pace, StreamVerdict, judge_stream
from client_agent.protocol import batches
from client_agent.protocol.messages import Message, decode_event, malformed
from client_agent.protocol.sse import EventTooLarge, SseDecoder

MAX_EVENT_BYTES = 160 * 2**20  # a write of the largest file, with room for what JSON escapes
STABLE_S = 10.0  # a connection that held this long was a good one, even without an event
_MAX_ID_BYTES = 4096  # servers take header lines of about this length

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Received(msgspec.Struct, frozen=True):
    """One event; `event_id` is what to resume after, once it is handled."""

    event_id: str
    message: Message


class _Refused(Exception):
    """The server did not open the stream."""

    def __init__(self, verdict: StreamVerdict) -> None:
        self.verdict = verdict


class _Silent(Exception):
    """Nothing came in time."""


class _Woken(Exception):
    """Someone wants a new connection now."""


_TROUBLE = (_Refused, _Silent, _Woken, EventTooLarge, RedirectRefused, *TRANSPORT_ERRORS)


class EventStream:
    """The events of one project, for one consumer, who sets the pace: nothing is read ahead of a few kilobytes.

    Asking for the next event says that the last one is handled: a reconnect resumes after it. Nothing the server or the
    network does ends the iteration. An event over the limit comes as `Malformed` and is passed by when its id was seen;
    without an id nothing can be passed by, and the stream is tried again with growing waits.
    """

    def __init__(
        self,
        pool: HttpPool,
        url: URL,
        credentials: Credentials,
        settings: Link,
        status: StatusBoard,
        *,
        last_event_id: str = "",
    ) -> None:
        self.last_event_id = last_event_id
        self._pool = pool
        self._url = url
        self._credentials = credentials
        self._deadline_s = settings.heartbeat_deadline_s
        self._retry_max_s = settings.reconnect_max_s
        self._status = status
        self._backoff = Backoff(settings.reconnect_max_s)
        self._retry_s = 0.0  # the server's `retry:`
        self._renewed = False  # whether a new token was tried since the last good answer
        self._woken = asyncio.Event()
        self._wait: asyncio.Timeout | None = None
        self._waits_since = 0.0  # by the loop's clock
        self._watch: asyncio.TimerHandle | None = None
        self.batch_max = 0  # how many results the server takes in one post

    def wake(self) -> None:
        """Asks for a new connection at once, whatever is being waited for: the machine slept, or the user says so."""
        self._woken.set()
        self._end_wait()

    async def __aiter__(self) -> AsyncGenerator[Received, None]:
        while True:
            token = self._credentials.known
            try:
                async with AsyncExitStack() as stack:
                    response = await self._open(stack, token)
                    events = await stack.enter_async_context(aclosing(self._read(response)))
                    async for received in events:
                        yield received
                verdict = StreamVerdict(LinkState.RETRYING, Pace.BACKOFF, "the server ended the stream")
            except _TROUBLE as error:
                verdict = await self._explain(error)
            await self._pause(await self._with_new_token(verdict, token), token)

    async def _open(self, stack: AsyncExitStack, token: str | None) -> httpx.Response:
        """The response to read events from; it lives as long as the stack. Raises _TROUBLE."""
        if token is None:
            raise _Refused(StreamVerdict(LinkState.UNAUTHORIZED, Pace.SLOW, self._credentials.problem))
        opening = self._pool.stream(self._url, self._headers(token))
        response = await self._bounded(stack.enter_async_context(opening), self._deadline_s)
        verdict = judge_stream(headline(response), datetime.now(UTC))
        if verdict.state is not LinkState.CONNECTED:
            answer = await self._bounded(read_answer(response), self._deadline_s)
            raise _Refused(judge_stream(answer, datetime.now(UTC)))
        self._renewed = False
        self.batch_max = batches.read_offer(response.headers.get(batches.HEADER, ""))
        self._status.post(LinkState.CONNECTED)
        _log.info("connected to %s", self._url.origin())
        return response

    def _headers(self, token: str) -> dict[str, str | bytes]:
        headers: dict[str, str | bytes] = {"Authorization": f"Bearer {token}"}
        last_id = self.last_event_id.encode()
        if last_id and len(last_id) <= _MAX_ID_BYTES and min(last_id) >= 0x20 and 0x7F not in last_id:  # noqa: PLR2004
            headers["Last-Event-ID"] = last_id
        return headers

    async def _read(self, response: httpx.Response) -> AsyncGenerator[Received, None]:
        decoder = SseDecoder(MAX_EVENT_BYTES, self.last_event_id)
        clock = asyncio.get_running_loop().time
        opened = clock()
        # Nothing else was asked for, so hardly any server encodes its stream: most need no decoder.
        chunks = response.aiter_bytes() if response.headers.get("content-encoding") else response.aiter_raw()
        self._watch_silence()
        try:
            while (chunk := await self._bounded(anext(chunks, None), None)) is not None:
                self._status.hear()
                for event in decoder.feed(chunk):
                    self._backoff.reset()
                    yield Received(event.id, decode_event(event.event, event.data))
                    self.last_event_id = event.id
                self.last_event_id = decoder.last_event_id  # a block without data moves the id too
        except EventTooLarge as error:
            told = malformed(error.event, f"larger than {MAX_EVENT_BYTES} bytes", error.start)
            if error.event_id is not None or told.tool_id is not None:
                event_id = self.last_event_id if error.event_id is None else error.event_id
                yield Received(event_id, told)
                self.last_event_id = event_id
            raise
        finally:
            if self._watch is not None:
                self._watch.cancel()
            if decoder.retry_ms is not None:
                self._retry_s = min(decoder.retry_ms / 1000, self._retry_max_s)
            if clock() - opened >= STABLE_S:
                self._backoff.reset()

    def _watch_silence(self) -> None:
        """Ends a wait for the next bytes that has become too long. A timer for each would cost more than the bytes."""
        loop = asyncio.get_running_loop()
        waited_s = loop.time() - self._waits_since if self._wait is not None else 0.0
        if waited_s >= self._deadline_s:
            self._end_wait()
        else:
            self._watch = loop.call_later(self._deadline_s - waited_s, self._watch_silence)

    async def _bounded(self, work: Awaitable[T], within_s: float | None) -> T:
        """Waits for the server no longer than this, and not at all once woken."""
        self._waits_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(0 if self._woken.is_set() else within_s) as self._wait:
                return await work
        except TimeoutError:
            if self._woken.is_set():
                raise _Woken from None
            if self._wait is not None and self._wait.expired():
                raise _Silent from None
            raise  # the network's own
        finally:
            self._wait = None

    def _end_wait(self) -> None:
        if self._wait is not None and not self._wait.expired():
            self._wait.reschedule(asyncio.get_running_loop().time())

    async def _explain(self, error: Exception) -> StreamVerdict:
        """The verdict on what ended the connection, or kept it from opening."""
        if isinstance(error, (_Silent, _Woken)):
            await self._pool.renew()  # one connection was open in name only: so may the others be
        match error:
            case _Refused():
                return error.verdict
            case RedirectRefused():
                return StreamVerdict(LinkState.REDIRECTED, Pace.SLOW, error.message)
            case _Woken():
                return StreamVerdict(LinkState.RETRYING, Pace.AT_ONCE, "connecting anew")
            case _Silent():
                detail = f"nothing heard from the server for {self._deadline_s:g} s"
            case EventTooLarge():
                detail = f"the server sent an event larger than {MAX_EVENT_BYTES} bytes"
            case _:
                detail = describe(error)
        return StreamVerdict(LinkState.RETRYING, Pace.BACKOFF, detail)

    async def _with_new_token(self, verdict: StreamVerdict, refused: str | None) -> StreamVerdict:
        """The verdict, turned into another try at once where a refused token can be replaced; else with a remedy."""
        if verdict.state is not LinkState.UNAUTHORIZED:
            return verdict
        if not self._renewed:
            self._renewed = True
            if await self._credentials.renew(refused):
                return StreamVerdict(LinkState.RETRYING, Pace.AT_ONCE, "trying a new token")
        remedy = self._credentials.problem or "run `client-agent login`"
        detail = verdict.detail if remedy in verdict.detail else f"{verdict.detail}; {remedy}"
        return msgspec.structs.replace(verdict, detail=detail)

    async def _pause(self, verdict: StreamVerdict, token: str | None) -> None:
        match verdict.pace:
            case Pace.AT_ONCE:
                wait_s = 0.0
            case Pace.BACKOFF:
                wait_s = self._backoff.next_s(max(self._retry_s, verdict.at_least_s))
            case Pace.SLOW:
                wait_s = self._backoff.slow_s(verdict.at_least_s)
        detail = self._credentials.mask(verdict.detail)
        _log.log(self._loudness(verdict), "%s: %s; next try in %.1f s", verdict.state, detail, wait_s)
        self._status.post(verdict.state, detail, retry_in_s=wait_s)
        try:
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()
        if verdict.state is LinkState.UNAUTHORIZED:
            await self._credentials.renew(token)  # one that a login brought meanwhile is good as it is

    def _loudness(self, verdict: StreamVerdict) -> int:
        """A trouble is told aloud once, not at every try; to connect anew at once is none."""
        if verdict.state is self._status.current.state:
            return logging.DEBUG
        return logging.INFO if verdict.pace is Pace.AT_ONCE else logging.WARNING
