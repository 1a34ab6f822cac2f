"""Puts the parts of one workspace together, the same for the daemon and for the command line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from client_agent import config
from client_agent.errors import ConfigError, UserError
from client_agent.journal.writes import Write, Writes
from client_agent.policy.judge import Judge
from client_agent.policy.paths import Protection
from client_agent.policy.processes import ProcessFacts
from client_agent.sandbox import Access, Confinement, Network, Processes, Sandbox, login_shell_path, open_sandbox
from client_agent.sandbox import Limits as CommandLimits
from client_agent.terms import Terms
from client_agent.tools import OnOutput, ToolContext
from client_agent.undo import Open, Place
from client_agent.workspace.root import Root


def check_settings(settings: config.Settings) -> None:
    """Raises ConfigError for program tables that cannot be used, before anything is started with them."""
    for name, workspace in settings.workspaces.items():
        try:
            Judge(workspace)
        except ConfigError as error:
            prefixed = (f"workspaces.{name}.{line}" for line in error.message.splitlines())
            raise ConfigError("\n".join(prefixed)) from None


def open_root(workspace: config.Workspace) -> Root:
    """The workspace's files, with everything of ours that lies among them protected."""
    path = Path(workspace.root).expanduser()
    return Root(path, Protection(deny=workspace.policy.deny, own=_own_places(path)))


def open_place(workspaces: Callable[[], Mapping[str, config.Workspace]]) -> Open:
    """How an undo gets at the workspace of a write: by the directory it was made in, whatever that is called now."""

    @contextmanager
    def open_it(write: Write) -> Iterator[Place]:
        path = Path(write.root)
        known = (each for each in workspaces().values() if Path(each.root).expanduser().resolve() == path)
        workspace = next(known, None) or config.local_workspace(path)
        with closing(open_root(workspace)) as root:
            if root.real_path != write.root:
                raise UserError(f"the workspace {write.root} is not where it was", code="root_moved")
            yield Place(workspace, root)

    return open_it


def spool_dir(name: str) -> Path:
    """Where the output of a workspace's commands that does not fit a result is kept whole."""
    return config.state_dir() / "output" / name


class WorkspaceSandbox:
    """The sandbox of a workspace, opened by the first command: many workspaces never see one."""

    def __init__(self, workspace: config.Workspace, root: Root) -> None:
        self._workspace = workspace
        self._root = root
        self._toolchains = [Path(path).expanduser() for path in workspace.sandbox.toolchains]
        self._opening = asyncio.Lock()
        self._sandbox: Sandbox | None = None
        self.processes = Processes(workspace.limits.background_max)

    def find_process(self, handle: str, session_id: str | None) -> ProcessFacts | None:
        """A command in the background, as the judge wants to know it."""
        found = self.processes.find(handle, session_id)
        if found is None:
            return None
        job = found.job
        read_only, network = job.access is Access.READ_ONLY, job.network is Network.ON
        return ProcessFacts(argv=found.argv, read_only=read_only, network=network)

    async def get(self) -> Sandbox:
        async with self._opening:
            if self._sandbox is None:
                self._sandbox = await open_sandbox(
                    Path(self._root.real_path),
                    is_protected=self._root.protection.find,
                    limits=_command_limits(self._workspace.limits),
                    toolchains=self._toolchains,
                    search_path=await login_shell_path() or os.environ.get("PATH", ""),
                    confinement=Confinement(self._workspace.sandbox.mechanism),
                )
        return self._sandbox

    async def close(self) -> None:
        """Ends every command with all it started."""
        if self._sandbox is not None:
            await self._sandbox.close()


def _command_limits(limits: config.Limits) -> CommandLimits:
    return CommandLimits(
        wall_s=limits.command_max_s,
        output_bytes=limits.output_max_bytes,
        memory_bytes=limits.memory_max_bytes,
        processes=limits.processes_max,
        open_files=limits.open_files_max,
        file_bytes=limits.file_max_bytes,
        cpu_s=limits.cpu_max_s,
    )


class Ground:
    """What the calls of a workspace stand on while its settings stay the same: its files, its sandbox, the terms."""

    def __init__(
        self,
        name: str,
        workspace: config.Workspace,
        *,
        writes: Writes,
        user_id: Callable[[], str | None] | None = None,
        on_output: OnOutput | None = None,
    ) -> None:
        """Opens the root. Raises UserError when there is no such directory."""
        self._workspace = workspace
        self._user_id = user_id
        self._root = open_root(workspace)
        self._sandbox = WorkspaceSandbox(workspace, self._root)
        self._context = ToolContext(
            root=self._root,
            workspace=workspace,
            sandbox=self._sandbox,
            spool_dir=spool_dir(name),
            keeping=partial(writes.keeper, name, self._root.real_path),
            on_output=on_output,
        )
        self._earlier: list[Terms] = []
        self.terms = self._make_terms()
        self._closed = False

    @property
    def processes(self) -> Processes:
        """Those in the background."""
        return self._sandbox.processes

    def bears(self, workspace: config.Workspace) -> bool:
        """Whether the files and the sandbox are the same under these settings: then only decisions differ."""
        return _bearing(workspace) == _bearing(self._workspace)

    def decide_by(self, workspace: config.Workspace) -> None:
        """New terms on the same ground."""
        self._workspace = workspace
        self._earlier.append(self.terms)
        self._context = msgspec.structs.replace(self._context, workspace=workspace)
        self.terms = self._make_terms()

    async def close(self) -> None:
        """Ends every command with all it started. No other call may be under way. May be said again."""
        await self._sandbox.close()
        if not self._closed:
            self._closed = True
            self._root.close()

    async def close_when_unused(self) -> None:
        """Lets the calls that began here end first."""
        for terms in (*self._earlier, self.terms):
            await terms.wait_until_unheld()
        await self.close()

    def _make_terms(self) -> Terms:
        judge = Judge(self._workspace, user_id=self._user_id, find_process=self._sandbox.find_process)
        return Terms(self._context, judge)


def _bearing(workspace: config.Workspace) -> tuple[object, ...]:
    return workspace.root, workspace.limits, workspace.sandbox, workspace.policy.deny


def _own_places(root: Path) -> list[str]:
    """The daemon's configuration and state, where they lie inside the workspace, relative to its root."""
    real_root = root.resolve()
    places = [place.resolve() for place in (config.config_path(), config.state_dir())]
    return [str(place.relative_to(real_root)) for place in places if place.is_relative_to(real_root)]
