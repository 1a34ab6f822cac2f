"""Agents that wait for the outcome of a call, and deadlines that do not depend on anybody waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from client_agent.protocol.states import CallState
from client_agent.server.wire import ExecuteReply

_log = logging.getLogger(__name__)


class Watch:
    """One agent's wait. `done` is set when the call is final, or when waiting is over for another reason."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.reply: ExecuteReply | None = None
        self._clock: asyncio.TimerHandle | None = None

    def note(self, reply: ExecuteReply, result_timeout_s: float) -> None:
        """The call has moved."""
        self.reply = reply
        if CallState(reply.status.upper()).final:
            self.stop_clock()
            self.done.set()
        elif reply.status == CallState.EXECUTING.lower() and self._clock is None:
            loop = asyncio.get_running_loop()
            late = f"no result after {result_timeout_s:g} s; the call is still executing: ask for its record"
            self._clock = loop.call_later(result_timeout_s, self.give_up, late)

    def give_up(self, error: str) -> None:
        """Ends the wait with what is known, which is not the outcome."""
        if self.reply is not None and not self.done.is_set():
            self.reply = msgspec.structs.replace(self.reply, error=error)
        self.done.set()

    def stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()


class Watches:
    """The waiting agents, by call."""

    def __init__(self, result_timeout_s: float) -> None:
        self._result_timeout_s = result_timeout_s
        self._watches: dict[str, Watch] = {}
        self._closed = False

    def open(self, tool_id: str) -> Watch:
        watch = self._watches[tool_id] = Watch()
        if self._closed:
            watch.done.set()
        return watch

    def drop(self, tool_id: str) -> None:
        self._watches.pop(tool_id).stop_clock()

    def note(self, reply: ExecuteReply) -> None:
        """Tells whoever waits for this call how it stands now."""
        if (watch := self._watches.get(reply.tool_id)) is not None:
            watch.note(reply, self._result_timeout_s)

    def close(self) -> None:
        """Lets all agents go; their calls stay as they are."""
        self._closed = True
        for watch in self._watches.values():
            watch.give_up("the server is stopping; the call goes on: ask for its record later")


class Deadlines:
    """Things to do at a time, one for each key, unless they are dropped before."""

    def __init__(self) -> None:
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: set[asyncio.Future[None]] = set()

    def set(self, key: str, delay_s: float, action: Callable[[], Awaitable[None]]) -> None:
        self.drop(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(max(delay_s, 0), self._start, key, action)

    def drop(self, key: str) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _start(self, key: str, action: Callable[[], Awaitable[None]]) -> None:
        self._timers.pop(key, None)
        task = asyncio.ensure_future(action())
        self._running.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Future[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a deadline could not be kept", exc_info=error)
