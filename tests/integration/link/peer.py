"""A server that does, to the byte, what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from dataclasses import dataclass, field
from types import TracebackType

PATIENCE_S = 20.0  # how long a test waits for what must happen; never for what must not

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, bytes]
    body: bytes


@dataclass
class Exchange:
    """One request, and the hand on the connection it came by."""

    request: Request
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def send_chunk(self, data: bytes) -> None:
        """Bytes of a chunked body."""
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def open_stream(self, *pieces: bytes) -> None:
        await self.send(STREAM_HEAD)
        for piece in pieces:
            await self.send_chunk(piece)

    async def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole response; the connection stays open for the next request."""
        head = f"HTTP/1.1 {status} X\r\n"
        if status != 204:
            head += f"Content-Length: {len(body)}\r\n"
        head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.send(head.encode() + b"\r\n" + body)
        self.done.set()

    async def end(self) -> None:
        """Ends a chunked body as it should be."""
        await self.send(b"0\r\n\r\n")
        self.done.set()

    def cut(self) -> None:
        """Ends the connection in the middle, cleanly as TCP sees it."""
        self.writer.close()

    def reset(self) -> None:
        """Ends the connection with a TCP reset."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def hung_up(self) -> None:
        """Waits until the client ends the connection."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                while await self.reader.read(65536):
                    pass


class Peer:
    """Listens on loopback, and hands every request to the test."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, reads_bodies: bool = True) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self._tls = tls
        self._reads_bodies = reads_bodies
        self._exchanges: asyncio.Queue[Exchange] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Peer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)

    async def next(self) -> Exchange:
        """The next request, in the order they came."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._exchanges.get()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                while True:
                    exchange = Exchange(await read_request(reader, self._reads_bodies), reader, writer)
                    self.requests.append(exchange.request)
                    self._exchanges.put_nowait(exchange)
                    await exchange.done.wait()
        except asyncio.CancelledError:
            pass  # the test is over; asyncio's streams would report it as an error
        finally:
            self._tasks.discard(task)
            writer.close()


async def read_request(reader: asyncio.StreamReader, reads_body: bool = True) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    method, target, _ = first.decode().split(" ")
    headers = {name.decode().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", b"0"))) if reads_body else b""
    return Request(method, target, headers, body)
