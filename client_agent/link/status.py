"""What is true of the connection right now, for whoever shows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

import msgspec


class LinkState(StrEnum):
    """Where the event stream stands. Every state but CLOSED goes on trying."""

    CONNECTING = "connecting"  # not connected yet, nothing has gone wrong
    CONNECTED = "connected"  # the server answered 200 with an event stream, and it is still open
    RETRYING = "retrying"  # lost or not reached; may heal by itself
    UNAUTHORIZED = "unauthorized"  # no token, or the server does not take it
    FORBIDDEN = "forbidden"  # the token is good, but not for this project
    NO_SUCH_PROJECT = "no such project"
    NOT_A_STREAM = "not an event stream"  # something else answers at this address
    LOGIN_PAGE = "login page"  # a web page where the server should be: this network wants to be logged in to
    REDIRECTED = "redirected"  # to where the token must not go
    STOPPED_BY_SERVER = "stopped by server"
    FAILED = "failed"  # the workspace itself cannot work: no directory, no usable settings
    CLOSED = "closed"


class LinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the connection; all times are UTC."""

    state: LinkState
    since: datetime
    detail: str = ""
    retry_at: datetime | None = None
    last_byte_at: datetime | None = None  # when the server was last heard on the stream


class StatusBoard:
    """The current status, written by the stream, read by anyone."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._changed = asyncio.Event()
        self._last_byte: float | None = None
        self._status = LinkStatus(state=LinkState.CONNECTING, since=_utc(wall_clock()))

    @property
    def current(self) -> LinkStatus:
        if self._last_byte is None:
            return self._status
        return msgspec.structs.replace(self._status, last_byte_at=_utc(self._last_byte))

    def post(self, state: LinkState, detail: str = "", retry_in_s: float | None = None) -> None:
        """Puts up a new status; `since` moves only when the state does."""
        now = self._wall_clock()
        self._status = LinkStatus(
            state=state,
            since=self._status.since if state is self._status.state else _utc(now),
            detail=detail,
            retry_at=None if retry_in_s is None else _utc(now + retry_in_s),
        )
        self._changed.set()
        self._changed = asyncio.Event()

    def hear(self) -> None:
        """Notes that a byte came from the server just now."""
        self._last_byte = self._wall_clock()

    async def wait_until(self, holds: Callable[[LinkStatus], bool]) -> LinkStatus:
        """Waits for a status of which this holds; one that came and went meanwhile may be missed."""
        while not holds(self.current):
            await self._changed.wait()
        return self.current


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
