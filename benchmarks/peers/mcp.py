"""Peers that speak MCP: JSON-RPC, a line a message, over the pipes of a child process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.peers.peer import PeerFailed, end
from benchmarks.processes import environment

_LINE_BYTES = 2**28
_GRACE_S = 3.0


class McpPeer:
    """A server on pipes, and the least client that can call its tools."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self._numbers = itertools.count(1)
        self._awaited: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listening = asyncio.create_task(self._listen())

    async def greet(self) -> None:
        client = {"name": "client-agent-benchmark", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        await self._request("initialize", params)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str, **arguments: Any) -> int:
        """The length of a tool's text. Raises PeerFailed."""
        result = await self._request("tools/call", {"name": tool, "arguments": arguments})
        text = "".join(part.get("text", "") for part in result.get("content", ()))
        if result.get("isError"):
            raise PeerFailed(text[:300])
        return len(text)

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await end(self._process, _GRACE_S)
        self._listening.cancel()
        await asyncio.wait([self._listening])

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._awaited[number] = asyncio.get_running_loop().create_future()
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        message = await answer
        if "error" in message:
            raise PeerFailed(str(message["error"])[:300])
        result: dict[str, Any] = message["result"]
        return result

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            with contextlib.suppress(msgspec.DecodeError):  # some print to their own pipe
                self._take(msgspec.json.decode(line))
        for answer in self._awaited.values():
            if not answer.done():
                answer.set_exception(PeerFailed("it ended"))

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message and "id" in message:  # it asks us; no roots, and nothing else either
            result = {"roots": []} if message["method"] == "roots/list" else {}
            self._send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        elif (answer := self._awaited.pop(message.get("id", 0), None)) is not None and not answer.done():
            answer.set_result(message)


class FilesystemServer(McpPeer):
    async def read(self, path: str) -> int:
        return await self.call("read_text_file", path=path)

    async def list_tree(self, path: str) -> int:
        return await self.call("directory_tree", path=path)

    async def run(self, command: str) -> int:
        raise PeerFailed("it runs no commands")


class DesktopCommander(McpPeer):
    async def read(self, path: str) -> int:
        return await self.call("read_file", path=path, offset=0, length=100_000)

    async def list_tree(self, path: str) -> int:
        return await self.call("list_directory", path=path, depth=9)

    async def run(self, command: str) -> int:
        return await self.call("start_process", command=command, timeout_ms=20_000)


async def spawn(argv: list[str], home: Path, workspace: Path) -> asyncio.subprocess.Process:
    home.mkdir(exist_ok=True)
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    env = environment(HOME=str(home))
    return await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, stderr=nowhere, limit=_LINE_BYTES, cwd=workspace, env=env
    )
