"""One connection through the door, whatever carries it: requests in, replies and events out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from client_agent.errors import ClientAgentError
from client_agent.local_api.feed import Feed
from client_agent.local_api.messages import Request, encode_error, encode_result
from client_agent.local_api.operations import Operations
from client_agent.protocol.tools import SPECS

# A watcher that does not read this many messages is let go.
_MAX_WAITING = 2_000

log = logging.getLogger(__name__)

# Operations that only this kind of connection has, such as those of the command line.
Extras = dict[str, Callable[[], Awaitable[Any]]]


class Conversation:
    """Takes requests in order, and gathers what is to be sent. `by` is what an answer given here is recorded as."""

    def __init__(self, operations: Operations, feed: Feed, by: str, extras: Extras | None = None) -> None:
        self.packed = False
        self._operations = operations
        self._feed = feed
        self._by = by
        self._extras = extras or {}
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()

    def push(self, message: bytes) -> None:
        """To be sent. Whoever lets too much pile up is let go."""
        if self._outgoing.qsize() >= _MAX_WAITING:
            self.end()
        else:
            self._outgoing.put_nowait(message)

    def end(self) -> None:
        self._feed.remove(self)
        self._outgoing.put_nowait(None)

    async def next_message(self) -> bytes | None:
        """What is to be sent next; None when the connection is to be closed."""
        return await self._outgoing.get()

    async def take(self, text: bytes) -> None:
        """One request, answered."""
        try:
            request = msgspec.json.decode(text, type=Request)
        except msgspec.MsgspecError as error:
            return self.push(encode_error(None, "malformed", f"not a request: {error}"))
        try:
            self.push(encode_result(request.id, await self._perform(request)))
        except ClientAgentError as error:
            self.push(encode_error(request.id, error.code, error.message))
        except Exception:
            log.exception("the operation %.60s failed unexpectedly", request.op)
            self.push(encode_error(request.id, "internal_error", "this failed unexpectedly; see the daemon's log"))

    async def _perform(self, request: Request) -> Any:
        if request.op == "ping":
            return {}
        if request.op == "watch":
            return self._watch(packed=request.args.get("packed") is True)
        if request.op in self._extras:
            return await self._extras[request.op]()
        result = await self._operations.perform(request.op, request.args, self._by)
        if request.op.startswith(("rules.", "grants.", "sessions.", "workspaces.", "config.")):
            self._feed.tell("permissions", {**self._operations.rules(), **self._operations.grants()})
            self._feed.tell("status", self._operations.status())
        if request.op == "undo.apply":
            self._feed.tell("undone", result)
        return result

    def _watch(self, *, packed: bool) -> dict[str, Any]:
        """From now on events are pushed here; the reply is how things stand."""
        self.packed = packed
        self._feed.add(self)
        operations = self._operations
        return {
            "status": operations.status(),
            "questions": operations.standing_questions(packed=packed),
            "tools": [spec.name for spec in SPECS],
            **operations.rules(),
            **operations.grants(),
        }
