"""Linux without user namespaces: Landlock and seccomp alone. Sound for commands that only read, and used for no others.

Landlock grants whole trees and cannot except a file from one, so that it can neither keep `.git/config` from being
written in a workspace that is writable, nor keep a name from being created.
"""
# Plain strings go to the launcher; /tmp is the commands' own.
# ruff: noqa: PTH110

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from client_agent.errors import InvalidParameters, Unavailable
from client_agent.sandbox.environment import user_name
from client_agent.sandbox.jobs import Access, Ended, Job, Limits, Mechanism, Network
from client_agent.sandbox.launcher.landlock import ABI_SCOPE, supported_abi
from client_agent.sandbox.linux import (
    MAX_REQUEST_BYTES,
    SHOWN_IN_ETC,
    command_limits,
    launcher_command,
    resource_limits,
    visible_directories,
)
from client_agent.sandbox.protected import IsProtected, ProtectedPaths

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_MAX_RULES = 20_000
_GAP = "without user namespaces, Landlock cannot protect single files of a writable workspace"


class Alone:
    """One command, in a launcher of its own."""

    def __init__(self, near: socket.socket, process: subprocess.Popen[bytes], tmp: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Ended] = self._loop.create_future()
        self._socket = near
        self._process = process
        self._tmp = tmp
        self._loop.add_reader(near, self._receive)

    async def kill(self) -> None:
        if not self.ended.done():
            with contextlib.suppress(OSError):  # it is ending by itself
                self._socket.send(b"end")

    def _receive(self) -> None:
        try:
            data = self._socket.recv(4096)
        except OSError:
            data = b""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._process.wait()
        shutil.rmtree(self._tmp, ignore_errors=True)
        words = data.decode().split(" ")
        kind, _, number = (words[3] if data else "stopped").partition(":")
        self.ended.set_result(Ended(int(words[2]) if data else 9, kind, int(number or 0)))


class Landlocked:
    """Runs commands that read one workspace."""

    def __init__(
        self, workspace: Path, *, limits: Limits, toolchains: Sequence[Path], is_protected: IsProtected
    ) -> None:
        self.mechanism = Mechanism(
            name="landlock",
            parts=(f"Landlock ABI {supported_abi()}", "seccomp", "no_new_privs", "subreaper"),
            gaps=(_GAP,),
            accesses=(Access.READ_ONLY,),
        )
        self.visible = visible_directories(toolchains)
        self.user = user_name()
        self.home = self.tmp = ""
        self._workspace = workspace
        self._limits = limits
        self._protected = ProtectedPaths(workspace, is_protected)
        self._running: set[Alone] = set()

    async def open(self) -> None:
        if supported_abi() < ABI_SCOPE:
            raise Unavailable(f"the kernel's Landlock is older than ABI {ABI_SCOPE}, which comes with Linux 6.12")
        await asyncio.to_thread(self._protected.refresh)

    async def close(self) -> None:
        for running in list(self._running):
            await running.kill()
        if self._running:
            await asyncio.wait([running.ended for running in self._running])
        self._protected.close()

    async def start(self, job: Job, environment: dict[str, str], directory: Path, fds: Sequence[int]) -> Alone:
        if job.access is not Access.READ_ONLY or job.network is not Network.OFF:
            raise Unavailable(_GAP)
        if self._protected.has_news:
            await asyncio.to_thread(self._protected.refresh)
        tmp = tempfile.mkdtemp(prefix="client-agent-")
        environment = {**environment, "HOME": tmp, "TMPDIR": tmp}
        request = marshal.dumps(self._plan(job, environment, directory, tmp))
        if len(request) > MAX_REQUEST_BYTES:
            raise InvalidParameters("the command line is too long, or the workspace holds too many protected files")
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - must be a child of this thread
                launcher_command("alone", far.fileno()),
                pass_fds=(far.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, env={}, cwd="/", start_new_session=True,
            )  # fmt: skip
        socket.send_fds(near, [request], list(fds))
        running = Alone(near, process, tmp)
        self._running.add(running)
        running.ended.add_done_callback(lambda _: self._running.discard(running))
        return running

    def _plan(self, job: Job, environment: dict[str, str], directory: Path, tmp: str) -> dict[str, object]:
        readable, listed = split_tree(self._workspace, self._protected.hidden)
        return {
            "argv": list(job.argv),
            "environment": environment,
            "directory": str(directory),
            "tmp": tmp,
            "readable": [*map(str, self.visible), *(path for path in SHOWN_IN_ETC if os.path.exists(path)), *readable],
            "listed": listed,
            "devices": [path for path in _DEVICES if os.path.exists(path)],
            "rlimits": resource_limits(self._limits),
            "command_rlimits": command_limits(self._limits),
        }


def split_tree(root: Path, hidden: set[str]) -> tuple[list[str], list[str]]:
    """The trees that together hold everything but what is hidden, and the directories that had to be taken apart."""
    apart = {parent for path in hidden for parent in _parents(path)}
    readable: list[str] = [] if apart else [str(root)]
    for directory in apart:
        for entry in os.scandir(root / directory):
            relative = f"{directory}/{entry.name}" if directory else entry.name
            if relative not in apart and relative not in hidden and not entry.is_symlink():
                readable.append(entry.path)
    if len(readable) > _MAX_RULES:
        raise Unavailable("the workspace holds too many files beside protected ones")
    return readable, sorted(str(root / directory) for directory in apart)


def _parents(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path
