"""Peers that speak HTTP, on a port of this machine."""

from __future__ import annotations

import asyncio
import secrets
import socket
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.peers.peer import PeerFailed, end
from benchmarks.processes import environment

_START_S = 60.0
_GRACE_S = 5.0


class HttpPeer(ABC):
    """A server on loopback, and a client with warm connections."""

    alive_path = "/alive"

    def __init__(self, process: asyncio.subprocess.Process, port: int, key: str) -> None:
        self._process = process
        self.pid = process.pid
        self._session = aiohttp.ClientSession(
            f"http://127.0.0.1:{port}",
            headers={"X-API-Key": key},
            timeout=aiohttp.ClientTimeout(total=100),
            connector=aiohttp.TCPConnector(limit=64),
        )

    async def greet(self) -> None:
        """Waits until it answers. Raises PeerFailed."""
        deadline = asyncio.get_running_loop().time() + _START_S
        while asyncio.get_running_loop().time() < deadline and self._process.returncode is None:
            try:
                async with self._session.get(self.alive_path) as response:
                    if response.ok:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.005)
        raise PeerFailed("it does not answer")

    async def post(self, path: str, /, **body: Any) -> int:
        async with self._session.post(path, json=body) as response:
            return await _size(response)

    async def get(self, path: str, /, **params: str) -> int:
        async with self._session.get(path, params=params) as response:
            return await _size(response)

    async def list_tree(self, path: str) -> int:
        return await self.run(f"find {path}")

    @abstractmethod
    async def run(self, command: str) -> int: ...

    async def stop(self) -> None:
        await self._session.close()
        if self._process.returncode is None:
            self._process.terminate()
            await end(self._process, _GRACE_S)


async def _size(response: aiohttp.ClientResponse) -> int:
    body = await response.read()
    if not response.ok:
        raise PeerFailed(f"{response.status}: {body[:200]!r}")
    return len(body)


class SweRex(HttpPeer):
    alive_path = "/is_alive"

    async def read(self, path: str) -> int:
        return await self.post("/read_file", path=path)

    async def run(self, command: str) -> int:
        return await self.post("/execute", command=command, shell=True, timeout=20)


class OpenHands(HttpPeer):
    async def read(self, path: str) -> int:
        return await self.get("/api/file/download", path=path)

    async def run(self, command: str) -> int:
        return await self.post("/api/bash/execute_bash_command", command=command, timeout=20)


async def spawn(argv: list[str], home: Path) -> tuple[asyncio.subprocess.Process, int, str]:
    """The process, its port and the key it wants; in `argv` these stand as {port} and {key}."""
    home.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    key, nowhere = secrets.token_hex(8), asyncio.subprocess.DEVNULL
    filled = [word.format(port=port, key=key) for word in argv]
    env = environment(HOME=str(home))
    process = await asyncio.create_subprocess_exec(*filled, stdout=nowhere, stderr=nowhere, cwd=home, env=env)
    return process, port, key
