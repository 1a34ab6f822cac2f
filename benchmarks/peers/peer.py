"""What the comparison asks of a peer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

import psutil

from benchmarks.processes import descendants
from benchmarks.stage import BenchmarkFailed


class PeerFailed(BenchmarkFailed):
    """The peer could not be installed or started, or did not do the work."""


class Peer(Protocol):
    """One running peer. Paths are absolute; every method waits for the whole answer."""

    pid: int

    async def read(self, path: str) -> int:
        """The size of the answer. Raises PeerFailed."""
        ...

    async def list_tree(self, path: str) -> int:
        """The size of the answer, in the way that this peer lists a whole tree. Raises PeerFailed."""
        ...

    async def run(self, command: str) -> int:
        """The size of the answer. Raises PeerFailed, always where the peer runs no commands."""
        ...

    async def stop(self) -> None: ...


async def end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    """Waits for a process that was asked to end, then ends it and all it started by force."""
    below = descendants(process.pid)
    try:
        await asyncio.wait_for(process.wait(), grace_s)
    except TimeoutError:
        process.kill()
        await process.wait()
    for each in below:
        with contextlib.suppress(psutil.Error):
            each.kill()
