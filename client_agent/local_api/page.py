"""The page's door: a few static files and one WebSocket on 127.0.0.1, and nothing else.

One request a connection. Every byte passes the gate first, and a request it does not like gets its proper answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources

import msgspec

from client_agent.local_api import gate
from client_agent.local_api.conversation import Conversation
from client_agent.local_api.gate import Entrance, Turned
from client_agent.local_api.keys import Keys
from client_agent.local_api.peers import CAN_TELL, is_same_user

HOST = "127.0.0.1"
MAX_HEAD_BYTES = 16_000
HEAD_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 64
MAX_STRANGERS = 64  # connections of other users that still get an answer; more are closed without one

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
_THRESHOLD = {
    "/": "enter.html",
    **{f"/{name}": name for name in ("enter.js", "words.js", "page.css", "icon.svg")},
}


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
        self._own = 0

    async def open(self) -> None:
        """Raises OSError when it cannot listen, or cannot tell whom it would let in."""
        if CAN_TELL:
            is_same_user((HOST, 0), (HOST, 0))
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
            # Whoever came is gone, or we are going.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) > MAX_CONNECTIONS + MAX_STRANGERS:
            return
        try:
            _turn_others_away(writer)
            with self._counted():
                await self._serve_own(reader, writer)
        except Turned as turned:
            await _answer(writer, turned.status, "text/plain; charset=utf-8", f"{turned.why}\n".encode())
            await _read_rest(reader, writer)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        if self._own >= MAX_CONNECTIONS:
            raise Turned(503, "too many connections")
        self._own += 1
        try:
            yield
        finally:
            self._own -= 1

    async def _serve_own(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            raw = await _read_head(reader)
        head = gate.read_head(raw)
        match gate.admit(head, self.authority, self._keys.cookie, frozenset(_THRESHOLD)):
            case Entrance.LIVE:
                from client_agent.local_api.websocket import WebSocket  # many a daemon never shows its page

                await WebSocket(raw, reader, writer, self._converse(), self._keys.page_key).run()
            case Entrance.EXCHANGE:
                async with asyncio.timeout(HEAD_TIMEOUT_S):
                    body = await reader.readexactly(int(head.headers["content-length"]))
                await self._exchange(writer, body)
            case Entrance.FILE:
                await _send_file(writer, 200, "index.html" if head.path == "/" else head.path.removeprefix("/"))
            case Entrance.THRESHOLD:
                await _send_file(writer, 401 if head.path == "/" else 200, _THRESHOLD[head.path])

    async def _exchange(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        """A good ticket for the cookie and the key."""
        try:
            ticket = msgspec.json.decode(body, type=dict[str, str]).get("ticket", "")
        except msgspec.MsgspecError:
            ticket = ""
        if not self._keys.redeem(ticket):
            await _answer(writer, 401, "text/plain; charset=utf-8", b"this link was used before, or is too old\n")
            return
        cookie = f"{gate.cookie_name(self.authority)}={self._keys.cookie}; Path=/; HttpOnly; SameSite=Strict"
        body = msgspec.json.encode({"key": self._keys.page_key})
        await _answer(writer, 200, "application/json", body, {"Set-Cookie": cookie})


def _turn_others_away(writer: asyncio.StreamWriter) -> None:
    if not CAN_TELL:
        return
    try:
        ours = is_same_user(writer.get_extra_info("sockname"), writer.get_extra_info("peername"))
    except OSError:
        raise Turned(503, "it cannot be told who is asking") from None
    if not ours:
        raise Turned(401, "this page is another user's")


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Turned(431, "too long") from None


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
