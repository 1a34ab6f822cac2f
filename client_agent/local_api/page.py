"""The page's door: a few static files and one WebSocket on 127.0.0.1, and nothing else.

One request a connection. The WebSocket protocol is `websockets`' own, fed by hand, so that every byte passes the gate
first and a request it does not like gets its proper answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
from collections.abc import Callable
from functools import cache
from importlib import resources

import msgspec
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.protocol import CLOSED
from websockets.server import ServerProtocol

from client_agent.local_api import gate
from client_agent.local_api.conversation import Conversation
from client_agent.local_api.gate import COOKIE_NAME, Entrance, Turned
from client_agent.local_api.keys import Keys, same
from client_agent.local_api.messages import MAX_REQUEST_BYTES

HOST = "127.0.0.1"
MAX_HEAD_BYTES = 16_000
HEAD_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
MAX_CONNECTIONS = 64

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_GUARD = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}
# What a browser may have before its ticket is exchanged: enough to exchange it.
_THRESHOLD = {"/": "enter.html", "/enter.js": "enter.js", "/page.css": "page.css", "/icon.svg": "icon.svg"}

log = logging.getLogger(__name__)


@cache
def load_files() -> dict[str, bytes]:
    """The page's files by name. They are few and small, and kept."""
    return {each.name: each.read_bytes() for each in resources.files("client_agent.web").iterdir() if each.is_file()}


class PageDoor:
    """Listens on a free port of 127.0.0.1 for as long as it is open."""

    def __init__(self, keys: Keys, converse: Callable[[], Conversation]) -> None:
        self._keys = keys
        self._converse = converse
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Raises OSError when it cannot listen."""
        self._server = await asyncio.start_server(self._accept, HOST, 0, limit=MAX_HEAD_BYTES)
        self.authority = f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def new_address(self) -> str:
        """An address that opens the page, once."""
        return f"http://{self.authority}/#{self._keys.issue_ticket()}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._tasks.add(task)
        try:
            with contextlib.suppress(
                ConnectionError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError
            ):
                await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                raw = await self._read_head(reader)
            head = gate.read_head(raw)
            entrance = gate.admit(head, self.authority, self._keys.cookie, frozenset(_THRESHOLD))
        except Turned as turned:
            await _answer(writer, turned.status, "text/plain; charset=utf-8", f"{turned.why}\n".encode())
            await _read_rest(reader, writer)
            return
        match entrance:
            case Entrance.LIVE:
                await WebSocket(raw, reader, writer, self._converse(), self._keys.page_key).run()
            case Entrance.EXCHANGE:
                async with asyncio.timeout(HEAD_TIMEOUT_S):
                    body = await reader.readexactly(int(head.headers["content-length"]))
                await self._exchange(writer, body)
            case Entrance.FILE:
                await _send_file(writer, 200, "index.html" if head.path == "/" else head.path.removeprefix("/"))
            case Entrance.THRESHOLD:
                await _send_file(writer, 401 if head.path == "/" else 200, _THRESHOLD[head.path])

    async def _read_head(self, reader: asyncio.StreamReader) -> bytes:
        if len(self._tasks) > MAX_CONNECTIONS:
            raise Turned(503, "too many connections")
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise Turned(431, "too long") from None

    async def _exchange(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        """A good ticket for the cookie and the key."""
        try:
            ticket = msgspec.json.decode(body, type=dict[str, str]).get("ticket", "")
        except msgspec.MsgspecError:
            ticket = ""
        if not self._keys.redeem(ticket):
            await _answer(writer, 401, "text/plain; charset=utf-8", b"this link was used before, or is too old\n")
            return
        cookie = f"{COOKIE_NAME}={self._keys.cookie}; Path=/; HttpOnly; SameSite=Strict"
        body = msgspec.json.encode({"key": self._keys.page_key})
        await _answer(writer, 200, "application/json", body, {"Set-Cookie": cookie})


async def _read_rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes in a body that nobody wants, up to a point: closing on top of it would take our answer away."""
    writer.write_eof()
    async with asyncio.timeout(1):
        for _ in range(16):
            if not await reader.read(65_536):
                return


async def _send_file(writer: asyncio.StreamWriter, status: int, name: str) -> None:
    content = load_files().get(name)
    kind = _TYPES.get(name.rpartition(".")[2])
    if content is None or kind is None:
        await _answer(writer, 404, "text/plain; charset=utf-8", b"there is no such page\n")
    else:
        await _answer(writer, status, kind, content)


async def _answer(
    writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, more: dict[str, str] | None = None
) -> None:
    headers = {**_GUARD, "Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}
    lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()


class WebSocket:
    """One page, live. Its first message must be the key that the ticket was exchanged for."""

    def __init__(
        self,
        handshake: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        conversation: Conversation,
        key: str,
    ) -> None:
        self._handshake = handshake
        self._reader = reader
        self._writer = writer
        self._conversation = conversation
        self._key = key
        self._protocol = ServerProtocol(max_size=MAX_REQUEST_BYTES, logger=log.getChild("websocket"))
        self._parts: list[bytes] = []
        self._trusted = False

    async def run(self) -> None:
        """Until either side has enough."""
        self._protocol.receive_data(self._handshake)
        (request,) = self._protocol.events_received()
        assert isinstance(request, Handshake)  # noqa: S101 - the gate has read it as well
        self._protocol.send_response(self._protocol.accept(request))
        await self._flush()
        sender = asyncio.create_task(self._send())
        try:
            while self._protocol.state is not CLOSED:
                async with asyncio.timeout(CLOSE_TIMEOUT_S if self._protocol.close_expected() else None):
                    data = await self._reader.read(65_536)
                if not data:
                    break
                self._protocol.receive_data(data)
                for event in self._protocol.events_received():
                    await self._take(event)
                await self._flush()
        finally:
            self._conversation.end()
            sender.cancel()
            await asyncio.wait([sender])

    async def _take(self, frame: object) -> None:
        if not isinstance(frame, Frame) or frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        if self._protocol.close_expected():
            return
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return
        message = b"".join(self._parts)
        self._parts.clear()
        if self._trusted:
            await self._conversation.take(message)
        elif same(self._key, message.decode("utf-8", "replace")):
            self._trusted = True
        else:
            self._protocol.send_close(1008, "not the key")

    async def _send(self) -> None:
        with contextlib.suppress(ConnectionError):
            while (message := await self._conversation.next_message()) is not None:
                if self._protocol.close_expected():
                    return
                self._protocol.send_text(message)
                await self._flush()
        self._writer.close()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._writer.write(data)
            elif self._writer.can_write_eof():
                self._writer.write_eof()
        await self._writer.drain()
