"""Where the work is done: a bare server, the floor's client and the program under test, all connected to it."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks.fixtures import Files
from benchmarks.machine import Control
from benchmarks.processes import environment, left_running, python, running
from benchmarks.timing import Batch

FLOOR = "floor"
OURS = "client-agent"
_ORDER_TIMEOUT_S = 150
# By chance of its heap's layout, glibc gives the pages of a large buffer back after every call and faults them in again
# for the next (a thousand faults a MiB), or does not: the same client takes 1.5 or 5 ms. A floor must not be luck.
_KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "134217728"}


class BenchmarkFailed(Exception):
    """A figure could not be taken: what was measured did not do the work."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A call, as the wire protocol has it. In the parameter `distinct` "{n}" is the call's number, "{t}" its time."""

    tool_name: str
    tool_params: dict[str, Any]
    distinct: str | None = None


class _Driven(msgspec.Struct, kw_only=True):
    latencies_s: list[float]
    wall_s: float
    failures: list[str]
    result_bytes: int
    last_result: str


class Client:
    """A client of the bare server, known there by its project: the floor or the program."""

    def __init__(self, server: Server, project: str, process: subprocess.Popen[str], started_at: float) -> None:
        self._server = server
        self._project = project
        self._started_at = started_at
        self.pid = process.pid
        self.last_result = ""
        self.result_bytes = 0

    async def connected_after_s(self) -> float:
        """From the start of the process to its stream request on the server; waits for it."""
        return await self._server.connected_at(self._project) - self._started_at

    async def do(self, work: Work, count: int, *, in_flight: int = 1) -> Batch:
        """So many calls, timed on the server from signal to result. Raises BenchmarkFailed when one fails."""
        order = {**msgspec.to_builtins(work), "count": count, "in_flight": in_flight}
        driven = await self._server.drive(self._project, order)
        if driven.failures:
            raise BenchmarkFailed(f"{self._project}: {work.tool_name} was not completed: {driven.failures[0]}")
        self.last_result, self.result_bytes = driven.last_result, driven.result_bytes
        return Batch(latencies_s=driven.latencies_s, wall_s=driven.wall_s)


class Server:
    """The bare server's control side."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def drive(self, project: str, order: dict[str, Any]) -> _Driven:
        async with self._session.post(f"/drive/{project}", data=msgspec.json.encode(order)) as response:
            body = await response.read()
            if response.status != 200:
                raise BenchmarkFailed(f"{project}: no result in time for {order['tool_name']}")
            return msgspec.json.decode(body, type=_Driven)

    async def connected_at(self, project: str) -> float:
        async with self._session.get(f"/connected/{project}") as response:
            if response.status != 200:
                raise BenchmarkFailed(f"{project} did not connect")
            return float((await response.json())["connected_at"])


class Stage:
    """Everything that the figures share."""

    def __init__(self, stack: AsyncExitStack, server: Server, files: Files, scratch: Path) -> None:
        self._stack = stack
        self._clients: dict[str, Client] = {}
        self.server = server
        self.files = files
        self.scratch = scratch
        self.control = Control()

    async def floor(self) -> Client:
        return await self._shared(FLOOR, self.start_floor)

    async def ours(self) -> Client:
        return await self._shared(OURS, self.start_ours)

    async def _shared(self, name: str, start: Any) -> Client:
        if name not in self._clients:
            self._clients[name] = await self._stack.enter_async_context(start())
        return self._clients[name]

    @asynccontextmanager
    async def start_floor(self, project: str = FLOOR) -> AsyncIterator[Client]:
        argv = python("-m", "benchmarks.bare_client", self.server.url, project, str(self.files.root))
        async with self._started(project, argv, environment(**_KEEP_PAGES)) as client:
            yield client

    @asynccontextmanager
    async def start_ours(self, project: str = OURS, workspace: Path | None = None) -> AsyncIterator[Client]:
        """The program, as a user starts it; with a state directory of its own."""
        state = self.state_dir(project)
        argv = [
            program(),
            "run",
            "--server",
            self.server.url,
            "--project",
            project,
            "--workspace",
            str(workspace or self.files.root),
        ]
        env = environment(
            CLIENT_AGENT_TOKEN=_token(),
            CLIENT_AGENT_STATE_DIR=str(state),
            CLIENT_AGENT_CONFIG=str(self.scratch / "no-config.toml"),
        )
        async with self._started(project, argv, env) as client:
            yield client

    def state_dir(self, project: str) -> Path:
        return self.scratch / f"state-{project}"

    @asynccontextmanager
    async def _started(self, project: str, argv: list[str], env: dict[str, str]) -> AsyncIterator[Client]:
        log = self.scratch / f"{project}.log"
        started_at = time.perf_counter()
        with running(argv, log=log, env=env) as process:
            client = Client(self.server, project, process, started_at)
            try:
                await client.connected_after_s()
            except BenchmarkFailed as error:
                raise BenchmarkFailed(f"{error}: {log.read_text()[-2000:]}") from None
            yield client


@asynccontextmanager
async def open_stage(files: Files, scratch: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        process = stack.enter_context(running(python("-m", "benchmarks.bare_server"), log=scratch / "server.log"))
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if not port:
            raise BenchmarkFailed(f"the bare server did not start: {(scratch / 'server.log').read_text()[-2000:]}")
        url = f"http://127.0.0.1:{port}"
        timeout = aiohttp.ClientTimeout(total=_ORDER_TIMEOUT_S)
        session = await stack.enter_async_context(aiohttp.ClientSession(url, timeout=timeout))
        yield Stage(stack, Server(url, session), files, scratch)


def program() -> str:
    """The installed command beside this Python, or the one on the PATH."""
    beside = Path(sys.executable).parent / "client-agent"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("client-agent")
    if found is None:
        raise BenchmarkFailed("client-agent is not installed: make bench sets it up")
    return found


def _token() -> str:
    """Shaped like a JWT; the bare server does not look at it."""
    parts = ({"alg": "none"}, {"sub": "benchmark"})
    return ".".join(
        [base64.urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=") for part in parts] + ["x"]
    )


def run_to_its_end(work: Callable[[Path], Coroutine[Any, Any, None]]) -> int:
    """Does the work in a directory that is gone afterwards; the exit code. What it leaves running is a failure."""
    scratch = Path(tempfile.mkdtemp(prefix="client-agent-bench-"))
    try:
        asyncio.run(work(scratch))
    except (BenchmarkFailed, TimeoutError) as error:
        print(f"benchmarks: {error or 'it took too long'}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 130
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if left := left_running():
        print("left running:", *left, sep="\n  ", file=sys.stderr)
        return 1
    return 0
