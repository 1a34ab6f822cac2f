"""The commands' door: one JSON object a line, on a Unix socket that only this user can open.

Where there are no Unix sockets (Windows) it is a port of 127.0.0.1, and the first line must be a token that only this
user can read. That way in is tried in the tests, and has never run on Windows itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import msgspec

from client_agent.local_api.address import ADDRESS_FILE, Address, reachable_path
from client_agent.local_api.conversation import Conversation
from client_agent.local_api.keys import same
from client_agent.local_api.messages import MAX_REQUEST_BYTES

DIRECTORY = "door"
MAX_CONNECTIONS = 64


class LineDoor:
    """Listens for as long as it is open."""

    def __init__(self, state_dir: Path, converse: Callable[[], Conversation], *, unix: bool | None = None) -> None:
        self._state_dir = state_dir
        self._converse = converse
        self._unix = hasattr(socket, "AF_UNIX") and os.name != "nt" if unix is None else unix
        self._token = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Raises OSError when it cannot listen."""
        if self._unix:
            address = await self._listen_on_socket()
        else:
            self._token = secrets.token_urlsafe(32)
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_REQUEST_BYTES)
            address = Address(port=self._server.sockets[0].getsockname()[1], token=self._token)
        _write_private(self._state_dir / ADDRESS_FILE, msgspec.json.encode(address))

    async def close(self) -> None:
        (self._state_dir / ADDRESS_FILE).unlink(missing_ok=True)
        (self._state_dir / DIRECTORY / "socket").unlink(missing_ok=True)
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def _listen_on_socket(self) -> Address:
        directory = self._state_dir / DIRECTORY
        directory.mkdir(mode=0o700, exist_ok=True)
        directory.chmod(0o700)
        path = directory / "socket"
        path.unlink(missing_ok=True)  # of a daemon that died; there is no second one in this directory
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with reachable_path(path) as spelled:
                listener.bind(spelled)
            path.chmod(0o600)
            self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=MAX_REQUEST_BYTES)
        except BaseException:
            listener.close()
            raise
        return Address(socket=f"{DIRECTORY}/socket")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                if len(self._tasks) <= MAX_CONNECTIONS and _is_ours(writer):
                    await self._converse_with(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _converse_with(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._token and not same(self._token, (await _read_line(reader)).strip().decode("utf-8", "replace")):
            return
        conversation = self._converse()
        sender = asyncio.create_task(_send(conversation, writer))
        try:
            while line := await _read_line(reader):
                await conversation.take(line)
        finally:
            conversation.end()
            sender.cancel()
            await asyncio.wait([sender])


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:  # longer than any request
        return b""


async def _send(conversation: Conversation, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while (message := await conversation.next_message()) is not None:
            writer.write(message + b"\n")
            await writer.drain()
    writer.close()


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Whether the other side is this user, or root, where the system can tell; the file's mode says so already."""
    peer = writer.get_extra_info("socket")
    if peer is None or not hasattr(socket, "SO_PEERCRED") or peer.family != socket.AF_UNIX:
        return True
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid in (0, os.getuid())


def _write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
