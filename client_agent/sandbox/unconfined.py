"""Processes of the user's own, with nothing around them but a process group, or with a wrapper that confines them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from client_agent.sandbox.environment import user_name
from client_agent.sandbox.jobs import Ended, Job, Mechanism

Wrap = Callable[[Job, str], list[str]]  # the job and its private directory → the argv that is really started


class Group:
    """A command that leads a session and process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process, tmp: str) -> None:
        self._process = process
        self._tmp = tmp
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._follow())

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _follow(self) -> None:
        code = await self._process.wait()
        await self.kill()
        await asyncio.to_thread(shutil.rmtree, self._tmp, ignore_errors=True)
        self.ended.set_result(Ended(-code if code < 0 else code << 8, "exit"))


class Unconfined:
    """Runs commands as the user would. Only when the user has chosen that, or with a wrapper that confines them."""

    def __init__(self, mechanism: Mechanism, wrap: Wrap | None = None) -> None:
        self.mechanism = mechanism
        self.visible: tuple[Path, ...] = (Path("/"),)
        self.user = user_name()
        self.home = self.tmp = ""
        self._wrap = wrap
        self._running: set[Group] = set()

    async def open(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        for group in list(self._running):
            await group.kill()
        if self._running:
            await asyncio.wait([group.ended for group in self._running])

    async def start(self, job: Job, environment: dict[str, str], directory: Path, fds: Sequence[int]) -> Group:
        tmp = os.path.realpath(tempfile.mkdtemp(prefix="client-agent-"))  # noqa: ASYNC240 - local, microseconds
        argv = self._wrap(job, tmp) if self._wrap is not None else list(job.argv)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=fds[0], stdout=fds[1], stderr=fds[2], cwd=directory,
                env={**environment, "HOME": tmp, "TMPDIR": tmp}, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            shutil.rmtree(tmp, ignore_errors=True)
            raise
        group = Group(process, tmp)
        self._running.add(group)
        group.ended.add_done_callback(lambda _: self._running.discard(group))
        return group
