"""The reference server, misbehaving as a plan says: between the network and the application."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import make_url
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from client_agent.server.faults import (
    EVENT_KINDS,
    REQUEST_KINDS,
    RESTARTS,
    Dice,
    Fault,
    FaultKind,
    FaultPlan,
    name_request,
)
from client_agent.server.runner import running
from client_agent.server.settings import ServerSettings

REPLAYED_EVENTS = 20
_PIECE_BYTES = 65_536
_SLOW_PIECES = 200

_log = logging.getLogger(__name__)


@asynccontextmanager
async def running_with_faults(settings: ServerSettings, plan: FaultPlan) -> AsyncIterator[str]:
    """Like `running`, with everything in the plan going wrong. The address stays the same over restarts."""
    restarts: asyncio.Queue[Fault] = asyncio.Queue()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    keeping = asyncio.create_task(_keep_running(settings, plan, restarts, ready))
    try:
        keeping.add_done_callback(lambda _: ready.cancel())
        try:
            base_url = await ready
        except asyncio.CancelledError:
            await keeping  # raises why it could not start
            raise
        yield base_url
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


async def _keep_running(
    settings: ServerSettings, plan: FaultPlan, restarts: asyncio.Queue[Fault], ready: asyncio.Future[str]
) -> None:
    settings = msgspec.structs.replace(settings, shutdown_grace_s=1)
    dice = Dice(plan)
    history: dict[str, deque[bytes]] = {}
    while True:
        async with running(settings, lambda app: FaultyApp(app, dice, restarts.put_nowait, history)) as base_url:
            if not ready.done():
                ready.set_result(base_url)
                settings = msgspec.structs.replace(settings, port=int(base_url.rpartition(":")[2]))
            fault = await restarts.get()
            _log.info("fault: %s for %g s", fault.kind, fault.seconds)
        if fault.kind is FaultKind.RESTART_EMPTY:
            _forget(settings.database_url)
        await asyncio.sleep(fault.seconds)
        while not restarts.empty():  # those that struck while it went down
            restarts.get_nowait()


def _forget(database_url: str) -> None:
    """Removes the database's files. Only those of SQLite: anything else is not ours to remove."""
    url = make_url(database_url)
    if url.get_backend_name() == "sqlite" and url.database:
        for suffix in ("", "-wal", "-shm"):
            Path(url.database + suffix).unlink(missing_ok=True)


