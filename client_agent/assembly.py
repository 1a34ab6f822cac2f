"""Puts the parts of one workspace together, the same for the daemon and for the command line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from client_agent import config
from client_agent.approvals.broker import Broker
from client_agent.approvals.permissions import Permissions
from client_agent.dispatch import Dispatcher, Recorder
from client_agent.errors import ConfigError
from client_agent.policy.judge import Judge
from client_agent.policy.paths import Protection
from client_agent.sandbox import Confinement, Sandbox, login_shell_path, open_sandbox
from client_agent.sandbox import Limits as CommandLimits
from client_agent.tools import TOOLS, ToolContext
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


def assemble(
    name: str,
    workspace: config.Workspace,
    root: Root,
    *,
    sandbox: WorkspaceSandbox,
    broker: Broker,
    recorder: Recorder,
    permissions: Permissions | None = None,
    user_id: Callable[[], str | None] | None = None,
) -> Dispatcher:
    return Dispatcher(
        name,
        context=ToolContext(root=root, workspace=workspace, sandbox=sandbox, spool_dir=spool_dir(name)),
        judge=Judge(workspace, user_id=user_id),
        broker=broker,
        recorder=recorder,
        tools=TOOLS,
        permissions=permissions,
    )


def _own_places(root: Path) -> list[str]:
    """The daemon's configuration and state, where they lie inside the workspace, relative to its root."""
    real_root = root.resolve()
    places = [place.resolve() for place in (config.config_path(), config.state_dir())]
    return [str(place.relative_to(real_root)) for place in places if place.is_relative_to(real_root)]
