"""The full mechanism of Linux: namespaces, Landlock and seccomp, through launchers that are kept warm."""
# Plain strings go to the launcher; /tmp is the commands' own.
# ruff: noqa: PTH116, S108

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from client_agent.errors import Unavailable
from client_agent.sandbox.environment import user_name
from client_agent.sandbox.jobs import Access, Ended, Job, Limits, Mechanism, Network
from client_agent.sandbox.launcher.cell import HOME
from client_agent.sandbox.linux import Launcher, Profile, compose_plan, fill_git, visible_directories
from client_agent.sandbox.placeholders import Placeholders
from client_agent.sandbox.protected import IsProtected, ProtectedPaths

IDLE_S = 60
_START_ATTEMPTS = 5
_PLACEHOLDERS = (".git", ".client-agent.toml")
_RESOLV_CONF = "/etc/resolv.conf"


class Running:
    """One command in a launcher."""

    def __init__(self, launcher: Launcher, call: int, ended: asyncio.Future[Ended]) -> None:
        self.ended = ended
        self._launcher = launcher
        self._call = call

    async def kill(self) -> None:
        """Ends the command and all it has started."""
        await self._launcher.kill(self._call)


class Namespaces:
    """Runs commands of one workspace. One launcher for each profile, made anew when what is protected changes."""

    home = HOME
    tmp = "/tmp"

    def __init__(
        self, workspace: Path, *, limits: Limits, toolchains: Sequence[Path], is_protected: IsProtected
    ) -> None:
        self.mechanism = Mechanism(name="namespaces", parts=())
        self.visible = visible_directories(toolchains)
        self.user = user_name()
        self._workspace = workspace
        self._limits = limits
        self._toolchains = toolchains
        self._protected = ProtectedPaths(workspace, is_protected)
        self._placeholders = Placeholders(workspace, _PLACEHOLDERS)
        self._launchers: dict[Profile, Launcher] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None
        self._resolver_stamp = 0
        self._identity = (0, 0)
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Starts the launcher for reading, by which it shows that the mechanism works here."""
        if str(self._workspace) == "/tmp":
            raise Unavailable("/tmp itself cannot be a workspace: commands have a /tmp of their own")
        async with self._lock:
            await self._refresh()
            launcher = await self._launcher(Profile(Access.READ_ONLY, Network.OFF))
        parts = ["user, mount, PID, network, IPC, UTS and cgroup namespaces", "seccomp", "no_new_privs"]
        parts.append(f"Landlock ABI {launcher.landlock_abi}" if launcher.landlock_abi > 1 else "no Landlock")
        parts.append({"by_option": "own /proc", "by_fork": "own /proc (forked)", "none": "no /proc"}[launcher.proc])
        self.mechanism = Mechanism(name="namespaces", parts=tuple(parts))
        self._rest_later()

    async def close(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        async with self._lock:
            launchers, self._launchers = list(self._launchers.values()), {}
            for task in self._leaving:
                task.cancel()
            await asyncio.gather(*(launcher.close() for launcher in launchers), *self._leaving, return_exceptions=True)
            self._placeholders.remove()
            self._protected.close()

    async def start(self, job: Job, environment: dict[str, str], directory: Path, fds: Sequence[int]) -> Running:
        async with self._lock:
            await self._refresh()
            launcher = await self._launcher(Profile(job.access, job.network))
            call, ended = await launcher.run(job.argv, environment, str(directory), fds, is_lasting=job.is_lasting)
        self._rest_later()
        return Running(launcher, call, ended)

    async def _refresh(self) -> None:
        """Sees to it that what launchers show and hide is what must be shown and hidden now."""
        found = self._workspace.stat()
        if self._identity != (found.st_dev, found.st_ino):  # another directory took the workspace's place
            self._identity = (found.st_dev, found.st_ino)
            self._protected.close()
        if self._protected.has_news and await asyncio.to_thread(self._protected.refresh):
            await self._retire(list(self._launchers))

    async def _launcher(self, profile: Profile) -> Launcher:
        if profile.network is Network.ON:
            await self._follow_resolver(profile)
        launcher = self._launchers.get(profile)
        if launcher is not None:
            if launcher.is_alive:
                return launcher
            await self._retire([profile])  # it died
        for _ in range(_START_ATTEMPTS):
            launcher = await self._start_launcher(profile)
            if not await asyncio.to_thread(self._protected.has_changed):
                self._launchers[profile] = launcher
                return launcher
            await launcher.close()  # what it was told to hide is no longer what there is
        raise Unavailable("what must be hidden in the workspace changes faster than it can be hidden")

    async def _start_launcher(self, profile: Profile) -> Launcher:
        if profile.access is Access.WRITABLE:
            self._placeholders.make()
            await self._refresh()
            repositories = fill_git(self._workspace, self._protected.git - self._placeholders.names)
            self._placeholders.make(repositories)
            await self._refresh()
        plan = compose_plan(
            self._workspace,
            profile,
            self._limits,
            self._toolchains,
            protected=self._protected,
            placeholders=self._placeholders.names,
        )
        launcher = Launcher()
        await launcher.start(plan)
        return launcher

    async def _follow_resolver(self, profile: Profile) -> None:
        """A machine that changed networks has other name servers: its launcher was told the old ones."""
        try:
            stamp = os.stat(_RESOLV_CONF).st_mtime_ns
        except OSError:
            stamp = 0
        if stamp != self._resolver_stamp:
            self._resolver_stamp = stamp
            await self._retire([profile])

    async def _retire(self, profiles: Sequence[Profile]) -> None:
        """Takes launchers out of use. One that still runs something ends when that has ended."""
        for profile in profiles:
            launcher = self._launchers.pop(profile, None)
            if launcher is None:
                continue
            if launcher.running == 0:
                await launcher.close()
            else:
                task = asyncio.create_task(launcher.close_when_idle())
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    def _rest_later(self) -> None:
        """Lets go of the launchers, each a few processes, and of the placeholders, after a while without work."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, self._rest_now)

    def _rest_now(self) -> None:
        self._resting = asyncio.get_running_loop().create_task(self._rest())

    async def _rest(self) -> None:
        async with self._lock:
            if any(launcher.running for launcher in self._launchers.values()) or self._leaving:
                self._rest_later()
            else:
                await self._retire(list(self._launchers))
                self._placeholders.remove()