class FaultyApp:
    """An application that gets and gives only what the dice let through."""

    def __init__(
        self, app: ASGIApp, dice: Dice, restart: Callable[[Fault], None], history: dict[str, deque[bytes]]
    ) -> None:
        self._app = app
        self._dice = dice
        self._restart = restart
        self._history = history

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (name := name_request(scope["method"], scope["path"])):
            return await self._app(scope, receive, send)
        if (restart := self._dice.roll(name, RESTARTS)) is not None:
            self._restart(restart)
        if (fault := self._dice.roll(name, REQUEST_KINDS)) is not None:
            _log.info("fault: %s at %s", fault.kind, name)
            return await self._answer_wrongly(fault, scope, receive, send)
        return await self._answer(name, scope, receive, send)

    async def _answer(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        if name == "stream":
            history = self._history.setdefault(scope["path"], deque(maxlen=REPLAYED_EVENTS))
            send = FaultyStream(self._dice, history, send).send
        await self._app(scope, receive, send)

    async def _answer_wrongly(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        match fault.kind:
            case FaultKind.DELAY:
                await asyncio.sleep(fault.seconds)
                await self._answer(name_request(scope["method"], scope["path"]), scope, receive, send)
            case FaultKind.CODE:
                await _read_body(receive)
                await _send_code(fault, send)
            case FaultKind.LOSE_ANSWER:
                await self._app(scope, receive, _swallow)
                await _break_off(receive, send)
            case _:
                await _read_body(receive)
                await _break_off(receive, send)


class FaultyStream:
    """One event stream on its way to the client. Its chunks hold whole events: the server sends no others."""

    def __init__(self, dice: Dice, history: deque[bytes], send: Send) -> None:
        self._dice = dice
        self._history = history
        self._send = send
        self._held: bytes | None = None  # waits for the next event, to come after it
        self._silent = False
        self._ends = False  # at the next sign of life: what was left out then comes again

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            return await self._send(message)
        for block in _split(message.get("body", b"")):
            if not self._silent:
                await self._pass(block)
        if not message.get("more_body", False) and not self._silent:
            await self._send({**message, "body": b""})
        return None

    async def _pass(self, block: bytes) -> None:
        name = _event_name(block)
        if self._ends:
            return self._hang_up()
        if self._held is not None:
            held, self._held = self._held, None
            return await self._write((_without_id(block) if name else block) + held)
        fault = self._dice.roll(name, EVENT_KINDS) if name else None
        if fault is None:
            await self._write(block)
        else:
            _log.info("fault: %s at %s", fault.kind, name)
            await self._strike(fault, block)
        if name:
            self._history.append(block)
        return None

    async def _strike(self, fault: Fault, block: bytes) -> None:
        match fault.kind:
            case FaultKind.DROP:
                self._ends = True
            case FaultKind.DELAY:
                await asyncio.sleep(fault.seconds)
                await self._write(block)
            case FaultKind.DUPLICATE:
                await self._write(block + block)
            case FaultKind.REORDER:
                self._held = block
            case FaultKind.REPLAY:
                await self._write(b"".join(self._history) + block)
            case FaultKind.CUT:
                await self._write(block[: len(block) // 2])
                self._hang_up()
            case FaultKind.HALF_OPEN:
                self._silent = True
            case FaultKind.SLOW:
                await self._write_slowly(block, fault.seconds)
            case _:
                await self._write_large(block, fault.bytes)

    async def _write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _write_slowly(self, block: bytes, seconds: float) -> None:
        size = max(1, len(block) // _SLOW_PIECES)
        for start in range(0, len(block), size):
            await self._write(block[start : start + size])
            await asyncio.sleep(seconds * size / len(block))

    async def _write_large(self, block: bytes, size: int) -> None:
        """An event with the id of the one before this: whoever passes it by gets this one."""
        await self._write(
            b'id: %d\nevent: tool.execution_signal\ndata: {"tool_id":"oversized","x":"' % (_id(block) - 1)
        )
        for start in range(0, size, _PIECE_BYTES):
            await self._write(b"x" * min(_PIECE_BYTES, size - start))
        await self._write(b'"}\n\n' + block)

    def _hang_up(self) -> None:
        """What was written still goes out, and then the connection ends in the middle of the answer."""
        self._silent = True
        _transport(self._send).close()


def _split(body: bytes) -> Iterator[bytes]:
    for block in body.split(b"\n\n"):
        if block:
            yield block + b"\n\n"


def _event_name(block: bytes) -> str:
    """The event's name; empty for a comment or a `retry:`."""
    names = [line[7:] for line in block.split(b"\n") if line.startswith(b"event: ")]
    return names[0].decode() if names else ""


def _id(block: bytes) -> int:
    return int(block.removeprefix(b"id: ").partition(b"\n")[0])


def _without_id(block: bytes) -> bytes:
    return block.partition(b"\n")[2]


async def _read_body(receive: Receive) -> None:
    while (await receive()).get("more_body", False):
        pass


async def _swallow(_message: Message) -> None:
    pass


async def _send_code(fault: Fault, send: Send) -> None:
    headers = [(b"content-type", b"application/json")]
    if fault.retry_after is not None:
        headers.append((b"retry-after", b"%d" % fault.retry_after))
    body = b'{"success":false,"message":"a fault, on purpose","detail":""}'
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _break_off(receive: Receive, send: Send) -> None:
    """The connection is reset; nothing that was written for it goes out any more."""
    _transport(send).abort()
    while (await receive())["type"] != "http.disconnect":
        pass


def _transport(send: Send) -> Any:
    """The connection beneath an answer. ASGI has no word for breaking one; `send` is a method of uvicorn's cycle."""
    return send.__self__.transport  # type: ignore[attr-defined]
