"""The floor: the least client that can do a call. SSE → do the work directly → POST, in one process, nothing checked.

No policy, journal, confinement, limits, retries or redelivery: what this costs, every client of the protocol pays.
Started as `python -m benchmarks.bare_client URL PROJECT WORKSPACE`.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import msgspec


class _Signal(msgspec.Struct):
    tool_id: str
    tool_name: str
    tool_params: dict[str, Any]


def read_file(root: Path, params: dict[str, Any]) -> dict[str, Any]:
    with open(os.path.join(root, params["path"]), "rb") as file:
        content = file.read()
    return {"content": content.decode(), "encoding": "utf-8", "size": len(content)}


def write_file(root: Path, params: dict[str, Any]) -> dict[str, Any]:
    """As durable as a write can be: draft, fsync, rename, fsync of the directory."""
    path = os.path.join(root, params["path"])
    directory = os.path.dirname(path)
    descriptor, draft = tempfile.mkstemp(dir=directory)
    with open(descriptor, "wb") as file:
        size = file.write(params["content"].encode())
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, path)
    holder = os.open(directory, os.O_RDONLY)
    os.fsync(holder)
    os.close(holder)
    return {"path": params["path"], "size": size}


def list_directory(root: Path, params: dict[str, Any]) -> dict[str, Any]:
    """Everything below, by scandir, its names matched."""
    matches = re.compile(fnmatch.translate(params["pattern"])).match
    found, pending = [], [os.path.join(root, params["path"])]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                if matches(entry.name):
                    found.append(entry.name)
    return {"files": found[:1000], "total_count": len(found)}


async def execute_command(root: Path, params: dict[str, Any]) -> dict[str, Any]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        params["command"], *params.get("args", ()), stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, cwd=root
    )
    stdout, stderr = await process.communicate()
    return {"stdout": stdout.decode(), "stderr": stderr.decode(), "exit_code": process.returncode}


_INLINE = {"read_file": read_file, "write_file": write_file, "list_directory": list_directory}


async def answer(session: aiohttp.ClientSession, project: str, root: Path, data: bytes) -> None:
    signal = msgspec.json.decode(data, type=_Signal)
    if signal.tool_name in _INLINE:
        output = _INLINE[signal.tool_name](root, signal.tool_params)
    else:
        output = await execute_command(root, signal.tool_params)
    body = msgspec.json.encode({"status": "completed", "result": {"success": True, **output}})
    async with session.post(f"/my/projects/{project}/tools/{signal.tool_id}/result", data=body) as response:
        await response.read()


async def run(url: str, project: str, root: Path) -> None:
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=128)
    async with (
        aiohttp.ClientSession(url, timeout=timeout, connector=connector) as session,
        asyncio.TaskGroup() as tasks,
        session.get(f"/my/projects/{project}/chat/stream") as stream,
    ):
        async for line in stream.content:
            if line.startswith(b"data: "):
                tasks.create_task(answer(session, project, root, line[6:]))


def main() -> None:
    asyncio.run(run(sys.argv[1], sys.argv[2], Path(sys.argv[3])))


if __name__ == "__main__":
    main()
