"""Puts the parts of one workspace together, the same for the daemon and for the command line."""

from __future__ import annotations

from pathlib import Path

from client_agent import config
from client_agent.approvals.broker import Broker
from client_agent.approvals.permissions import Permissions
from client_agent.dispatch import Dispatcher, Recorder
from client_agent.errors import ConfigError
from client_agent.policy.judge import Judge
from client_agent.policy.paths import Protection
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


def assemble(
    name: str,
    workspace: config.Workspace,
    root: Root,
    *,
    broker: Broker,
    recorder: Recorder,
    permissions: Permissions | None = None,
    user_id: str | None = None,
) -> Dispatcher:
    return Dispatcher(
        name,
        context=ToolContext(root=root, workspace=workspace),
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
