"""A server that does, to the byte, what a case tells it to, and keeps everything a client says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec

from client_agent.protocol import routes

CHUNKED = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}
MAX_HEAD_BYTES = 65_536
HEARTBEAT_S = 1.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asked for."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float  # on the event loop's clock

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What it gets. `reset` closes the connection without a word."""

    status: int = 200
    body: bytes = b'{"success":true,"status":"received"}'
    headers: dict[str, str] = {}
    reset: bool = False


class Stream:
    """A client's open stream."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.last_event_id = request.headers.get("last-event-id", "")
        self.token = request.headers.get("authorization", "")
        self.opened_at = request.at
        self.silent = False
        self._writer = writer

    @property
    def open(self) -> bool:
        return not self._writer.is_closing()

    async def send(self, data: bytes) -> None:
        """These bytes of the body. A stream that is gone takes nothing, and says so by `open`."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await self._writer.drain()

    def cut(self) -> None:
        """Ends the connection in the middle of the answer."""
        self._writer.close()


class Peer:
    """Listens on loopback. Cases set `answer_posts` and `answer_streams`, and read `posts` and `streams`."""

    def __init__(self, project_id: str, token: str, port: int = 0) -> None:
        self.project_id = project_id
        self.posts: list[Request] = []
        self.streams: list[Stream] = []
        self.answer_post: Callable[[Request], Answer] = lambda request: Answer()
        self.answer_stream: Callable[[Request], Answer | None] = lambda request: None
        self.stream_headers: dict[str, str] = {}  # beside those that every stream has
        self.token = token
        self._port = port
        self._changed = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Peer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=MAX_HEAD_BYTES)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = [self._beating, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def stream(self) -> Stream:
        """The stream opened last."""
        return self.streams[-1]

    async def wait_for_stream(self, timeout_s: float, *, after: int = 0) -> Stream:
        """A stream that is open, beyond this many. Raises TimeoutError."""
        await self.wait_for(lambda: len(self.streams) > after and self.stream.open, timeout_s)
        return self.stream

    async def wait_for_posts(self, wanted: Callable[[Request], bool], count: int, timeout_s: float) -> list[Request]:
        """The first posts of which this holds, this many. Raises TimeoutError."""
        await self.wait_for(lambda: sum(map(wanted, self.posts)) >= count, timeout_s)
        return [post for post in self.posts if wanted(post)]

    async def wait_for(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Waits until this holds after what the client has said. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(holds)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            for stream in self.streams:
                if stream.open and not stream.silent:
                    await stream.send(b": heartbeat\n\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._connections.add(task)
        try:
            while (request := await _read_request(reader)) is not None:
                if not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # a client that breaks off is judged by what it has said
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection can be used again."""
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return await _respond(writer, Answer(status=401, body=b"{}"))
        if request.method == "POST":
            answer = self.answer_post(request)
            await self._note(lambda: self.posts.append(request))
            return await _respond(writer, answer)
        if request.path.partition("?")[0] != routes.fill(routes.STREAM, project_id=self.project_id):
            return await _respond(writer, Answer(status=404, body=b"{}"))
        if (refusal := self.answer_stream(request)) is not None:
            return await _respond(writer, refusal)
        writer.write(_head(200, {**CHUNKED, **self.stream_headers}))
        await self._note(lambda: self.streams.append(Stream(request, writer)))
        await reader.read()  # until the client goes
        return False

    async def _note(self, change: Callable[[], None]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await _read_body(reader, headers)
    return Request(method=method, path=path, headers=headers, body=body, at=asyncio.get_running_loop().time())


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = bytearray()
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()
    return bytes(body)


async def _respond(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    if answer.reset:
        writer.transport.abort()
        return False
    headers = {"Content-Type": "application/json", "Content-Length": str(len(answer.body)), **answer.headers}
    writer.write(_head(answer.status, headers) + answer.body)
    await writer.drain()
    return True


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
